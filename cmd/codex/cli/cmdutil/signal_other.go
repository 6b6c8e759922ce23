//go:build !unix

package cmdutil

import "syscall"

// Die does nothing: this system has no signals by which a program can end.
func Die(syscall.Signal) {}
