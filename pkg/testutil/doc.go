// Package testutil groups what only tests use:
//
//	faultproxy   a TCP proxy that delays, cuts and reorders on purpose
//	natstest     NATS servers that a test starts and kills
//	relaypb      the relay's messages as the protobuf compiler generates them, to
//	             compare with
//
// No program imports these packages.
package testutil
