package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["getpid"] = func([]string) {
		for {
			_, _ = raw(unix.SYS_GETPPID)
		}
	}
	// A tracer changes the number of a call after the process has made it. The filter must judge the changed call.
	attacks["traced calls"] = func([]string) {
		child, err := os.StartProcess("/proc/self/exe", []string{"attacker", "getpid"}, &os.ProcAttr{Sys: &unix.SysProcAttr{Ptrace: true}})
		if err != nil {
			held("start a traced process", err)
			return
		}
		defer func() { _ = child.Kill() }()
		pid := child.Pid
		wait := func() {
			var status unix.WaitStatus
			_, err := unix.Wait4(pid, &status, unix.WALL, nil)
			broken("wait", err)
			if !status.Stopped() {
				broken("the traced process", unix.ECHILD)
			}
		}
		stop := func() (r unix.PtraceRegs) {
			broken("continue", unix.PtraceSyscall(pid, 0))
			wait()
			broken("registers", unix.PtraceGetRegs(pid, &r))
			return r
		}
		wait()
		for _, other := range []struct {
			what string
			nr   uint64
			args [3]uint64
		}{
			{"keyctl", unix.SYS_KEYCTL, [3]uint64{unix.KEYCTL_GET_KEYRING_ID, ^uint64(2)}},
			{"io_uring_register", unix.SYS_IO_URING_REGISTER, [3]uint64{^uint64(0)}},
			{"a socket of another family", unix.SYS_SOCKET, [3]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}},
			{"unshare", unix.SYS_UNSHARE, [3]uint64{unix.CLONE_NEWUSER}},
		} {
			r := stop()
			for r.Orig_rax != unix.SYS_GETPPID || int64(r.Rax) != -int64(unix.ENOSYS) {
				r = stop()
			}
			r.Orig_rax, r.Rdi, r.Rsi, r.Rdx = other.nr, other.args[0], other.args[1], other.args[2]
			broken("change registers", unix.PtraceSetRegs(pid, &r))
			switch r = stop(); unix.Errno(-int64(r.Rax)) {
			case unix.EPERM:
				held(other.what, unix.EPERM)
			default:
				breach(other.what)
			}
		}
	}
}
