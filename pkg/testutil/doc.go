// Package testutil groups what only tests use:
//
//	leakcheck    finds goroutines that a test leaves behind
//	faultproxy   a TCP proxy that delays, cuts and reorders on purpose
//	machine      skips tests on machines that lack what a backend of the sandbox needs
//	natstest     NATS servers that a test starts and kills
//	relaypb      the relay's messages as the protobuf compiler generates them, to
//	             compare with
//
// The package itself has Eventually, the one loop that polls, and Need, which skips a
// test for what a machine lacks and fails it for any other error; Rounds, how often a
// test that tries many cases repeats; FreePort, a port for a program that must be told it; and
// Gone, whether a process has ended.
//
// No program imports these packages.
package testutil
