package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Sockets that a process outside hands to the command.

func init() {
	attacks["handed sockets"] = func(args []string) { handedSockets(args) }
	attacks["supervised"] = supervised
}

// handedSockets connects sockets that come over standard input: a stream, packets and TCP, and sends from one for datagrams if
// there is one. args: where to.
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

// supervised executes a program whose system calls another one watches: a filter of the kernel has one listener only.
func supervised(args []string) {
	const never = 212 // lookup_dcookie on x86-64; any number will do
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
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0) // the listener stays, as the other program has it
	broken("keep the listener", err)
	broken("exec", unix.Exec(args[0], args, os.Environ()))
}
