//go:build unix

package cmdutil

import "syscall"

// ErrConnectionRefused is what a dial says when nobody listens.
const ErrConnectionRefused = syscall.ECONNREFUSED
