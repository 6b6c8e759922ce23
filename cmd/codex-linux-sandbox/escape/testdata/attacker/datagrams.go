package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file uses Unix datagram sockets, pairs of them, and the calls that send to an address.

func init() {
	attacks["pairs of datagrams"] = func([]string) { datagramPairs() }
	attacks["errors of pairs"] = func([]string) { errorsOfPairs() }
	attacks["datagram"] = func(args []string) {
		sendOutside("an abstract socket", "@"+args[0])
		sendOutside("a socket in the file system", args[1])
	}
	attacks["exchanged datagrams"] = func(args []string) { exchangeWhileSending(args[0]) }
}

// header is struct msghdr with numbers in place of pointers.
type header struct {
	name                uintptr
	size                uint32
	vectors, count      uintptr
	control, controlled uintptr
	flags               int32
}

// mmsg is struct mmsghdr.
type mmsg struct {
	header
	sent uint32
}

type iovec struct{ base, size uintptr }

// unixAddress returns struct sockaddr_un, and its size.
func unixAddress(name string) (*unix.RawSockaddrUnix, uintptr) {
	a := &unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	for i := range name {
		a.Path[i] = int8(name[i])
	}
	if name[0] == '@' {
		a.Path[0] = 0
		return a, uintptr(2 + len(name))
	}
	return a, uintptr(2 + len(name) + 1)
}

// vectorsOf returns struct iovec of texts.
func vectorsOf(texts ...string) (uintptr, uintptr) {
	list := make([]iovec, 0, len(texts)+1)
	for _, s := range texts {
		list = append(list, iovec{text(s), uintptr(len(s))})
	}
	keep = append(keep, list)
	return uintptr(unsafe.Pointer(unsafe.SliceData(list))), uintptr(len(texts))
}

// sends are the ways to send one byte to an address.
func sends(fd int, address, size uintptr) map[string]func() unix.Errno {
	vectors, count := vectorsOf("x")
	m := pointer(&mmsg{header: header{name: address, size: uint32(size), vectors: vectors, count: count}})
	x := text("x")
	errnoOf := func(_ uintptr, errno unix.Errno) unix.Errno { return errno }
	return map[string]func() unix.Errno{
		"sendto":             func() unix.Errno { return errnoOf(raw(unix.SYS_SENDTO, uintptr(fd), x, 1, 0, address, size)) },
		"sendmsg":            func() unix.Errno { return errnoOf(raw(unix.SYS_SENDMSG, uintptr(fd), m, 0)) },
		"sendmsg, confirm":   func() unix.Errno { return errnoOf(raw(unix.SYS_SENDMSG, uintptr(fd), m, unix.MSG_CONFIRM)) },
		"sendmsg, odd flags": func() unix.Errno { return errnoOf(raw(unix.SYS_SENDMSG, uintptr(fd), m, unix.MSG_RST|unix.MSG_SYN)) },
		"sendmmsg":           func() unix.Errno { return errnoOf(raw(unix.SYS_SENDMMSG, uintptr(fd), m, 1, 0)) },
		"connect and write": func() unix.Errno {
			if errno := errnoOf(raw(unix.SYS_CONNECT, uintptr(fd), address, size)); errno != 0 {
				return errno
			}
			return errnoOf(raw(unix.SYS_WRITE, uintptr(fd), x, 1))
		},
	}
}

// datagramPair returns a pair of datagram sockets. It returns false if the sandbox refuses pairs.
func datagramPair() (pair [2]int, ok bool) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		held("a pair of datagrams", err)
	}
	return pair, err == nil
}

// arrived reports whether a message has arrived at the other end of a pair. If a sent message has
// not arrived there, it went elsewhere.
func arrived(end int) bool {
	_, _, err := unix.Recvfrom(end, make([]byte, 10), unix.MSG_DONTWAIT)
	return err == nil
}

// sendOutside sends to a socket of the host in every way, from every socket that a command can have.
func sendOutside(what, name string) {
	to, size := unixAddress(name)
	address := pointer(to)
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} {
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err != nil {
			held("a socket", err)
			continue
		}
		for call, f := range sends(fd, address, size) {
			if errno := f(); errno == 0 {
				breach(call + " to " + what)
			}
		}
	}
	pair, ok := datagramPair()
	if !ok {
		return
	}
	for end, fd := range map[string]int{"an end": pair[0], "an end that was passed": passed(pair[0])} {
		for call, f := range sends(fd, address, size) {
			if errno := f(); errno != 0 {
				held(call, errno)
			} else if !arrived(pair[1]) {
				breach(call + " from " + end + " of a pair to " + what)
			}
		}
	}
}

// passed sends a descriptor over a pair of streams to this process itself.
func passed(fd int) int {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	broken("pass a socket", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0))
	return receivedDescriptor(pair[1])
}

// receivedDescriptor returns the descriptor in the next message.
func receivedDescriptor(from int) int {
	oob := make([]byte, 1000)
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, 0)
	broken("recvmsg", err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	broken("parse", err)
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && len(fds) == 1 {
			return fds[0]
		}
		if c, err := unix.ParseUnixCredentials(&messages[i]); err == nil && (int(c.Uid) != os.Getuid() || int(c.Pid) != os.Getpid()) {
			fmt.Println("fails: the sender is", c.Uid, c.Pid)
		}
	}
	fmt.Println("fails: no descriptor has come")
	return -1
}

