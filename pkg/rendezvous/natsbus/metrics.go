package natsbus

import (
	"fmt"
	"io"
)

// WriteMetrics implements rendezvous.MetricsWriter.
func (b *Bus) WriteMetrics(w io.Writer) {
	b.mu.RLock()
	lines, nodes := len(b.lines), len(b.nodes)
	b.mu.RUnlock()
	connected := 0
	if b.node.conn.IsConnected() {
		connected = 1
	}
	// An error means that the client has stopped reading.
	_, _ = fmt.Fprintf(w, "rendezvous_nats_connected %d\nrendezvous_nats_reconnects_total %d\n"+
		"rendezvous_nats_nodes %d\nrendezvous_nats_lines %d\nrendezvous_nats_lines_broken_total %d\n",
		connected, b.node.conn.Stats().Reconnects, nodes, lines, b.node.broken.Load())
}
