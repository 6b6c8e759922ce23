// Package natsbus connects the nodes of a rendezvous service by NATS, so that
// an executor can be at one node and its harnesses at others.
//
//	node, err := natsbus.Connect(ctx, natsbus.Options{Servers: "nats://a,nats://b"})
//	...
//	srv, err := rendezvous.New(ctx, rendezvous.Options{State: node.State, Bus: node.Bus, ...})
//	...
//	err = srv.Shutdown(ctx)
//	node.Close()
//
// The State is in buckets of JetStream's key-value store. The Bus sends frames
// over subjects of core NATS, which may lose messages: they are numbered and
// acknowledged, and where one is missing both sides are told that the
// connection between them has broken. Neither waits for a node or a server that
// is gone for more than a few seconds; see limits.go.
//
// # Lines
//
// What an address on one node and an address on another say to each other goes
// over a line, which is opened by the first of them with a request, and ends
// with either. Each direction is numbered, and has a window of as many bytes as
// the mailbox at its end has room for, so that a node that receives never has to
// wait. A line breaks when nothing is confirmed for some time, when the other node
// is silent or not reached any more, and when the address has gone to a third
// node.
package natsbus
