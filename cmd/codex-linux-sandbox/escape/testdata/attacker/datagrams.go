package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Unix sockets that carry datagrams, and the calls that send with an address.

func init() {
	attacks["unix datagrams"] = func([]string) { unixDatagrams() }
	attacks["messages"] = func([]string) { messages() }
	attacks["exchanged datagrams"] = func(args []string) { exchangeWhileSending(args[0]) }
	attacks["first datagram"] = func(args []string) { firstDatagram(args[0]) }
	attacks["blocked datagrams"] = func([]string) { blockedDatagrams() }
}

const magicFlags = unix.MSG_RST | unix.MSG_SYN

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

// path returns struct sockaddr_un in memory, and its size.
func path(name string) (uintptr, uintptr) {
	a := new(unix.RawSockaddrUnix)
	a.Family = unix.AF_UNIX
	for i := range name {
		a.Path[i] = int8(name[i])
	}
	if name != "" && name[0] == '@' {
		a.Path[0] = 0
		return pointer(a), uintptr(2 + len(name))
	}
	return pointer(a), uintptr(2 + len(name) + 1)
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

// sends are the calls that send to an address, each of which sends one byte.
func sends(fd int, address, size uintptr) map[string]func() (uintptr, unix.Errno) {
	vectors, count := vectorsOf("x")
	h := &header{name: address, size: uint32(size), vectors: vectors, count: count}
	m := &mmsg{header: *h}
	return map[string]func() (uintptr, unix.Errno){
		"sendto":   func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDTO, uintptr(fd), text("x"), 1, 0, address, size) },
		"sendmsg":  func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDMSG, uintptr(fd), pointer(h), 0) },
		"sendmmsg": func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDMMSG, uintptr(fd), pointer(m), 1, 0) },
	}
}

