package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These attacks use the command's own sockets, and try to reach sockets of the host from them. A
// server of the host greets with hostGreeting.

const (
	hostGreeting = 'h'
	ownGreeting  = 'o'
	// races is the number of tries to replace an argument during a call.
	races = 500
)

func init() {
	attacks["own sockets"] = func(args []string) { ownSockets(len(args) == 0) }
	attacks["pairs"] = func([]string) { pairs() }
	attacks["host sockets"] = func(args []string) { hostSockets(args[0], args[1]) }
	attacks["exchanged connections"] = func(args []string) { exchangeWhileConnecting(args[0]) }
}

// listener makes a server that greets.
func listener(family, kind int, address unix.Sockaddr) (int, unix.Sockaddr, error) {
	fd, err := unix.Socket(family, kind, 0)
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err == nil {
		err = unix.Listen(fd, 100)
	}
	if err != nil {
		return -1, nil, err
	}
	bound, err := unix.Getsockname(fd)
	go func() {
		for {
			peer, _, err := unix.Accept(fd)
			if err != nil {
				return
			}
			_, _ = unix.Write(peer, []byte{ownGreeting})
			_ = unix.Close(peer)
		}
	}()
	return fd, bound, err
}

// greeted connects and returns the greeting.
func greeted(fd int, to unix.Sockaddr) (byte, error) {
	if err := unix.Connect(fd, to); err != nil {
		return 0, err
	}
	b := make([]byte, 1)
	_, err := unix.Read(fd, b)
	return b[0], err
}

// ownSockets uses every kind of socket that a command may create.
func ownSockets(writable bool) {
	cwd, err := os.Getwd()
	broken("find the directory", err)
	if writable {
		broken("make a directory", os.Mkdir("dir", 0o755))
		broken("make a link", os.Symlink(cwd+"/dir", "link"))
	}
	type try struct {
		name         string
		family, kind int
		bind, to     unix.Sockaddr
	}
	path := func(s string) unix.Sockaddr { return &unix.SockaddrUnix{Name: s} }
	loopback6 := [16]byte{15: 1}
	for _, t := range []try{
		{"tcp", unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, nil},
		{"another address", unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 9, 8, 7}}, nil},
		{"tcp6", unix.AF_INET6, unix.SOCK_STREAM, &unix.SockaddrInet6{Addr: loopback6}, nil},
		{"stream", unix.AF_UNIX, unix.SOCK_STREAM, path("a"), path("a")},
		{"packets", unix.AF_UNIX, unix.SOCK_SEQPACKET, path("b"), path("b")},
		{"absolute", unix.AF_UNIX, unix.SOCK_STREAM, path("dir/c"), path(cwd + "/dir/c")},
		{"through a link", unix.AF_UNIX, unix.SOCK_STREAM, path("dir/d"), path(cwd + "/link/d")},
		{"upwards", unix.AF_UNIX, unix.SOCK_STREAM, path("e"), path("dir/../e")},
		{"abstract", unix.AF_UNIX, unix.SOCK_STREAM, path("@own"), path("@own")},
	} {
		_, bound, err := listener(t.family, t.kind, t.bind)
		if err != nil {
			fmt.Println("fails:", t.name, err)
			continue
		}
		if t.to == nil {
			t.to = bound
		}
		for _, more := range []int{0, unix.SOCK_NONBLOCK} {
			fd, err := unix.Socket(t.family, t.kind|more, 0)
			broken("socket", err)
			switch err := unix.Connect(fd, t.to); {
			case err == unix.EINPROGRESS:
			case err != nil:
				fmt.Println("fails:", t.name, err)
			}
			_ = unix.SetNonblock(fd, false)
			b := make([]byte, 1)
			if _, err := unix.Read(fd, b); err != nil || b[0] != ownGreeting {
				fmt.Println("fails:", t.name, b, err)
			}
			_ = unix.Close(fd)
		}
	}
	ownDatagrams()
	pairs()
	errorsOfConnect(cwd)
}

// ownDatagrams sends UDP to itself.
func ownDatagrams() {
	for name, to := range map[string]unix.Sockaddr{
		"udp": &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, "udp6": &unix.SockaddrInet6{Addr: [16]byte{15: 1}},
	} {
		family := unix.AF_INET
		if name == "udp6" {
			family = unix.AF_INET6
		}
		server, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if err != nil {
			fmt.Println("fails:", name, err)
			continue
		}
		broken("bind", unix.Bind(server, to))
		to, err = unix.Getsockname(server)
		broken("getsockname", err)
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		broken("socket", err)
		err = unix.Sendto(fd, []byte("1"), 0, to)
		if err == nil {
			err = unix.Sendmsg(fd, []byte("2"), nil, to, 0)
		}
		if err == nil {
			err = unix.Connect(fd, to)
		}
		if err == nil {
			_, err = unix.Write(fd, []byte("3"))
		}
		for range 3 {
			if err == nil {
				_, err = unix.Read(server, make([]byte, 1))
			}
		}
		if err != nil {
			fmt.Println("fails:", name, err)
		}
	}
}

