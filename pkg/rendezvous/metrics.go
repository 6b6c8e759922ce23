package rendezvous

import (
	"fmt"
	"io"

	"github.com/VictoriaMetrics/metrics"
)

// Why frames are dropped.
const (
	dropInvalid       = "invalid"        // no frame, or not one that can be routed
	dropUnknownStream = "unknown_stream" // of the executor's, or not worth a reset
	dropNotJoined     = "not_joined"     // for an executor's connection that was replaced
	dropHarnessGone   = "harness_gone"
	dropReply         = "reply" // a reset of the relay's own to a harness that is gone or does not read
)

// instruments are the service's metrics. They name no environment and no
// token, so that who reads them need not be trusted.
type instruments struct {
	set *metrics.Set

	framesUp, framesDown *metrics.Counter
	bytesUp, bytesDown   *metrics.Counter
	silent, failures     *metrics.Counter
}

func newInstruments() *instruments {
	m := &instruments{set: metrics.NewSet()}
	m.framesUp = m.set.NewCounter(`rendezvous_frames_total{direction="up"}`)
	m.framesDown = m.set.NewCounter(`rendezvous_frames_total{direction="down"}`)
	m.bytesUp = m.set.NewCounter(`rendezvous_bytes_total{direction="up"}`)
	m.bytesDown = m.set.NewCounter(`rendezvous_bytes_total{direction="down"}`)
	m.silent = m.set.NewCounter(`rendezvous_dead_peers_total`)
	m.failures = m.set.NewCounter(`rendezvous_failed_handshakes_total`)
	for _, reason := range []string{dropInvalid, dropUnknownStream, dropNotJoined, dropHarnessGone, dropReply} {
		m.set.NewCounter(dropName(reason))
	}
	for _, reason := range []string{resetHarnessGone, resetUnknownStream, resetStreamTaken, resetStreamLimit, resetUnanswered} {
		m.set.NewCounter(resetName(reason))
	}
	return m
}

func dropName(reason string) string {
	return fmt.Sprintf("rendezvous_frames_dropped_total{reason=%q}", reason)
}

func resetName(reason string) string {
	return fmt.Sprintf("rendezvous_resets_total{reason=%q}", reason)
}

// drop counts a frame that was not passed on.
func (m *instruments) drop(reason string) { m.set.GetOrCreateCounter(dropName(reason)).Inc() }

// reset counts a stream that the relay has reset.
func (m *instruments) reset(reason string) { m.set.GetOrCreateCounter(resetName(reason)).Inc() }

// request counts an answer of the API. Both arguments are from small sets.
func (m *instruments) request(call string, status int) {
	m.set.GetOrCreateCounter(fmt.Sprintf("rendezvous_requests_total{call=%q,status=\"%d\"}", call, status)).Inc()
}

// write writes them, and what there is now, as Prometheus reads them.
func (m *instruments) write(w io.Writer, now totals) {
	m.set.WritePrometheus(w)
	for _, gauge := range []struct {
		name  string
		value int
	}{
		{`rendezvous_environments`, now.environments},
		{`rendezvous_sockets{role="executor"}`, now.executors},
		{`rendezvous_sockets{role="harness"}`, now.harnesses},
		{`rendezvous_streams`, now.streams},
	} {
		metrics.WriteGaugeUint64(w, gauge.name, uint64(gauge.value))
	}
}
