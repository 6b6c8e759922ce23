//go:build linux

// Package nofile remembers how many files this program was allowed to open
// when it was started. The Go runtime raises the soft limit for itself, in the
// initialisation of package os, which comes after that of a package without
// imports but syscall; a command must get the limit as it was.
package nofile

import "syscall"

// Limit is RLIMIT_NOFILE as it was inherited; Known is false if it could not
// be read.
var Limit, Known = read()

func read() (limit syscall.Rlimit, known bool) {
	known = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil
	return limit, known
}
