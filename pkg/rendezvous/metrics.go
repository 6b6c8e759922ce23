package rendezvous

import (
	"strconv"

	"codex.internal/pkg/internal/metrics"
)

// These are the reasons for which frames are dropped.
const (
	dropInvalid       = "invalid"        // no frame, or not one that can be routed
	dropUnknownStream = "unknown_stream" // of the executor's, or not worth a reset
	dropNotJoined     = "not_joined"     // for an executor's connection that was replaced
	dropHarnessGone   = "harness_gone"
	dropReply         = "reply" // one of the relay's own resets, to a harness that is gone or does not read
)

// instruments are the service's metrics. They contain no name of an environment or token, so a
// program that reads them need not be trusted.
type instruments struct {
	set *metrics.Set

	framesUp, framesDown *metrics.Counter
	bytesUp, bytesDown   *metrics.Counter
	silent, failures     *metrics.Counter
	moved                *metrics.Counter

	dropped, resets, requests *metrics.Family[*metrics.Counter]
}

// newInstruments returns the metrics of a service of that version. now returns
// the current numbers.
func newInstruments(version string, tokens *TokenFile, now func() totals, programs func() map[metrics.Program]int) *instruments {
	s := metrics.NewSet()
	s.AddProgram(version)
	const up, down = "up", "down"
	frames := s.Counters("rendezvous_frames_total", "Frames that were passed on.", "direction")
	bytes := s.Counters("rendezvous_bytes_total", "Bytes of frames that were passed on.", "direction")
	m := &instruments{
		set:      s,
		framesUp: frames.With(up), framesDown: frames.With(down), bytesUp: bytes.With(up), bytesDown: bytes.With(down),
		silent:   s.Counter("rendezvous_dead_peers_total", "Connections that were closed because they were silent."),
		failures: s.Counter("rendezvous_failed_handshakes_total", "Handshakes that failed."),
		moved:    s.Counter("rendezvous_executors_moved_total", "Executors that were asked to reconnect, because other nodes had fewer."),
		dropped:  s.Counters("rendezvous_frames_dropped_total", "Frames that were not passed on.", "reason"),
		resets:   s.Counters("rendezvous_resets_total", "Streams that the relay reset.", "reason"),
		requests: s.Counters("rendezvous_requests_total", "Answers of the API.", "call", "status"),
	}
	for _, reason := range []string{dropInvalid, dropUnknownStream, dropNotJoined, dropHarnessGone, dropReply} {
		m.dropped.With(reason)
	}
	for _, reason := range []string{resetHarnessGone, resetUnknownStream, resetStreamTaken, resetStreamLimit, resetUnanswered} {
		m.resets.With(reason)
	}
	s.CollectOne("rendezvous_environments", "Environments that are registered.", func() float64 { return float64(now().environments) })
	s.CollectPrograms("rendezvous_clients", "Executors and harnesses that are connected, by program.", [2]string{"role", "build"}, programs)
	s.Collect(metrics.KindGauge, "rendezvous_token_expiry_timestamp_seconds", "When the next token of a role expires.", []string{"role"},
		func(emit func(float64, ...string)) {
			for _, role := range []Role{RoleExecutor, RoleHarness, RoleBoth, RoleRead, RoleRun, RoleAdmin} {
				if end := tokens.NextEnd(func(t *Token) bool { return t.Role == role }); !end.IsZero() {
					emit(float64(end.Unix()), string(role))
				}
			}
		})
	s.CollectOne("rendezvous_streams", "Streams between executors and harnesses.", func() float64 { return float64(now().streams) })
	s.Collect(metrics.KindGauge, "rendezvous_sockets", "Websockets.", []string{"role"}, func(emit func(float64, ...string)) {
		t := now()
		emit(float64(t.executors), "executor")
		emit(float64(t.harnesses), "harness")
	})
	return m
}

// drop counts a frame that was not passed on.
func (m *instruments) drop(reason string) { m.dropped.With(reason).Inc() }

// reset counts a stream that the relay has reset.
func (m *instruments) reset(reason string) { m.resets.With(reason).Inc() }

// request counts an answer of the API. Both arguments are from small sets.
func (m *instruments) request(call string, status int) {
	m.requests.With(call, strconv.Itoa(status)).Inc()
}
