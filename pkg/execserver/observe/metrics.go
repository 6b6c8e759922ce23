package observe

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/metrics"
)

// The ways in which processes end, as metrics name them.
const (
	endSuccess    = "success"
	endFailure    = "failure"
	endNotStarted = "not_started"
	endRefused    = "refused"
)

// The values of a label result.
const (
	resultOK      = "ok"
	resultRefused = "refused"
	resultError   = "error"
)

// resultOf returns the value of a label result.
func resultOf(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}

// Metrics are the metrics of a server. They name no session, process, path or command. Codex
// CLI's server has some of them too, under the same names.
type Metrics struct {
	set    *metrics.Set
	remote *Remote

	requests    map[string]*methodMetrics
	requestTime *metrics.Family[*metrics.Histogram]
	finished    *metrics.Family[*metrics.Counter] // processes
	sandboxes   *metrics.Family[*metrics.Counter]
	sandboxTime *metrics.Family[*metrics.Histogram]
	refusals    *metrics.Counter
}

// methodMetrics are the metrics of one method.
type methodMetrics struct{ ok, failed resultMetrics }

// resultMetrics are the metrics of a method's requests with the same result.
type resultMetrics struct {
	count *metrics.Counter
	time  atomic.Pointer[metrics.Histogram] // nil before the first one
}

// newMetrics makes the metrics and adds them to the events. A counter that exists before its
// first event shows that event as an increase.
func newMetrics(o *Options, ev *Events) *Metrics {
	s := metrics.NewSet()
	s.AddProgram(o.Version)
	m := &Metrics{set: s, remote: newRemote(s)}
	m.addConnections(ev)
	m.addRequests(o.Methods, ev)
	m.addProcesses(o.Causes, ev)
	m.addCurrent(o)
	if o.Audit != nil {
		s.Collect(metrics.KindCounter, "exec_server_audit_events_lost_total", "Events that could not be written into the audit trail.", nil,
			func(emit func(float64, ...string)) { emit(float64(o.Audit.Log.Health().Lost)) })
		s.Collect(metrics.KindCounter, "exec_server_audit_tampered_total", "How often another program has changed the file of the audit trail.", nil,
			func(emit func(float64, ...string)) { emit(float64(o.Audit.Log.Health().Tampered)) })
		s.Collect(metrics.KindGauge, "exec_server_audit_writable", "1 if the audit trail can be written and no change of its file stops new work.", nil,
			func(emit func(float64, ...string)) {
				writable := 0.0
				if o.Audit.Log.Health().Writable {
					writable = 1
				}
				emit(writable)
			})
	}
	return m
}

func (m *Metrics) addConnections(ev *Events) {
	active := m.set.Gauges("exec_server_connections_active", "Connections that are open.", "transport")
	opened := m.set.Counters("exec_server_connections_total", "Connections that were accepted.", "transport")
	for _, transport := range []Transport{Websocket, Stdio, Relay} {
		active.With(string(transport))
		opened.With(string(transport))
	}
	ev.ConnectionOpened.Add(func(t Transport) {
		opened.With(string(t)).Inc()
		active.With(string(t)).Add(1)
	})
	ev.ConnectionClosed.Add(func(t Transport) { active.With(string(t)).Add(-1) })

	refused := m.set.Counters("exec_server_connections_refused_total", "Clients that were refused, by HTTP status.", "status")
	ev.ConnectionRefused.Add(func(r Refused) { refused.With(strconv.Itoa(r.Status)).Inc() })

	limits := m.set.Counters("exec_server_limit_reached_total", "How often a limit was reached and something was refused.", "limit")
	for _, limit := range Limits {
		limits.With(string(limit))
	}
	ev.LimitReached.Add(func(l Limit) { limits.With(string(l)).Inc() })

	ofProcesses := m.set.Counters("exec_server_process_bytes_total", "Bytes of input and output of processes.", "stream")
	ofTunnels := m.set.Counters("exec_server_tunnel_bytes_total", "Bytes of tunnels.", "direction")
	moved := [flows]*metrics.Counter{
		Received: m.set.Counter("exec_server_received_bytes_total", "Bytes of messages from clients."),
		Sent:     m.set.Counter("exec_server_sent_bytes_total", "Bytes of messages to clients."),
		Stdin:    ofProcesses.With("stdin"), Stdout: ofProcesses.With("stdout"), Stderr: ofProcesses.With("stderr"), Terminal: ofProcesses.With("pty"),
		FromClient: ofTunnels.With("from_client"), ToClient: ofTunnels.With("to_client"),
	}
	ev.BytesMoved.Add(func(b Bytes) { moved[b.Flow].Add(b.N) })

	tunnels := m.set.Gauge("exec_server_tunnels_active", "Tunnels that are open.")
	allTunnels := m.set.Counter("exec_server_tunnels_total", "Tunnels that were opened.")
	ev.TunnelOpened.Add(func(Tunnel) { allTunnels.Inc(); tunnels.Add(1) })
	ev.TunnelClosed.Add(func(Tunnel) { tunnels.Add(-1) })

	sessions := m.set.Counter("exec_server_sessions_total", "Sessions that were started.")
	resumed := m.set.Counter("exec_server_sessions_resumed_total", "How often a session was resumed on another connection.")
	ev.SessionStarting.Add(func(Session) error { sessions.Inc(); return nil })
	ev.SessionResumed.Add(func(Session) { resumed.Inc() })
}

