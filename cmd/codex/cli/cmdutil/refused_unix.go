//go:build unix

package cmdutil

import "syscall"

// ErrConnectionRefused is what a dial says when nobody listens.
const ErrConnectionRefused = syscall.ECONNREFUSED

// ErrAddressInUse is what listening says when another socket has the address.
const ErrAddressInUse = syscall.EADDRINUSE
