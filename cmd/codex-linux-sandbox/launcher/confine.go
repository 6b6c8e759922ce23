package launcher

import (
	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"golang.org/x/sys/unix"
)

// secureBits removes the special rights of uid 0, permanently: NOROOT,
// NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each with its lock, and the lock of
// KEEP_CAPS (linux/securebits.h).
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// capabilities bounds the numbers of capabilities: the two words of capset have 64 bits.
const capabilities = 64

// dropPrivileges appends steps that drop all privileges permanently. The process then has no
// capabilities. It gains none by executing a file that has some, by being root, or by any other
// exec.
func dropPrivileges(p *initproc.Program) {
	p.Try(func() {
		for c := range capabilities {
			p.Do("drop the capability", "", unix.SYS_PRCTL, initproc.Val(unix.PR_CAPBSET_DROP), initproc.Val(c), initproc.Val(0), initproc.Val(0), initproc.Val(0))
		}
	})
	p.Try(func() {
		p.Do("set the securebits", "", unix.SYS_PRCTL, initproc.Val(unix.PR_SET_SECUREBITS), initproc.Val(secureBits), initproc.Val(0), initproc.Val(0), initproc.Val(0))
	})
	p.Try(func() {
		p.Do("clear the ambient capabilities", "", unix.SYS_PRCTL, initproc.Val(unix.PR_CAP_AMBIENT), initproc.Val(unix.PR_CAP_AMBIENT_CLEAR_ALL), initproc.Val(0), initproc.Val(0), initproc.Val(0))
	})
	header := initproc.Pointer(p, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	p.Do("drop all capabilities", "", unix.SYS_CAPSET, header, initproc.Slice(p, make([]unix.CapUserData, 2)))
	noNewPrivileges(p)
}

func noNewPrivileges(p *initproc.Program) {
	p.Do("set no_new_privs", "", unix.SYS_PRCTL, initproc.Val(unix.PR_SET_NO_NEW_PRIVS), initproc.Val(1), initproc.Val(0), initproc.Val(0), initproc.Val(0))
}
