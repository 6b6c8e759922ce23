// Package initproc contains all code of the launcher that runs without a Go runtime: the first
// process of a sandbox, the init, and the process of the command up to its exec. Both are forked
// from the launcher, a Go program with several threads. README.md has the rules of this package;
// read it before you change the package.
//
// The package knows system calls and no sandboxes: the packages that append calls to a Program
// decide the purpose of the calls. It imports no package of this repository.
//
// Begin with Program (program.go), the list of system calls. Then read Processes (processes.go),
// which forks, and whose functions run in the children, and Exec (exec.go). signals.go handles the
// launcher's signals without the Go runtime.
package initproc
