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
// The State is in buckets of JetStream's key-value store. The Bus sends frames over subjects
// of core NATS, which may lose messages: they are numbered and acknowledged, and missing
// messages are retransmitted. If that does not succeed within lossTime, both ends learn that
// the connection between them is lost. Neither State nor Bus waits longer for a node or a
// server that has crashed; see limits.go. docs/rendezvous.md explains why the nodes do not
// dial each other instead.
//
// # Lines
//
// A line is a connection between an address on one node and an address on another.
// The node whose address sends first opens it with a request; either node closes it.
//
// Each direction numbers its messages, and has a window of as many bytes as the mailbox at
// its end holds, so that the receiving node never waits. An acknowledgement contains how many
// messages were received in order, and how many of them were handed to their reader, which
// frees space in the window. A receiver that sees a gap drops the messages after it and asks
// for a retransmission. A sender that gets no acknowledgement for probeTime sends a probe,
// which the receiver answers with an acknowledgement or with a request for a retransmission.
//
// A line is closed with an error if no progress is acknowledged for lossTime, if the
// other node is silent or NATS takes no more messages to it, or if a third node has
// bound the address.
package natsbus
