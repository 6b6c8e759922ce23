// Package natsbus connects the nodes of a rendezvous service by NATS, so that an executor can be
// connected to one node and its harnesses to others.
//
//	node, err := natsbus.Connect(ctx, natsbus.Options{Servers: "nats://a,nats://b"})
//	...
//	srv, err := rendezvous.New(ctx, rendezvous.Options{State: node.State, Bus: node.Bus, ...})
//	...
//	err = srv.Shutdown(ctx)
//	node.Close()
//
// The State is in buckets of JetStream's key-value store. The Bus sends frames over subjects of
// core NATS, which may lose messages. Therefore messages are numbered and acknowledged, and missing
// ones are retransmitted. If that does not succeed within lossTime, both ends are notified that the
// connection between them is lost. The time that State and Bus wait for a crashed node or server is
// bounded as well; see limits.go. docs/rendezvous.md explains why the nodes do not dial each other
// instead.
//
// # Lines
//
// A line is a connection between an address on one node and an address on another. The node whose
// address sends first opens the line with a request. Either node can close it.
//
// Each direction numbers its messages. Its window has as many bytes as the mailbox at its end can
// hold, so that the receiving node never waits. An acknowledgement contains how many messages were
// received in order, and how many of them were passed to their reader, which frees space in the
// window. A receiver that detects a gap drops the messages after it and requests a retransmission.
// A sender that gets no acknowledgement for probeTime sends a probe. The receiver answers it with
// an acknowledgement or with a request for a retransmission.
//
// A line is closed with an error in these cases: no progress is acknowledged for lossTime; the
// other node is silent; NATS accepts no more messages for the other node; or a third node has bound
// the address.
package natsbus