// addRequests adds the metrics of each method.
func (m *Metrics) addRequests(methods []string, ev *Events) {
	count := m.set.Counters("exec_server_requests_total", "Requests that were answered.", "method", "result")
	m.requestTime = m.set.Histograms("exec_server_request_duration_seconds", "How long requests take from their arrival to their answer.", "method", "result")
	m.requests = make(map[string]*methodMetrics, len(methods)+1)
	for _, method := range append(methods, UnknownMethod) {
		m.requests[method] = &methodMetrics{
			ok:     resultMetrics{count: count.With(method, resultOK)},
			failed: resultMetrics{count: count.With(method, resultError)},
		}
	}
	queued := m.set.Histogram("exec_server_request_queue_duration_seconds",
		"How long requests wait for a free slot, and for earlier requests about the same object.")
	ev.RequestRuns.Add(func(r *Request) { queued.Observe(time.Since(r.Arrived)) })
	ev.RequestDone.Add(m.requestDone)
}

func (m *Metrics) requestDone(end RequestEnd) {
	if end.Unanswered {
		return
	}
	of := m.requests[end.Method]
	r := &of.ok
	if end.Err != nil {
		r = &of.failed
	}
	r.count.Inc()
	duration := r.time.Load()
	if duration == nil {
		duration = m.requestTime.With(end.Method, resultOf(end.Err))
		r.time.Store(duration)
	}
	duration.Observe(time.Since(end.Arrived))
}

func (m *Metrics) addProcesses(causes []execproto.Cause, ev *Events) {
	started := m.set.Counters("exec_server_processes_started_total", "Processes that were started, by sandbox backend.", "sandbox")
	m.finished = m.set.Counters("exec_server_processes_finished_total", "Processes that have ended or did not start.", "result")
	for _, result := range []string{endSuccess, endFailure, endNotStarted, endRefused} {
		m.finished.With(result)
	}
	ev.ProcessStarted.Add(func(p *Process) {
		started.With(p.Sandbox).Inc()
		m.sandboxTimed(p.Backend, p.Took)
	})
	ev.ProcessStartFailed.Add(func(f StartFailure) {
		m.finished.With(endNotStarted).Inc()
		m.sandboxStarted(f.Backend, resultOf(f.Err))
	})

	lasted := m.set.Histogram("exec_server_process_duration_seconds", "How long processes run, from the request to their exit.")
	ended := m.set.Counters("exec_server_processes_ended_total", "Processes that have run and ended, by why.", "cause")
	for _, cause := range causes {
		if cause != "" {
			ended.With(string(cause))
		}
	}
	m.refusals = m.set.Counter("exec_server_sandbox_refusals_total", "Policies that could not be enforced; nothing ran under them.")
	ev.ProcessExited.Add(func(p *Process) {
		// Only now it is known whether the launcher has refused the policy.
		if p.Exit.Refusal != nil {
			m.sandboxStarted(p.Backend, resultRefused)
		} else {
			m.sandboxStarted(p.Backend, resultOK)
		}
		lasted.Observe(p.Exit.Duration)
		ended.With(string(p.Exit.Cause)).Inc()
		switch {
		case p.Exit.Refusal != nil:
			m.refusals.Inc()
			m.finished.With(endRefused).Inc()
		case p.Exit.Code == 0:
			m.finished.With(endSuccess).Inc()
		default:
			m.finished.With(endFailure).Inc()
		}
	})

	m.sandboxes = m.set.Counters("exec_server_sandbox_starts_total", "Sandboxes of processes and of file requests. One of a process counts when the process has ended.", "backend", "result")
	m.sandboxTime = m.set.Histograms("exec_server_sandbox_start_duration_seconds", "How long the server takes to start a process in a sandbox.", "backend")
	helpers := m.set.Counters("exec_server_helper_starts_total", "Helpers that were started for confined file requests.", "result")
	helpers.With(resultOK)
	helpers.With(resultError)
	ev.HelperStarted.Add(func(h Helper) {
		helpers.With(resultOf(h.Err)).Inc()
		m.sandboxStarted(h.Backend, resultOf(h.Err))
		if h.Err == nil {
			m.sandboxTimed(h.Backend, h.Took)
		}
	})

	decisions := m.set.Counters("exec_server_network_decisions_total", "Decisions about connections of processes with a network proxy.", "decision")
	ev.NetworkDecided.Add(func(d Decision) { decisions.With(d.Verdict).Inc() })
}

// sandboxStarted counts a sandbox, if there is one.
func (m *Metrics) sandboxStarted(backend, result string) {
	if backend != "" {
		m.sandboxes.With(backend, result).Inc()
	}
}

