// Package broker changes files for a sandboxed command where no namespaces can be made. Landlock grants the command no change of any
// file of its writable roots. A filter stops the calls that change something by a path (pkg/sandbox/plan), and the broker, outside of
// the command's Landlock domain and with the same user, makes each permitted one. README.md has the rules, which hold for each change
// of this package.
//
// It knows the plan and the calls that the filter stops (package notify). It does not know the launcher's options or backends.
//
// Read it in this order:
//
//	policy.go      which paths may be changed: a function of the path alone
//	broker.go      Broker: the threads that answer
//	calls.go       the table of calls; calls_amd64.go and calls_arm64.go have those of one architecture
//	caller.go      the memory, the descriptors and the directory of a thread that has made a call
//	open.go        opens; fifo.go those that wait for a reader, and other calls that wait
//	names.go       names: mkdir, unlink, rename, link
//	attributes.go  modes, owners, times, extended attributes, truncation
//	sockets.go     Unix sockets; bound.go asks the kernel to which inode one is bound
//	shm.go         files in /dev/shm
//	terminals.go   pseudoterminals
//	signals.go     signals, before version 6 of Landlock
//	probe.go       whether a broker works here
package broker
