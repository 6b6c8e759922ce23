// Package mediate makes system calls for a sandboxed command, and answers those that the command's
// filter stops: docs/spec/sandbox.md §7.6 and docs/spec/network.md §5 have the rules. It runs in the
// launcher, outside of the sandbox, and so it decides nothing by what the command can change in between:
// addresses are copied, sockets are duplicated and paths are opened before they are judged, and what was
// judged is what is used.
//
// It knows the filter (pkg/sandbox/plan) and the messages to the server (pkg/sandbox/transparent), and appends to
// the programs of initproc. It does not know the launcher's options, plans or backends.
//
// Read it in this order:
//
//	connect.go      Connector: the notifications of the filter, and connect
//	sockettable.go  whether a Unix socket is one of the sandbox, by the kernel's table
//	confined.go     what a program restricts itself by Landlock, and that no connection undoes it
//	pairs.go        socketpair for datagrams
//	redirect.go     connections that lead out of the sandbox, to the server
//	reach.go        sockets inside, for the server: codex remote forward reaches ports of a sandbox
package mediate