// sandboxTimed records how long a process in a sandbox took to start, if it is in one.
func (m *Metrics) sandboxTimed(backend string, took time.Duration) {
	if backend != "" {
		m.sandboxTime.With(backend).Observe(took)
	}
}

// Totals has the numbers of sessions, and of processes that have not closed.
type Totals struct{ Attached, Detached, Starting, Running, Exited int }

// addCurrent adds the metrics of current numbers.
func (m *Metrics) addCurrent(o *Options) {
	m.set.Collect(metrics.KindGauge, "exec_server_sessions_active", "Sessions, by whether a connection has them.", []string{"state"},
		func(emit func(float64, ...string)) {
			t := o.Totals()
			emit(float64(t.Attached), "attached")
			emit(float64(t.Detached), "detached")
		})
	m.set.Collect(metrics.KindGauge, "exec_server_processes_active",
		"Processes: starting, running, or exited with descendants that still have the output open.", []string{"state"},
		func(emit func(float64, ...string)) {
			t := o.Totals()
			emit(float64(t.Starting), "starting")
			emit(float64(t.Running), "running")
			emit(float64(t.Exited), "exited")
		})
	m.set.Collect(metrics.KindGauge, "exec_server_limit", "What clients share: how much there is of each.", []string{"limit"},
		func(emit func(float64, ...string)) {
			o.Shares(func(limit Limit, all, _ int64) { emit(float64(all), string(limit)) })
		})
	m.addEnd("exec_server_certificate_expiry_timestamp_seconds", "When the certificate for clients expires.", o.CertificateEnd)
	m.addEnd("exec_server_token_expiry_timestamp_seconds", "When the next token of a client expires.", o.TokenEnd)
	if o.Clients != nil {
		m.set.CollectPrograms("exec_server_clients_active", "Clients that have a session and are connected.", [2]string{"client", "build"}, o.Clients)
	}
	m.set.Collect(metrics.KindGauge, "exec_server_limit_used", "What clients share: how much of each is in use.", []string{"limit"},
		func(emit func(float64, ...string)) {
			o.Shares(func(limit Limit, _, used int64) { emit(float64(used), string(limit)) })
		})
}

// addEnd adds a gauge of the time at which something expires; it has no value if nothing does.
func (m *Metrics) addEnd(name, help string, end func() time.Time) {
	m.set.Collect(metrics.KindGauge, name, help, nil, func(emit func(float64, ...string)) {
		if end == nil {
			return
		}
		if at := end(); !at.IsZero() {
			emit(float64(at.Unix()))
		}
	})
}

// AddDetached adds the metrics of a server with detached processes. retained returns the number of
// running ones and of those whose output is retained. It must not be called after the first event.
func (m *Metrics) AddDetached(ev *Events, retained func() int) {
	starts := m.set.Counter("exec_server_detached_starts_total", "Detached processes that were asked for.")
	ev.DetachedStarting.Add(func(Detached) error { starts.Inc(); return nil })
	m.set.Collect(metrics.KindGauge, "exec_server_detached_retained", "Detached processes of this user whose output is retained: running and ended ones.", nil,
		func(emit func(float64, ...string)) { emit(float64(retained())) })
}

// MetricsPath is the path at which a server serves its metrics.
const MetricsPath = "/metrics"

// ServeHTTP implements http.Handler: it answers GET and HEAD with the metrics for Prometheus
// (docs/spec/wire.md §1.2). It does not authenticate. Requests with an Origin come from web pages
// and are refused.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case len(r.Header.Values("Origin")) > 0:
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path != MetricsPath:
		w.WriteHeader(http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", metrics.ContentType)
		_ = m.set.Write(w) // an error means that the client has stopped reading
	}
}

// Remote counts the actions of a server that registers with a rendezvous service. The program
// that connects the server to a relay reports them. Its methods may be called from any
// goroutine.
type Remote struct {
	registrations *metrics.Family[*metrics.Counter]
	connected     *metrics.Gauge
	reconnects    *metrics.Counter

	mu   sync.Mutex
	open bool
	once bool // the server was connected before
}

func newRemote(s *metrics.Set) *Remote {
	r := &Remote{
		registrations: s.Counters("exec_server_remote_registrations_total", "Registrations at an environment registry.", "result"),
		connected:     s.Gauge("exec_server_remote_connected", "1 if the server is connected to the relay."),
		reconnects:    s.Counter("exec_server_remote_reconnects_total", "How often the connection to the relay was restored."),
	}
	r.registrations.With(resultOK)
	r.registrations.With(resultError)
	return r
}

// Remote returns the counter of registrations and of connections to a relay.
func (m *Metrics) Remote() *Remote { return m.remote }

// Registered counts a registration. err is nil if it succeeded.
func (r *Remote) Registered(err error) { r.registrations.With(resultOf(err)).Inc() }

// Connected records that the server is connected to the relay.
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

// IsConnected reports whether the server is connected to the relay.
func (r *Remote) IsConnected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// Disconnected records that the connection to the relay has ended.
func (r *Remote) Disconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open {
		r.connected.Add(-1)
	}
	r.open = false
}
