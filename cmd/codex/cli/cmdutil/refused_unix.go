//go:build unix

package cmdutil

import "syscall"

// ErrConnectionRefused is the error of a dial if no process listens on the address.
const ErrConnectionRefused = syscall.ECONNREFUSED

// ErrAddressInUse is the error of listening if another socket has the address.
const ErrAddressInUse = syscall.EADDRINUSE
