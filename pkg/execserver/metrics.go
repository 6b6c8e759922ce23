package execserver

import (
	"net/http"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/internal/metrics"
)

// The transports of connections, as metrics name them.
const (
	transportWebsocket = "websocket"
	transportStdio     = "stdio"
	transportRelay     = "relay"
)

// The limits that metrics count when they are reached.
const (
	limitConnections  = "connections"
	limitProcesses    = "processes"
	limitHandles      = "handles"
	limitWaiting      = "waiting_requests"
	limitMessageBytes = "message_bytes"
	limitQuestions    = "questions"
	limitArchives     = "archives"
	limitDetached     = "detached"
	limitHTTPBodies   = "http_bodies"
	limitWatches      = "watches"
	limitTunnels      = "tunnels"
	limitListeners    = "listeners"
	limitMachine      = "machine" // memory, descriptors or processes of the machine
)

// countedLimits are all of these.
var countedLimits = []string{
	limitConnections, limitProcesses, limitHandles, limitWaiting, limitMessageBytes, limitQuestions, limitArchives,
	limitDetached, limitHTTPBodies, limitWatches, limitTunnels, limitListeners, limitMachine,
}

// How processes end, as metrics name it.
const (
	endSuccess    = "success"
	endFailure    = "failure"
	endNotStarted = "not_started"
	endRefused    = "refused"
)

// unknownMethod stands for all methods that the server does not have.
const unknownMethod = "unknown"

// instruments are the server's metrics. They name no session, process, path or
// command. Codex CLI's server has some of them too, under the same names.
type instruments struct {
	set *metrics.Set

	active                            *metrics.Family[*metrics.Gauge]
	opened, refused                   *metrics.Family[*metrics.Counter]
	received, sent                    *metrics.Counter
	sessions, resumed                 *metrics.Counter
	requests                          map[string]*methodInstruments
	requestTime                       *metrics.Family[*metrics.Histogram]
	queued                            *metrics.Histogram
	processes, finished, outputBytes  *metrics.Family[*metrics.Counter]
	stdout, stderr, terminal, stdin   *metrics.Counter
	processTime                       *metrics.Histogram
	sandboxes, helpers, limits, asked *metrics.Family[*metrics.Counter]
	sandboxTime                       *metrics.Family[*metrics.Histogram]
	refusals                          *metrics.Counter
	ended                             *metrics.Family[*metrics.Counter]
	tunnels                           tunnelInstruments
	detached                          *metrics.Counter
	remote                            *Remote
}

// methodInstruments are those of one method.
type methodInstruments struct{ ok, failed resultInstruments }

// resultInstruments are those of the requests of a method with the same result.
type resultInstruments struct {
	count *metrics.Counter
	time  atomic.Pointer[metrics.Histogram] // nil before the first one
}

func newInstruments(srv *Server) *instruments {
	s := metrics.NewSet()
	s.AddProgram(srv.opts.Version)
	m := &instruments{
		set:      s,
		active:   s.Gauges("exec_server_connections_active", "Connections that are open.", "transport"),
		opened:   s.Counters("exec_server_connections_total", "Connections that were accepted.", "transport"),
		refused:  s.Counters("exec_server_connections_refused_total", "Clients that were refused, by HTTP status.", "status"),
		received: s.Counter("exec_server_received_bytes_total", "Bytes of messages from clients."),
		sent:     s.Counter("exec_server_sent_bytes_total", "Bytes of messages to clients."),
		sessions: s.Counter("exec_server_sessions_total", "Sessions that were started."),
		resumed:  s.Counter("exec_server_sessions_resumed_total", "How often a session was resumed on another connection."),
		queued: s.Histogram("exec_server_request_queue_duration_seconds",
			"How long requests wait for a free slot, and for earlier requests about the same object."),
		processes:   s.Counters("exec_server_processes_started_total", "Processes that were started, by what confines them.", "sandbox"),
		finished:    s.Counters("exec_server_processes_finished_total", "Processes that have ended or did not start.", "result"),
		processTime: s.Histogram("exec_server_process_duration_seconds", "How long processes run, from the request to their exit."),
		outputBytes: s.Counters("exec_server_process_bytes_total", "Bytes of input and output of processes.", "stream"),
		sandboxes:   s.Counters("exec_server_sandbox_starts_total", "Sandboxes of processes and of file requests.", "backend", "result"),
		sandboxTime: s.Histograms("exec_server_sandbox_start_duration_seconds", "How long the server takes to start a process in a sandbox.", "backend"),
		refusals:    s.Counter("exec_server_sandbox_refusals_total", "Policies that could not be enforced; nothing ran under them."),
		helpers:     s.Counters("exec_server_helper_starts_total", "Helpers that were started for confined file requests.", "result"),
		limits:      s.Counters("exec_server_limit_reached_total", "How often a limit was reached and something was refused.", "limit"),
		asked:       s.Counters("exec_server_network_decisions_total", "What was decided about connections of processes with a network proxy.", "decision"),
	}
	m.stdout, m.stderr = m.outputBytes.With("stdout"), m.outputBytes.With("stderr")
	m.terminal, m.stdin = m.outputBytes.With("pty"), m.outputBytes.With("stdin")
	m.addRequests()
	m.addTunnels()
	m.addProcessEnds()
	m.addRemote()
	m.addCurrent(srv)
	if srv.opts.Audit != nil {
		m.addAudit(srv.opts.Audit)
	}
	if srv.opts.Tracer != nil {
		m.addTracer(srv)
	}
	// A counter that is there before the first event shows the first event as a rise.
	for _, transport := range []string{transportWebsocket, transportStdio, transportRelay} {
		m.active.With(transport)
		m.opened.With(transport)
	}
	for _, result := range []string{resultOK, resultError} {
		m.helpers.With(result)
	}
	for _, limit := range countedLimits {
		m.limits.With(limit)
	}
	for _, result := range []string{endSuccess, endFailure, endNotStarted, endRefused} {
		m.finished.With(result)
	}
	return m
}

