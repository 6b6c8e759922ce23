package execserver

import (
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/host/process"
)

// The functions of this file are told what happens. They count it for the metrics and
// write the records that the log has about it; the code that calls them does its work
// and no more.

// observeConnection counts a connection that was accepted. The caller must call the
// function that it returns when the connection has ended.
func (srv *Server) observeConnection(transport string) (ended func()) {
	m := srv.metrics
	m.opened.With(transport).Inc()
	active := m.active.With(transport)
	active.Add(1)
	return func() { active.Add(-1) }
}

// traffic counts the bytes of a process.
type traffic struct{ in, out atomic.Int64 }

// observeOutput counts output of the process.
func (p *proc) observeOutput(stream process.Stream, n int) {
	p.traffic.out.Add(int64(n))
	p.s.srv.metrics.output(execproto.Stream(stream), n)
}

// observeInput counts input of the process.
func (p *proc) observeInput(n int) {
	p.traffic.in.Add(int64(n))
	p.s.srv.metrics.stdin.Add(n)
}

// observeStart is told that the process was started, in which kind of sandbox and how
// long the server took for it, or that it did not start.
func (st *start) observeStart(kind string, pid int, took time.Duration, err error) {
	m := st.p.s.srv.metrics
	backend := ""
	if st.p.confined {
		backend = st.p.s.srv.backend()
		m.sandboxStarted(backend, took, err)
	}
	if err != nil {
		m.finished.With(endNotStarted).Inc()
		st.noteNotStarted(err)
		return
	}
	m.processes.With(kind).Inc()
	st.log.Info("process started", "pid", pid, "tty", st.spec.TTY, "sandbox", kind)
}

// observeExit is told how the process has exited. refusal says why its sandbox could not be
// made, so that the command has not run; nil: it was made, or there is none.
func (p *proc) observeExit(e *process.Exit, refusal *execproto.SandboxRefusal) {
	m := p.s.srv.metrics
	p.exit = exit{code: e.Code, duration: time.Since(p.startedAt), cause: causes[e.Cause], processor: e.Usage.User + e.Usage.System}
	m.processTime.Observe(p.exit.duration)
	m.processEnded(p.exit.cause)
	switch {
	case refusal != nil:
		m.finished.With(endRefused).Inc()
		m.refusals.Inc()
		event := p.event(audit.EventSandboxRefused)
		if a := p.s.srv.opts.Audit; a != nil && a.Paths {
			event.Reason = shorten(refusal.Reason) // it may have a path
		}
		p.s.srv.note(event)
	case e.Code == 0:
		m.finished.With(endSuccess).Inc()
	default:
		m.finished.With(endFailure).Inc()
	}
}

// exit is how a process has exited.
type exit struct {
	code     int
	duration time.Duration // from the request that started it
	cause    execproto.Cause
	// processor is the processor time that it has used.
	processor time.Duration
}

// recordClosed ends the span of the process, and writes its end into the audit trail.
func (p *proc) recordClosed() {
	p.endSpan()
	p.noteEnded()
}

// logClosed logs that the output of the process has ended, which is after its exit.
func (p *proc) logClosed() {
	p.log.Info("process ended", "exit_code", p.exit.code, "cause", string(p.exit.cause), "duration", p.exit.duration, "processor_time", p.exit.processor,
		"bytes_in", p.traffic.in.Load(), "bytes_out", p.traffic.out.Load())
}

// observeHelper is told that a helper for a confined file request was started, or why
// not.
func (srv *Server) observeHelper(took time.Duration, err error) {
	m := srv.metrics
	result := resultOf(err)
	m.helpers.With(result).Inc()
	m.sandboxStarted(srv.backend(), took, err)
}

// sandboxStarted counts a sandbox.
func (m *instruments) sandboxStarted(backend string, took time.Duration, err error) {
	m.sandboxes.With(backend, resultOf(err)).Inc()
	if err == nil {
		m.sandboxTime.With(backend).Observe(took)
	}
}

// The values of a label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

// resultOf is the value of a label result.
func resultOf(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}

// backend returns the name of what confines here. It must not be called before
// sandboxes was.
func (srv *Server) backend() string {
	if runtime, err := srv.sandboxes(); err == nil {
		return runtime.Status().Backend
	}
	return "none"
}
