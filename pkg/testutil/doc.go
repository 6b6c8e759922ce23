// Package testutil groups packages that only tests use:
//
//	leakcheck    finds goroutines that a test leaves behind
//	faultproxy   a TCP proxy that delays, cuts and reorders on purpose
//	machine      skips tests on machines that lack what a backend of the sandbox needs
//	natstest     NATS servers that a test starts and kills
//	relaypb      the relay's messages as the protobuf compiler generates them, to
//	             compare with
//
// The package itself has Eventually, the only polling loop; Need, which skips a test if the
// machine lacks a feature and fails it for any other error; Rounds, the number of repetitions
// of a test that tries many cases; FreePort, which returns a port for a program that must be
// told its port; and Gone, which reports whether a process has ended.
//
// Only tests import these packages.
package testutil
