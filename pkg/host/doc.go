// Package host groups the packages that act on this machine:
//
//	process     starts, signals and ends processes; keeps their output
//	limiter     starts a program with lower resource limits
//	warmstart   hands work to a program that was started ahead of need
//	dirfd       works on the names in an open directory, for copies of trees
//	files       reads, writes, copies and watches files
//	contentcoding undoes the compression of HTTP responses
//	fetch       makes HTTP requests
//	codexconfig reads config.toml of the system, the user and trusted projects
//	info        describes the operating system, the shell and the user
//	outputlog   retains the output of a process in files
//	shellsnapshot stores the state that the start-up files of a shell have set
//	envpolicy   selects the variables of an environment
//	peercred    finds the process at the other end of a local connection
//	safeopen    opens files that must be regular files
//	terminal    makes text safe to print, and brings terminals into a known state
//
// The packages take and return native values: paths, bytes, errors of the
// operating system. They must not import wire, execproto or any other group, so
// they do not depend on a protocol. The packages that import them decide what a
// request means.
//
// None of the types is API for other programs.
package host
