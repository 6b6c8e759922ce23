package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These attacks use sockets that a process outside passes to the command, and connections that a process has forbidden itself.

func init() {
	attacks["handed sockets"] = func(args []string) { handedSockets(args) }
	attacks["supervised"] = supervised
	attacks["confined further"] = func(args []string) { confinedFurther(args[0] == "files") }
	attacks["blocked connections"] = func([]string) { blockedConnections() }
	attacks["connect"] = func(args []string) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		broken("socket", err)
		try("connect", unix.Connect(fd, &unix.SockaddrUnix{Name: args[0]}))
	}
}

// handedSockets connects sockets that arrive over standard input: a stream, a packet and a TCP socket. If a datagram socket
// arrives as well, it sends from that one. args: the addresses.
func handedSockets(args []string) {
	oob := make([]byte, unix.CmsgSpace(4*4))
	_, n, _, _, err := unix.Recvmsg(0, make([]byte, 1), oob, 0)
	if err != nil {
		held("receive sockets", err)
		return
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	broken("parse", err)
	if len(messages) == 0 {
		held("receive sockets", unix.ENOMSG)
		return
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	broken("parse", err)
	port, err := strconv.Atoi(args[2])
	broken("arguments", err)
	for i, to := range []unix.Sockaddr{
		&unix.SockaddrUnix{Name: args[0]}, &unix.SockaddrUnix{Name: args[1]}, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port},
	} {
		try(fmt.Sprint("connect socket ", i), unix.Connect(fds[i], to))
	}
	if len(args) > 3 {
		try("send a datagram", unix.Sendmsg(fds[3], []byte("x"), nil, &unix.SockaddrUnix{Name: args[3]}, 0))
	}
}

// supervised executes a program whose system calls this process supervises: the kernel permits only one listener of
// seccomp notifications.
func supervised(args []string) {
	const never = 212 // lookup_dcookie on x86-64; any number works here
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: never, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	broken("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	fd, errno := raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
	if errno != 0 {
		broken("install a filter", errno)
	}
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0) // the listener must stay open, so the other program inherits it
	broken("keep the listener", err)
	broken("exec", unix.Exec(args[0], args, os.Environ()))
}

// confinedFurther restricts itself by Landlock and then connects. It forbids itself connections, or with
// filesOnly only to write files.
func confinedFurther(filesOnly bool) {
	_, tcp, err := listener(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	broken("listen", err)
	name := &unix.SockaddrUnix{Name: "@further-" + strconv.Itoa(unix.Getpid())}
	_, _, err = listener(unix.AF_UNIX, unix.SOCK_STREAM, name)
	broken("listen", err)
	attr := unix.LandlockRulesetAttr{Handled_access_net: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	if filesOnly {
		attr = unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_WRITE_FILE, Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	}
	version, errno := raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < 6 {
		broken("ask for version 6 of Landlock", fmt.Errorf("%d, %w", version, errno))
	}
	rules, errno := raw(unix.SYS_LANDLOCK_CREATE_RULESET, pointer(&attr), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		broken("make a ruleset", errno)
	}
	broken("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if _, errno := raw(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0); errno != 0 {
		broken("restrict itself", errno)
	}
	connect := func(family int, to unix.Sockaddr) error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		broken("socket", err)
		defer unix.Close(fd)
		return unix.Connect(fd, to)
	}
	try("connect by TCP", connect(unix.AF_INET, tcp))
	try("connect to an abstract socket", connect(unix.AF_UNIX, name))
	// The children inherit the restriction.
	out, err := exec.Command(os.Args[0], "connect", name.Name).Output()
	broken("start a child", err)
	_, _ = os.Stdout.Write(out[:len(out)-len("done\n")])
}

// blockedConnections starts more processes than the launcher has threads. All connect to a listener whose backlog is full.
// Then it connects elsewhere: while they wait, and after they were killed.
func blockedConnections() {
	const many = 100
	full, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socket", err)
	broken("bind", unix.Bind(full, &unix.SockaddrUnix{Name: "@full"}))
	broken("listen", unix.Listen(full, 0))
	for {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		broken("socket", err)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: "@full"}); err == unix.EAGAIN {
			break
		} else if err != nil {
			broken("connect", err)
		}
	}
	_, _, err = listener(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@free"})
	broken("listen", err)
	check := func(when string) {
		came := make(chan error, 1)
		go func() {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			broken("socket", err)
			_, err = greeted(fd, &unix.SockaddrUnix{Name: "@free"})
			came <- err
		}()
		select {
		case err := <-came:
			broken("connect", err)
		case <-time.After(10 * time.Second):
			fmt.Println("fails: a connection", when)
		}
	}
	var children []*exec.Cmd
	for range many {
		cmd := exec.Command(os.Args[0], "connect", "@full")
		broken("start a child", cmd.Start())
		children = append(children, cmd)
	}
	waits := func(pid int) bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		var nr int
		n, _ := fmt.Sscan(string(text), &nr)
		return n == 1 && nr == unix.SYS_CONNECT
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		blocked := 0
		for _, cmd := range children {
			if waits(cmd.Process.Pid) {
				blocked++
			}
		}
		if blocked == many || time.Now().After(end) {
			break
		}
	}
	check("while others wait")
	for _, cmd := range children {
		broken("kill a child", cmd.Process.Kill())
		_ = cmd.Wait()
	}
	check("after others were killed")
}