// errorsOfConnect compares the errors of connect with the kernel's errors, and with the refusals of
// the sandbox.
func errorsOfConnect(cwd string) {
	path := func(s string) unix.Sockaddr { return &unix.SockaddrUnix{Name: s} }
	for name, want := range map[string]error{"none": unix.ENOENT, "dir": unix.ECONNREFUSED, cwd + "/link/none": unix.ENOENT, "a/b": unix.ENOTDIR} {
		fd, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err := unix.Connect(fd, path(name)); err != want {
			fmt.Println("fails: connect to", name, err)
		}
	}
	if err := unix.Connect(-1, path("a")); err != unix.EBADF {
		fmt.Println("fails: connect of no socket:", err)
	}
	for name, address := range map[string]*unix.SockaddrInet4{
		"an address": {Addr: [4]byte{192, 0, 2, 1}, Port: 80}, "a name server": {Addr: [4]byte{8, 8, 8, 8}, Port: 53},
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			fd, _ := unix.Socket(unix.AF_INET, kind, 0)
			if err := unix.Connect(fd, address); err != unix.EPERM {
				fmt.Println("fails: connect to", name, err)
			}
		}
	}
}

// pairs uses socket pairs.
func pairs() {
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
		if err == nil {
			err = unix.Sendto(fds[0], []byte("1"), 0, nil)
		}
		if err == nil {
			_, err = unix.SendmsgN(fds[0], []byte("2"), unix.UnixRights(0), nil, 0)
		}
		if err == nil {
			_, err = unix.Getpeername(fds[0])
		}
		if err == nil {
			_, err = unix.Getsockname(fds[0])
		}
		if err == nil {
			err = unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_RCVBUF, 10000)
		}
		if err == nil {
			_, err = unix.GetsockoptUcred(fds[0], unix.SOL_SOCKET, unix.SO_PEERCRED)
		}
		for _, nr := range []uintptr{unix.SYS_SENDMMSG, unix.SYS_RECVMMSG} {
			if _, errno := raw(nr, uintptr(fds[0]), 0, 0); err == nil && errno != 0 {
				err = errno
			}
		}
		if err == nil {
			err = unix.Shutdown(fds[0], unix.SHUT_WR)
		}
		if err != nil {
			fmt.Println("fails: a pair of kind", kind, err)
		}
	}
}

// hostSockets tries to reach servers of the host whose sockets are in a writable directory: a
// stream socket, a packet socket beside it and a datagram socket.
func hostSockets(stream, datagrams string) {
	reach := func(what string, kind int, to string) {
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err != nil {
			held(what, err)
			return
		}
		defer unix.Close(fd)
		address := &unix.SockaddrUnix{Name: to}
		try("connect to "+what, unix.Connect(fd, address))
		if kind == unix.SOCK_DGRAM {
			try("sendto "+what, unix.Sendto(fd, []byte("leak"), 0, address))
			try("sendmsg to "+what, unix.Sendmsg(fd, []byte("leak"), nil, address, 0))
		}
	}
	cwd, err := os.Getwd()
	broken("find the directory", err)
	for name, kind := range map[string]int{stream: unix.SOCK_STREAM, stream + "-p": unix.SOCK_SEQPACKET, datagrams: unix.SOCK_DGRAM} {
		relative, err := filepath.Rel(cwd, name)
		broken("find a path", err)
		link, hard := cwd+"/l-"+filepath.Base(name), cwd+"/h-"+filepath.Base(name)
		broken("make a link", os.Symlink(name, link))
		for what, to := range map[string]string{"a socket": name, "a relative path": relative, "a link": link, "itself": filepath.Dir(name) + "/../" + filepath.Base(filepath.Dir(name)) + "/" + filepath.Base(name)} {
			reach(what, kind, to)
		}
		if os.Link(name, hard) == nil {
			reach("a hard link", kind, hard)
		}
		if kind == unix.SOCK_DGRAM {
			continue
		}
		// A socket of the command has had the name before.
		if _, _, err := listener(unix.AF_UNIX, kind, &unix.SockaddrUnix{Name: "own"}); err == nil {
			if os.Link(name, "other") == nil && os.Rename("other", "own") == nil {
				reach("the place of a socket of its own", kind, "own")
			}
			_ = os.Remove("own")
		}
		if fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0); err == nil {
			try("connect a pair", unix.Connect(fds[0], &unix.SockaddrUnix{Name: name}))
		}
	}
}

// exchangeWhileConnecting connects again and again while other threads replace the arguments of the
// call: the files, the memory of the address, and the descriptor.
func exchangeWhileConnecting(host string) {
	if _, _, err := listener(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "mine"}); err != nil {
		held("make a server", err)
		return
	}
	broken("link the socket", os.Link(host, "x"))
	broken("link a socket", os.Link("mine", "y"))
	var stop atomic.Bool
	defer stop.Store(true)
	background := func(f func()) {
		go func() {
			for !stop.Load() {
				f()
			}
		}()
	}
	address := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	put := func(name string) {
		for i := range name {
			address.Path[i] = int8(name[i])
		}
	}
	background(func() { _ = unix.Renameat2(unix.AT_FDCWD, "x", unix.AT_FDCWD, "y", unix.RENAME_EXCHANGE) })
	background(func() { put("x"); put("y") })
	put("x")
	own := 0
	for range races {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		broken("socket", err)
		if _, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address)), 2+2); errno == 0 {
			b := make([]byte, 1)
			_, _ = unix.Read(fd, b)
			if b[0] == hostGreeting {
				breach("connect to a socket of the host")
				return
			}
			own++
		}
		_ = unix.Close(fd)
	}
	if own == 0 {
		broken("connect to its own socket", unix.ECONNREFUSED)
	}
	held("exchange", unix.EPERM)
}
