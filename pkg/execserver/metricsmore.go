package execserver

import (
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/metrics"
)

// tunnelInstruments count tunnels of all sessions.
type tunnelInstruments struct {
	active         *metrics.Gauge
	opened         *metrics.Counter
	received, sent *metrics.Counter
	refused        *metrics.Counter // connections to listeners
}

// addTunnels adds the metrics of tunnels.
func (m *instruments) addTunnels() {
	bytes := m.set.Counters("exec_server_tunnel_bytes_total", "Bytes of tunnels.", "direction")
	m.tunnels = tunnelInstruments{
		active:   m.set.Gauge("exec_server_tunnels_active", "Tunnels that are open."),
		opened:   m.set.Counter("exec_server_tunnels_total", "Tunnels that were opened."),
		received: bytes.With("from_client"), sent: bytes.With("to_client"),
		refused: m.limits.With(limitTunnels),
	}
}

// addProcessEnds adds why processes have ended, with all causes that there are.
func (m *instruments) addProcessEnds() {
	m.ended = m.set.Counters("exec_server_processes_ended_total", "Processes that have run and ended, by why.", "cause")
	for _, cause := range causes {
		if cause != "" {
			m.ended.With(string(cause))
		}
	}
}

// addDetached adds what there is of detached processes.
func (m *instruments) addDetached(d *detachedStore) {
	m.detached = m.set.Counter("exec_server_detached_starts_total", "Detached processes that were asked for.")
	m.set.Collect(metrics.KindGauge, "exec_server_detached_retained", "Detached processes with their output, of this user: those that run and those that have ended.", nil,
		func(emit func(float64, ...string)) { emit(float64(len(d.names()))) })
}

// Remote counts what a server that registers does. A program that connects the server to a
// relay tells it. Its methods may be called from any goroutine.
type Remote struct {
	registrations *metrics.Family[*metrics.Counter]
	connected     *metrics.Gauge
	reconnects    *metrics.Counter

	mu   sync.Mutex
	open bool
	once bool // it was connected before
}

// addRemote adds the metrics of a server that registers.
func (m *instruments) addRemote() {
	m.remote = &Remote{
		registrations: m.set.Counters("exec_server_remote_registrations_total", "Registrations at an environment registry.", "result"),
		connected:     m.set.Gauge("exec_server_remote_connected", "1 if the server is connected to the relay."),
		reconnects:    m.set.Counter("exec_server_remote_reconnects_total", "How often the server was connected to the relay again."),
	}
	for _, err := range []error{nil, errEnded} {
		m.remote.registrations.With(resultOf(err))
	}
}

// Remote returns what counts registrations and connections to a relay.
func (srv *Server) Remote() *Remote { return srv.metrics.remote }

// Registered counts a registration, which has failed unless err is nil.
func (r *Remote) Registered(err error) { r.registrations.With(resultOf(err)).Inc() }

// Connected is told that the server is connected to the relay.
func (r *Remote) Connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.once {
		r.reconnects.Inc()
	}
	if !r.open {
		r.connected.Add(1)
	}
	r.once, r.open = true, true
}

// Disconnected is told that the connection to the relay has ended.
func (r *Remote) Disconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		r.connected.Add(-1)
	}
	r.open = false
}

// processEnded counts the end of a process that has run.
func (m *instruments) processEnded(cause execproto.Cause) { m.ended.With(string(cause)).Inc() }
