package process

import "errors"

// Janitor is a program that cleans up after others: only the Linux sandbox has one.
type Janitor struct{}

// StartJanitor returns an error.
func (*Supervisor) StartJanitor(Spec, int) (*Janitor, error) { return nil, errors.ErrUnsupported }

// Use returns an error.
func (*Janitor) Use(func(socket int) error) error { return errors.ErrUnsupported }

// Kill does nothing.
func (*Janitor) Kill() {}

func (*Supervisor) closeJanitors() {}
