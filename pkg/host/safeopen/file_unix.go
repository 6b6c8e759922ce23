//go:build unix

package safeopen

import "syscall"

// nonBlocking keeps the opening of a FIFO from waiting for its other end, and
// that of a terminal from making it the program's own.
const nonBlocking = syscall.O_NONBLOCK | syscall.O_NOCTTY
