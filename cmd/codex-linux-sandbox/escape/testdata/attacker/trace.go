package main

import (
	"encoding/binary"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["trace"] = func(args []string) {
		pid, err := os.Getppid(), error(nil) // with a PID namespace and without, the init
		if args[0] != "parent" {
			pid, err = strconv.Atoi(args[0])
		}
		broken("number", err)
		try("PTRACE_SEIZE", unix.PtraceSeize(pid))
		try("PTRACE_ATTACH", unix.PtraceAttach(pid))
		b := make([]byte, 8)
		local := []unix.Iovec{{Base: &b[0]}}
		local[0].SetLen(len(b))
		remote := []unix.RemoteIovec{{Base: 0x400000, Len: len(b)}}
		_, err = unix.ProcessVMReadv(pid, local, remote, 0)
		reached("process_vm_readv", err)
		_, err = unix.ProcessVMWritev(pid, local, remote, 0)
		reached("process_vm_writev", err)
	}
	attacks["rtnetlink"] = func([]string) {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			held("netlink", err)
			return
		}
		// RTM_NEWLINK brings up the loopback, which is up.
		request := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
		binary.NativeEndian.PutUint32(request, uint32(len(request)))
		binary.NativeEndian.PutUint16(request[4:], unix.RTM_NEWLINK)
		binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		info := request[unix.SizeofNlMsghdr:]
		binary.NativeEndian.PutUint32(info[4:], 1)
		binary.NativeEndian.PutUint32(info[8:], unix.IFF_UP)
		binary.NativeEndian.PutUint32(info[12:], unix.IFF_UP)
		for _, connect := range []bool{false, true} {
			what := "change an interface"
			if connect {
				what = "change an interface, connected"
				if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
					held(what, err)
					continue
				}
				_, err = unix.Write(fd, request)
			} else {
				err = unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			}
			if err != nil {
				held(what, err)
				continue
			}
			answer := make([]byte, 4096)
			n, _, err := unix.Recvfrom(fd, answer, 0)
			broken("answer", err)
			if n < unix.SizeofNlMsghdr+4 {
				broken("answer", unix.EBADMSG)
			}
			if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
				held(what, unix.Errno(errno))
			} else {
				breach(what)
			}
		}
	}
	// The parent of a command is the init, which must not become its tracer for good.
	attacks["traceme"] = func([]string) {
		_, errno := raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
		broken("PTRACE_TRACEME", failure(errno))
		broken("signal", unix.Kill(os.Getpid(), unix.SIGCONT))
		broken("exec", unix.Exec("/bin/sh", []string{"sh", "-c", "echo held: it runs on; echo done; exit 7"}, os.Environ()))
	}
}

// reached is try for a call that fails if it reaches the process, because nothing is at the address.
func reached(what string, err error) {
	if err == unix.EFAULT || err == nil {
		breach(what)
	} else {
		held(what, err)
	}
}

func init() {
	attacks["owner"] = func(args []string) {
		var st unix.Stat_t
		broken("stat", unix.Stat(args[0], &st))
		held("owner "+strconv.Itoa(int(st.Uid)), unix.EPERM)
		try("write", open(args[0], unix.O_WRONLY))
	}
	attacks["make room"] = func(args []string) {
		broken("remove", os.Remove(args[0]))
		broken("make", os.Mkdir(args[1], 0o755))
	}
	attacks["read"] = func(args []string) { try("read", open(args[0], unix.O_RDONLY)) }
	attacks["interfaces"] = func([]string) {
		list, err := net.Interfaces()
		if err != nil {
			held("interfaces", err)
		}
		for _, i := range list {
			breach("interface " + i.Name)
		}
	}
	attacks["give away"] = func(args []string) {
		other := os.Getuid() + 1000 // neither root nor this user
		for _, ids := range [][2]int{{0, 0}, {other, -1}, {-1, other}, {other, other}} {
			try("chown", os.Chown(args[0], ids[0], ids[1]))
			try("lchown", os.Lchown(args[0], ids[0], ids[1]))
		}
	}
}
