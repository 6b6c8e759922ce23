// Package mediate makes system calls for a sandboxed command, and answers those that the command's filter stops:
// docs/spec/sandbox.md §7.6 and docs/spec/network.md §5 have the rules. It runs in the launcher, outside of the
// sandbox. So its decisions must not depend on data that the command can change in between: it copies addresses,
// duplicates sockets and opens paths before it checks them, and then uses exactly the checked objects.
//
// It knows the filter (pkg/sandbox/plan) and the messages to the server (pkg/sandbox/transparent), and appends to
// the programs of initproc. It does not know the launcher's options, plans or backends.
//
// Read it in this order:
//
//	connect.go      Connector: the calls that the filter stops (package notify), and connect
//	thread.go       the files of a thread that has made a call
//	sockettable.go  looks up in the kernel's table whether a Unix socket belongs to the sandbox
//	confined.go     no connection for a program that has forbidden itself connections by Landlock
//	pairs.go        socketpair for datagrams
//	redirect.go     Redirect: connections that lead out of the sandbox are passed to the server
//	entrance.go     listeners on the address that a command connects to, for getpeername
//	reach.go        creates sockets inside for the server, so that codex remote forward reaches ports of a sandbox
package mediate