// addRequests adds the metrics of each method of the table.
func (m *instruments) addRequests() {
	count := m.set.Counters("exec_server_requests_total", "Requests that were answered.", "method", "result")
	m.requestTime = m.set.Histograms("exec_server_request_duration_seconds", "How long requests take from their arrival to their answer.", "method", "result")
	m.requests = make(map[string]*methodInstruments, len(methods)+1)
	add := func(method string) {
		m.requests[method] = &methodInstruments{
			ok:     resultInstruments{count: count.With(method, resultOK)},
			failed: resultInstruments{count: count.With(method, resultError)},
		}
	}
	for method := range methods {
		add(method)
	}
	add(unknownMethod)
}

// addCurrent adds the metrics of what there is at a time.
func (m *instruments) addCurrent(srv *Server) {
	m.set.Collect(metrics.KindGauge, "exec_server_sessions_active", "Sessions, by whether a connection has them.", []string{"state"},
		func(emit func(float64, ...string)) {
			t := srv.totals()
			emit(t.attached, "attached")
			emit(t.detached, "detached")
		})
	m.set.Collect(metrics.KindGauge, "exec_server_processes_active",
		"Processes: starting, running, or exited with descendants that still have the output open.", []string{"state"},
		func(emit func(float64, ...string)) {
			t := srv.totals()
			emit(t.starting, "starting")
			emit(t.running, "running")
			emit(t.exited, "exited")
		})
}

// addAudit adds what the audit trail lacks.
func (m *instruments) addAudit(a *Audit) {
	m.set.Collect(metrics.KindCounter, "exec_server_audit_events_lost_total", "Events that could not be written into the audit trail.", nil,
		func(emit func(float64, ...string)) { emit(float64(a.Log.Lost())) })
}

// addTracer adds what became of spans. Those that were dropped may be of keepers.
func (m *instruments) addTracer(srv *Server) {
	t := srv.opts.Tracer
	m.set.Collect(metrics.KindCounter, "exec_server_spans_exported_total", "Spans that the collector has taken.", nil,
		func(emit func(float64, ...string)) { emit(float64(t.Counts().Exported)) })
	m.set.Collect(metrics.KindCounter, "exec_server_spans_dropped_total", "Spans that were not exported.", []string{"reason"},
		func(emit func(float64, ...string)) {
			counts := t.Counts()
			emit(float64(counts.Full+srv.keptSpans.full.Load()), "queue_full")
			emit(float64(counts.Failed+srv.keptSpans.failed.Load()), "export_failed")
		})
}

// request counts a request that was answered.
func (m *instruments) request(method string, arrived time.Time, failed bool) {
	of := m.requests[method]
	if of == nil {
		method = unknownMethod
		of = m.requests[method]
	}
	r, result := &of.ok, resultOK
	if failed {
		r, result = &of.failed, resultError
	}
	r.count.Inc()
	duration := r.time.Load()
	if duration == nil {
		duration = m.requestTime.With(method, result)
		r.time.Store(duration)
	}
	duration.Observe(time.Since(arrived))
}

// output counts output of a process.
func (m *instruments) output(stream execproto.Stream, n int) {
	switch stream {
	case execproto.Stdout:
		m.stdout.Add(n)
	case execproto.Stderr:
		m.stderr.Add(n)
	default:
		m.terminal.Add(n)
	}
}

// limit counts that a limit was reached.
func (m *instruments) limit(name string) { m.limits.With(name).Inc() }

// totals are numbers of sessions and of processes that have not closed.
type totals struct{ attached, detached, starting, running, exited float64 }

func (srv *Server) totals() (t totals) {
	srv.mu.Lock()
	sessions := make([]*session, 0, len(srv.sessions))
	for _, s := range srv.sessions {
		sessions = append(sessions, s)
	}
	srv.mu.Unlock()
	for _, s := range sessions {
		if s.attached() != nil {
			t.attached++
		} else {
			t.detached++
		}
		for _, p := range s.all() {
			running := p.now()
			if running == nil {
				t.starting++
				continue
			}
			switch state := running.State(); {
			case state.Closed:
			case state.Exited:
				t.exited++
			default:
				t.running++
			}
		}
	}
	return t
}

// Metrics returns a handler that answers GET and HEAD with the server's metrics, for
// Prometheus (docs/spec/wire.md §1.2). It authenticates nobody: the metrics name no session,
// process, path or command. Requests with an Origin come from web pages and are refused.
func (srv *Server) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.Header.Values("Origin")) > 0:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path != metricsPath:
			w.WriteHeader(http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.Header().Set("Content-Type", metrics.ContentType)
			_ = srv.metrics.set.Write(w) // an error means that the client has stopped reading
		}
	})
}

// metricsPath is where the metrics are.
const metricsPath = "/metrics"

// serveMetrics serves the metrics on the listening port, to clients with the role admin.
func (srv *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if refused := srv.authorize(r, wsauth.RoleAdmin); refused != nil {
		srv.refuse(w, r, refused)
		return
	}
	srv.Metrics().ServeHTTP(w, r)
}
