package natsbus

import (
	"io"

	"codex.internal/pkg/internal/metrics"
)

// WriteMetrics implements rendezvous.MetricsWriter.
func (b *Bus) WriteMetrics(w io.Writer) {
	_ = b.metrics.Write(w) // an error means that the client has stopped reading
}

// newMetrics returns the metrics of the bus.
func (b *Bus) newMetrics() *metrics.Set {
	s := metrics.NewSet()
	s.CollectOne("rendezvous_nats_connected", "1 if the node is connected to NATS.", func() float64 {
		if b.node.conn.IsConnected() {
			return 1
		}
		return 0
	})
	s.CollectOne("rendezvous_nats_nodes", "Other nodes that are alive.", func() float64 {
		b.mu.RLock()
		defer b.mu.RUnlock()
		return float64(len(b.nodes))
	})
	s.CollectOne("rendezvous_nats_lines", "Links between connections of different nodes.", func() float64 {
		b.mu.RLock()
		defer b.mu.RUnlock()
		return float64(len(b.lines))
	})
	for _, c := range []struct {
		name, help string
		count      func() uint64
	}{
		{"rendezvous_nats_lines_broken_total", "Links between connections of different nodes that were lost.", b.node.broken.Load},
		{"rendezvous_nats_reconnects_total", "How often the connection to NATS was restored.", func() uint64 { return b.node.conn.Stats().Reconnects }},
	} {
		s.Collect(metrics.KindCounter, c.name, c.help, nil, func(emit func(float64, ...string)) { emit(float64(c.count())) })
	}
	return s
}
