package process

import "golang.org/x/sys/unix"

// passesTo reports whether the program passes signals to that group itself:
// one that is Patient gives the terminal to a session of what it started.
func (p *Process) passesTo(group int) bool {
	leader := 0
	if !p.spec.Patient {
		return false
	}
	if raw, err := p.tty.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.TIOCGSID); err == nil {
				leader = n
			}
		})
	}
	return group == leader
}
