package process

import "golang.org/x/sys/unix"

// passesTo reports whether the program passes signals on to that process group. The sandbox
// launcher (Spec.ExitGracePeriod) gives the terminal to the session of the command that it starts.
func (p *Process) passesTo(group int) bool {
	leader := 0
	if !p.spec.ExitGracePeriod {
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
