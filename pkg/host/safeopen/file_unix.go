//go:build unix

package safeopen

import "syscall"

// nonBlocking keeps the opening of a FIFO from waiting for its other end, and
// keeps a terminal from becoming the controlling terminal.
const nonBlocking = syscall.O_NONBLOCK | syscall.O_NOCTTY
