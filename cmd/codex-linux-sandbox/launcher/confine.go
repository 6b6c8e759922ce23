package launcher

import (
	"golang.org/x/sys/unix"
)

// secureBits makes uid 0 nothing special, and locks that: NOROOT,
// NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each with its lock, and the lock of
// KEEP_CAPS (linux/securebits.h).
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// capabilities is one more than the highest number that a capability can
// have in the two words of capset.
const capabilities = 64

// dropPrivileges appends the end of every privilege, for good: the process has no capabilities, and
// gets none by executing a file that has some, by being root, or otherwise by exec.
func (p *program) dropPrivileges() {
	p.try(func() {
		for c := range capabilities {
			p.do("drop the capability", "", unix.SYS_PRCTL, val(unix.PR_CAPBSET_DROP), val(c), val(0), val(0), val(0))
		}
	})
	p.try(func() {
		p.do("set the securebits", "", unix.SYS_PRCTL, val(unix.PR_SET_SECUREBITS), val(secureBits), val(0), val(0), val(0))
	})
	p.try(func() {
		p.do("clear the ambient capabilities", "", unix.SYS_PRCTL, val(unix.PR_CAP_AMBIENT), val(unix.PR_CAP_AMBIENT_CLEAR_ALL), val(0), val(0), val(0))
	})
	header := pointer(p, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	p.do("drop all capabilities", "", unix.SYS_CAPSET, header, slice(p, make([]unix.CapUserData, 2)))
	p.noNewPrivileges()
}

func (p *program) noNewPrivileges() {
	p.do("set no_new_privs", "", unix.SYS_PRCTL, val(unix.PR_SET_NO_NEW_PRIVS), val(1), val(0), val(0), val(0))
}

// filter makes an argument of a filter of system calls.
func (p *program) filter(filter []unix.SockFilter) arg {
	return pointer(p, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// install appends a filter of system calls.
func (p *program) install(filter []unix.SockFilter) {
	p.do("install the seccomp filter", "", unix.SYS_SECCOMP, val(unix.SECCOMP_SET_MODE_FILTER), val(0), p.filter(filter))
}