// datagrams makes a socket with a name; "": it has none.
func datagrams(name string) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	broken("socket", err)
	if name != "" {
		broken("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	}
	return fd
}

// unixDatagrams uses every way to send a datagram to a socket of its own.
func unixDatagrams() {
	cwd, err := os.Getwd()
	broken("find the directory", err)
	server, abstract := datagrams("server"), datagrams("@server")
	client := datagrams("client")
	arrives := func(what string, at int, want string) {
		b := make([]byte, 100)
		n, from, err := unix.Recvfrom(at, b, unix.MSG_DONTWAIT)
		if err != nil || string(b[:n]) != want {
			fmt.Println("fails:", what, string(b[:max(n, 0)]), err)
		}
		if a, ok := from.(*unix.SockaddrUnix); what != "a pair" && (!ok || a.Name != "client") {
			fmt.Println("fails:", what, "comes from", from)
		}
	}
	for name, to := range map[string]int{"server": server, cwd + "/server": server, cwd + "/../" + cwd[len(cwd)-2:] + "/server": server, "@server": abstract} {
		address, size := path(name)
		for call, f := range sends(client, address, size) {
			if n, errno := f(); n != 1 || errno != 0 {
				fmt.Println("fails:", call, "to", name, errno)
			}
			arrives(call+" to "+name, to, "x")
		}
	}
	broken("connect", unix.Connect(client, &unix.SockaddrUnix{Name: "server"}))
	_, err = unix.Write(client, []byte("written"))
	broken("write", err)
	arrives("write", server, "written")
	_, err = unix.SendmsgBuffers(client, [][]byte{[]byte("two "), []byte("parts")}, nil, nil, 0)
	broken("sendmsg", err)
	arrives("sendmsg", server, "two parts")
	_ = unix.Sendto(server, []byte("back"), 0, &unix.SockaddrUnix{Name: "client"})
	if n, err := unix.Read(client, make([]byte, 10)); n != 4 {
		fmt.Println("fails: an answer:", n, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	broken("socketpair", err)
	_ = unix.Sendmsg(pair[0], []byte("in a pair"), nil, nil, 0)
	arrives("a pair", pair[1], "in a pair")
	sendDescriptor(pair)
	largeStream()
}

// sendDescriptor passes a pipe over a pair.
func sendDescriptor(pair [2]int) {
	var pipe [2]int
	broken("pipe", unix.Pipe(pipe[:]))
	credentials := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	broken("ask for credentials", unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	if err := unix.Sendmsg(pair[0], []byte("x"), append(unix.UnixRights(pipe[1]), credentials...), nil, 0); err != nil {
		fmt.Println("fails: send a descriptor:", err)
		return
	}
	oob := make([]byte, 1000)
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
	broken("recvmsg", err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	broken("parse", err)
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && len(fds) == 1 {
			_, err = unix.Write(fds[0], []byte("through"))
			b := make([]byte, 10)
			if n, _ := unix.Read(pipe[0], b); err != nil || string(b[:n]) != "through" {
				fmt.Println("fails: use a descriptor:", err)
			}
			return
		}
		if c, err := unix.ParseUnixCredentials(&messages[i]); err == nil && int(c.Uid) != os.Getuid() {
			fmt.Println("fails: the user is", c.Uid)
		}
	}
	fmt.Println("fails: no descriptor has come")
}

// largeStream sends more than a socket takes, in one call and several parts.
func largeStream() {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	text := bytes.Repeat([]byte("0123456789abcde"), 100_000)
	go func() {
		n, err := unix.SendmsgBuffers(pair[0], [][]byte{text[:7], nil, text[7:900_000], text[900_000:]}, nil, nil, 0)
		if n != len(text) {
			fmt.Println("fails: a large stream:", n, err)
		}
		_ = unix.Close(pair[0])
	}()
	var got []byte
	for b := make([]byte, 50_000); ; {
		n, err := unix.Read(pair[1], b)
		if n <= 0 || err != nil {
			break
		}
		got = append(got, b[:n]...)
	}
	if !bytes.Equal(got, text) {
		fmt.Println("fails: a large stream is", len(got))
	}
}

// messages makes calls that have errors, and tells which. They are the same with and
// without a sandbox.
func messages() {
	pipes := make(chan os.Signal, 1)
	server, client := datagrams("server"), datagrams("")
	stream, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	packets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	broken("socketpair", err)
	file, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	broken("open", err)
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	broken("socket", err)
	closed, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	_ = unix.Close(closed[1])
	signal.Notify(pipes, unix.SIGPIPE)
	address, size := path("server")
	missing, missingSize := path("missing")
	dir, dirSize := path(".")
	vectors, count := vectorsOf("x")
	const nowhere, huge, large = 8, 1 << 62, 1 << 30
	rights := func(numbers ...int) (uintptr, uintptr) {
		b := unix.UnixRights(numbers...)
		keep = append(keep, b)
		return uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))
	}
	other, otherSize := rights(99)
	many, manySize := rights(make([]int, 254)...)
	wrong := pointer(&[3]uintptr{1 << 40, unix.SOL_SOCKET | unix.SCM_RIGHTS<<32, 0})
	short := pointer(&[3]uintptr{3, unix.SOL_SOCKET | unix.SCM_RIGHTS<<32, 0})
	unknown := pointer(&[3]uintptr{20, unix.SOL_SOCKET | 77<<32, 0})
	twice := pointer(&[4]iovec{{text("ab"), 2}, {nowhere, 0}, {nowhere, 5}})
	for i, h := range []*header{
		{name: address, size: uint32(size), vectors: vectors, count: count},
		{vectors: vectors, count: count},
		{name: missing, size: uint32(missingSize), vectors: vectors, count: count},
		{name: dir, size: uint32(dirSize), vectors: vectors, count: count},
		{name: address, size: 1 << 31, vectors: vectors, count: count},
		{name: address, size: 200, vectors: vectors, count: count},
		{name: address, size: 1, vectors: vectors, count: count},
		{name: address, size: 2, vectors: vectors, count: count},
		{name: nowhere, size: 10, vectors: vectors, count: count},
		{name: address, size: uint32(size), vectors: vectors, count: 1025},
		{name: address, size: uint32(size), vectors: vectors, count: huge},
		{name: address, size: uint32(size), vectors: nowhere, count: 1},
		{name: address, size: uint32(size), vectors: pointer(&iovec{text("x"), huge * 2}), count: 1},
		{name: address, size: uint32(size), vectors: pointer(&iovec{text("x"), large}), count: 1}, // of a huge one kernels differ: EFAULT or EMSGSIZE
		{name: address, size: uint32(size), vectors: pointer(&iovec{nowhere, 10}), count: 1},
		{name: address, size: uint32(size), vectors: twice, count: 3},
		{name: address, size: uint32(size)},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: nowhere, controlled: 100},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: other, controlled: huge},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: other, controlled: otherSize},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: many, controlled: manySize},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: wrong, controlled: 24},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: short, controlled: 24},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: unknown, controlled: 20},
		{name: address, size: uint32(size), vectors: vectors, count: count, control: unknown, controlled: 7},
	} {
		for on, fd := range []int{client, stream[0], packets[0], file, udp, 99, -1, closed[0]} {
			// Both are of the internet, or of neither: what the kernel makes of an address
			// of another family is not of interest.
			if fd == udp && i != 1 {
				continue
			}
			n, errno := raw(unix.SYS_SENDMSG, uintptr(fd), pointer(h), unix.MSG_DONTWAIT)
			fmt.Println("message", i, "on", on, int(n), errno)
			for _, at := range []int{server, stream[1], packets[1]} {
				_, _, _ = unix.Recvfrom(at, make([]byte, 100), unix.MSG_DONTWAIT)
			}
		}
	}
	fmt.Println(<-pipes)
	all := make([]mmsg, 3)
	for i := range all {
		all[i].header = header{name: address, size: uint32(size), vectors: vectors, count: count}
	}
	all[2].vectors = nowhere
	for _, count := range []uintptr{3, 2, 0, 1 << 32} {
		n, errno := raw(unix.SYS_SENDMMSG, uintptr(client), pointer(&all[0]), count, 0)
		fmt.Println("several", count, int(n), errno, all[0].sent, all[1].sent, all[2].sent)
	}
	n, errno := raw(unix.SYS_SENDMMSG, uintptr(client), nowhere, 1, 0)
	fmt.Println("several nowhere", int(n), errno)
	n, errno = raw(unix.SYS_SENDMSG, uintptr(client), nowhere, 0)
	fmt.Println("nowhere", int(n), errno)
	n, errno = raw(unix.SYS_SENDTO, uintptr(client), text("x"), 1, 0, address, 1<<31)
	fmt.Println("sendto", int(n), errno)
	n, errno = raw(unix.SYS_SENDMSG, uintptr(client), pointer(&header{name: address, size: uint32(size)}), 1<<31)
	fmt.Println("flags", int(n), errno)
}