// exchangeWhileSending sends to a socket of the host while other threads replace the arguments of the
// calls: the address, and the descriptor, which is a stream or an end of a pair of datagram sockets.
func exchangeWhileSending(host string) {
	var stop atomic.Bool
	defer stop.Store(true)
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	pair, ok := datagramPair()
	if !ok {
		return
	}
	fd, err := unix.Dup(stream[0])
	broken("dup", err)
	to, size := unixAddress(host)
	address := pointer(to)
	background := func(f func()) {
		go func() {
			runtime.LockOSThread()
			for !stop.Load() {
				f()
			}
		}()
	}
	background(func() {
		_ = unix.Dup3(pair[0], fd, 0)
		_ = unix.Dup3(stream[0], fd, 0)
	})
	background(func() {
		to.Family = unix.AF_UNSPEC
		to.Family = unix.AF_UNIX
	})
	for call, f := range sends(fd, address, size) {
		rounds := 20 * races // on a machine with one processor few calls coincide with a replacement
		if call == "connect and write" {
			rounds = races // the launcher answers each call
		}
		for range rounds {
			if f() == 0 && !arrived(pair[1]) && !arrived(stream[1]) {
				breach(call + " from an exchanged descriptor")
				return
			}
		}
	}
	held("exchange", unix.EPERM)
}

// datagramPairs uses pairs of datagram sockets: messages keep their boundaries, and carry descriptors and credentials.
func datagramPairs() {
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} {
		if _, err := unix.Socket(unix.AF_UNIX, kind, 0); err != unix.EPERM {
			fmt.Println("fails: a socket of kind", kind, err)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	broken("socketpair", err)
	for _, s := range []string{"first", "", "second"} {
		broken("sendto", unix.Sendto(pair[0], []byte(s), 0, nil))
	}
	for _, want := range []string{"first", "", "second"} {
		b := make([]byte, 100)
		n, _, err := unix.Recvfrom(pair[1], b, unix.MSG_DONTWAIT)
		if err != nil || string(b[:n]) != want {
			fmt.Println("fails: a message is", string(b[:max(n, 0)]), err)
		}
	}
	large := bytes.Repeat([]byte("x"), 60_000)
	n, err := unix.Write(pair[1], large)
	got, errRead := unix.Read(pair[0], make([]byte, 1<<17))
	if n != len(large) || got != n || err != nil || errRead != nil {
		fmt.Println("fails: a large message:", n, err, got, errRead)
	}
	passOverPair(pair)
	flagsOfPairs()
	const threads = 80 // more threads than the launcher has
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err == nil {
				_, err = unix.Write(pair[0], []byte("x"))
			}
			if err != nil || !arrived(pair[1]) {
				fmt.Println("fails: a pair of many:", err)
			}
		})
	}
	all.Wait()
}

// passOverPair passes a pipe over a pair, with credentials.
func passOverPair(pair [2]int) {
	var pipe [2]int
	broken("pipe", unix.Pipe(pipe[:]))
	credentials := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	broken("ask for credentials", unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	if err := unix.Sendmsg(pair[0], []byte("x"), append(unix.UnixRights(pipe[1]), credentials...), nil, 0); err != nil {
		fmt.Println("fails: send a descriptor:", err)
		return
	}
	_, err := unix.Write(receivedDescriptor(pair[1]), []byte("through"))
	b := make([]byte, 10)
	if n, _ := unix.Read(pipe[0], b); err != nil || string(b[:max(n, 0)]) != "through" {
		fmt.Println("fails: use a descriptor:", err)
	}
}

// flagsOfPairs makes pairs with each flag.
func flagsOfPairs() {
	for _, flags := range []int{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|flags, unix.AF_UNIX)
		broken("socketpair", err)
		for _, fd := range pair {
			of, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if of != 0 != (flags&unix.SOCK_CLOEXEC != 0) || mode&unix.O_NONBLOCK != flags&unix.SOCK_NONBLOCK {
				fmt.Printf("fails: a pair with flags %#x has %#x and %#x\n", flags, of, mode)
			}
		}
	}
}

// errorsOfPairs prints the errors of socketpair, and checks that no failed call leaves a descriptor open. The errors are the
// same with and without a sandbox.
func errorsOfPairs() {
	next, err := unix.Dup(0)
	broken("dup", err)
	broken("close", unix.Close(next))
	const nowhere = 8
	at := pointer(&[2]int32{})
	for name, args := range map[string][4]uintptr{
		"a protocol": {unix.AF_UNIX, unix.SOCK_DGRAM, 77, at},
		"a flag":     {unix.AF_UNIX, unix.SOCK_DGRAM | 1<<20, 0, at},
		"nowhere":    {unix.AF_UNIX, unix.SOCK_DGRAM, 0, nowhere},
		"high":       {unix.AF_UNIX, unix.SOCK_DGRAM, 0, 1 << 63},
	} {
		if _, errno := raw(unix.SYS_SOCKETPAIR, args[0], args[1], args[2], args[3]); errno != map[string]unix.Errno{
			"a protocol": unix.EPROTONOSUPPORT, "a flag": unix.EINVAL, "nowhere": unix.EFAULT, "high": unix.EFAULT,
		}[name] {
			fmt.Println("fails:", name, errno)
		}
	}
	if again, err := unix.Dup(0); again != next || err != nil {
		fmt.Println("fails: the next descriptor is", again, "and was", next)
	}
	limit := unix.Rlimit{Cur: uint64(next), Max: uint64(next)}
	broken("limit descriptors", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if _, errno := raw(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0, at); errno != unix.EMFILE {
		fmt.Println("fails: without descriptors:", errno)
	}
}
