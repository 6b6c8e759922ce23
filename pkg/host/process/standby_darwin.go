package process

import "errors"

// Standby is a program that was started ahead of need: only the sandbox launcher
// is, and there is none on macOS.
type Standby struct{}

// StartStandby returns an error.
func (*Supervisor) StartStandby(Spec) (*Standby, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Standby) Close() {}

// Ended returns a channel that is never closed.
func (*Standby) Ended() <-chan struct{} { return nil }

func (spec *Spec) start(e *ends, program string, cgroup int) (pid, pidfd int, err error) {
	return spec.fork(e, program, cgroup)
}

func (*Standby) await(pid, pidfd int) bool { return awaitEnd(pid, pidfd) }