// background makes a function's calls again and again, in another thread.
func background(stop *atomic.Bool, f func()) {
	go func() {
		runtime.LockOSThread()
		for !stop.Load() {
			f()
		}
	}()
}

// exchangeWhileSending sends again and again while other threads exchange what the call is
// about: the files, the memory of the message, the descriptor.
func exchangeWhileSending(host string) {
	var stop atomic.Bool
	defer stop.Store(true)
	mine, fd := datagrams("mine"), datagrams("")
	broken("link the socket", os.Link(host, "x"))
	broken("link a socket", os.Link("mine", "y"))
	background(&stop, func() { _ = unix.Renameat2(unix.AT_FDCWD, "x", unix.AT_FDCWD, "y", unix.RENAME_EXCHANGE) })
	address, size := path("x")
	other, _ := path("mine")
	vectors, count := vectorsOf("x")
	h := &mmsg{header: header{name: address, size: uint32(size), vectors: vectors, count: count}}
	name := (*[3]byte)(unsafe.Pointer(address + 2))
	background(&stop, func() {
		name[0] = 'x'
		h.name, h.size = other, 2+5
		name[0] = 'y'
		h.name, h.size = address, uint32(size)
	})
	own := 0
	for call, f := range map[string]func() (uintptr, unix.Errno){
		"sendto":   func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDTO, uintptr(fd), text("x"), 1, 0, address, size) },
		"sendmsg":  func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDMSG, uintptr(fd), pointer(&h.header), 0) },
		"sendmmsg": func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDMMSG, uintptr(fd), pointer(h), 1, 0) },
		"connect": func() (uintptr, unix.Errno) {
			if n, errno := raw(unix.SYS_CONNECT, uintptr(fd), address, size); errno != 0 {
				return n, errno
			}
			return raw(unix.SYS_WRITE, uintptr(fd), text("x"), 1)
		},
	} {
		for range races / 10 {
			if _, errno := f(); errno != 0 {
				continue
			}
			// Whatever was sent has come to the own socket, or it has gone elsewhere.
			if _, _, err := unix.Recvfrom(mine, make([]byte, 10), unix.MSG_DONTWAIT); err != nil {
				breach(call + " to a socket of the host")
				return
			}
			own++
		}
	}
	if own == 0 {
		broken("send to its own socket", unix.ECONNREFUSED)
	}
	exchangeDescriptor(&stop, fd, host)
	passSocket(host)
	held("exchange", unix.EPERM)
}

