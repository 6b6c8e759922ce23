package process

import "errors"

// Standby is a program that was started ahead of need: only the sandbox launcher
// is, and there is none on macOS.
type Standby struct{ pid int }

// StartStandby returns an error.
func (*Supervisor) StartStandby(Spec) (*Standby, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Standby) Close() {}

// Ended returns a channel that is never closed.
func (*Standby) Ended() <-chan struct{} { return nil }

func (*Spec) order(*ends, int, bool, bool) bool { return false }

func (*Standby) awaitReport() (end ending, reported bool) { return end, false }

func (*Standby) await(pid, pidfd int) bool { return awaitEnd(pid, pidfd) }

// Prepare returns an error.
func (*Standby) Prepare(Spec) error { return errors.ErrUnsupported }

// PrepareChild returns an error.
func (*Standby) PrepareChild(Spec) error { return errors.ErrUnsupported }

func (*Standby) takeCgroup() cgroupDir { return cgroupDir{} }
