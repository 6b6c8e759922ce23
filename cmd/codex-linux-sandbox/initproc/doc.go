// Package initproc is everything of the launcher that runs without a Go runtime: the first process
// of a sandbox, the init, and the process of the command up to its exec. Both are forked from the
// launcher, a Go program with several threads. README.md has the rules of this package; read it
// before a change.
//
// It knows system calls, and nothing of sandboxes: what the calls are for is decided by the packages
// that append them to a Program. It imports nothing of this repository.
//
// Begin with Program (program.go), the list of system calls, then Processes (processes.go), which
// forks and in which the children run, and Exec (exec.go). signals.go has what the launcher does
// with signals without the Go runtime.
package initproc