// exchangeDescriptor sends to a socket of the host from a descriptor that changes between a
// stream and a socket for datagrams.
func exchangeDescriptor(stop *atomic.Bool, datagrams int, host string) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	fd, err := unix.Dup(pair[0])
	broken("dup", err)
	background(stop, func() {
		_ = unix.Dup3(datagrams, fd, 0)
		_ = unix.Dup3(pair[0], fd, 0)
	})
	address, size := path(host)
	for call, f := range sends(fd, address, size) {
		for range races / 10 {
			if _, errno := f(); errno == 0 {
				breach(call + " from an exchanged descriptor")
				return
			}
		}
	}
}

// passSocket sends from a socket that has been passed over another, and with the flags of
// the launcher's own messages.
func passSocket(host string) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	broken("pass a socket", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(datagrams("")), nil, 0))
	oob := make([]byte, 100)
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
	broken("recvmsg", err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	broken("parse", err)
	fds, err := unix.ParseUnixRights(&messages[0])
	broken("parse", err)
	address, size := path(host)
	for call, f := range sends(fds[0], address, size) {
		_, errno := f()
		if errno == 0 {
			breach(call + " from a passed socket")
		}
	}
	vectors, count := vectorsOf("x")
	h := pointer(&header{name: address, size: uint32(size), vectors: vectors, count: count})
	if _, errno := raw(unix.SYS_SENDMSG, uintptr(fds[0]), h, magicFlags); errno == 0 {
		breach("sendmsg with the launcher's flags")
	}
}

// firstDatagram sends from a stream to the address of the host's socket, in many threads,
// when the first socket for datagrams takes the place of the stream.
func firstDatagram(host string) {
	var stop atomic.Bool
	var arrived, made atomic.Int32
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	address, size := path(host)
	calls := sends(pair[0], address, size)
	var running atomic.Int32
	for _, call := range []string{"sendto", "sendmsg", "sendmmsg", "sendmsg"} {
		vectors, count := vectorsOf("x")
		m := pointer(&mmsg{header: header{name: address, size: uint32(size), vectors: vectors, count: count}})
		running.Add(1)
		f := calls[call]
		if call != "sendto" {
			nr, last := uintptr(unix.SYS_SENDMSG), []uintptr{0}
			if call == "sendmmsg" {
				nr, last = unix.SYS_SENDMMSG, []uintptr{1, 0}
			}
			f = func() (uintptr, unix.Errno) { return raw(nr, append([]uintptr{uintptr(pair[0]), m}, last...)...) }
		} else {
			x := text("x")
			f = func() (uintptr, unix.Errno) { return raw(unix.SYS_SENDTO, uintptr(pair[0]), x, 1, 0, address, size) }
		}
		first := true
		background(&stop, func() {
			if _, errno := f(); errno == 0 {
				arrived.Add(1)
			}
			made.Add(1)
			if first {
				first = false
				running.Add(-1)
			}
		})
	}
	for running.Load() > 0 {
		runtime.Gosched()
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		held("the first socket", err)
		return
	}
	_ = unix.Dup3(fd, pair[0], 0)
	for before := made.Load(); made.Load() < before+races/10; {
		runtime.Gosched()
	}
	stop.Store(true)
	if arrived.Load() > 0 {
		breach("a datagram has left")
	}
}

// blockedDatagrams has more threads than the launcher wait for room, and then reads; it ends
// while others wait.
func blockedDatagrams() {
	const senders = 80
	mine := datagrams("full")
	var sent atomic.Int32
	for range senders {
		go func() {
			runtime.LockOSThread()
			fd := datagrams("")
			for range 3 {
				if err := unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: "full"}); err != nil {
					fmt.Println("fails: send:", err)
				}
				sent.Add(1)
			}
		}()
	}
	for range 2 * senders {
		if _, err := unix.Read(mine, make([]byte, 1)); err != nil {
			fmt.Println("fails: read:", err)
		}
	}
	fmt.Println("most have come", sent.Load() >= 2*senders-senders)
}
