//go:build unix

package cli

import "syscall"

// errRefused is what a dial says when nobody listens.
const errRefused = syscall.ECONNREFUSED
