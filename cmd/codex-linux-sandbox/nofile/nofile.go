// Package nofile records the limit of open files with which this program was started. The Go
// runtime raises the soft limit when package syscall is initialised, but a command must get the
// original limit. So this package imports nothing, and makes the system call itself. Go then
// initialises it before syscall, whose path sorts after its own.
package nofile

// Limit is the inherited RLIMIT_NOFILE, soft and hard. Known is false if it could not be read.
var Limit, Known = read()

func read() (limit [2]uint64, known bool) {
	known = prlimit(&limit) == 0
	return limit, known
}

// prlimit reads RLIMIT_NOFILE of this process and returns 0, or an error.
//
//go:noescape
func prlimit(limit *[2]uint64) uintptr
