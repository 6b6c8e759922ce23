package initproc

import "golang.org/x/sys/unix"

// Undumpable appends a step that prevents other processes of the user from inspecting this process.
func (p *Program) Undumpable() {
	p.Do("set dumpable", "", unix.SYS_PRCTL, Val(unix.PR_SET_DUMPABLE), Val(0), Val(0), Val(0), Val(0))
}

// HandOut appends a step that sends descriptors over a socket.
func (p *Program) HandOut(what string, over int, fds ...int) {
	rights, vector := unix.UnixRights(fds...), &unix.Iovec{Base: new(byte)}
	vector.SetLen(1)
	message := &unix.Msghdr{Iov: vector, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	p.Do("hand out", what, unix.SYS_SENDMSG, Val(over), Pointer(p, message), Val(0))
}

// Filter returns a system call filter as an argument.
func Filter(p *Program, filter []unix.SockFilter) Arg {
	return Pointer(p, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// InstallFilter appends a step that installs a system call filter. The process must have no_new_privs.
func (p *Program) InstallFilter(filter []unix.SockFilter) {
	p.Do("install the seccomp filter", "", unix.SYS_SECCOMP, Val(unix.SECCOMP_SET_MODE_FILTER), Val(0), Filter(p, filter))
}
