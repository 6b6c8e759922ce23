//go:build linux || darwin

package execserver

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/permissions"
)

// maxPolicyShown bounds the policy in a process/exited: clients drop messages
// of more than 2 MiB. A longer one is null.
const maxPolicyShown = 64 << 10

// proc is one process of a session, from the request that starts it until it
// is forgotten. It is the process.Sink of its process.
//
// States: starting (running nil, later holds what must come after the start),
// running, failed (removed from the session), closed.
type proc struct {
	s         *session
	id        string
	argv      []string
	tty       bool
	confined  bool                // set before the start
	refusal   *os.File            // likewise, if confined: see sandbox.Command; closed with the exit
	profile   permissions.Profile // likewise
	startedAt time.Time
	// stop cancels the start.
	stop context.CancelFunc

	mu      sync.Mutex
	running *process.Process
	settled bool                     // the start has succeeded or failed
	killed  bool                     // terminated while starting
	later   []func(*process.Process) // requests that came while it was starting
	acked   uint64                   // what was acknowledged while it was starting

	closedAt time.Time // guarded by the session's lock
	retained int       // likewise: the output that it retains once closed
}

// add registers a process that is about to start.
func (s *session) add(p *proc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return internal("the session has ended")
	case s.procs[p.id] != nil:
		return invalid(fmt.Sprintf("process %s already exists", clip(p.id)))
	case s.open >= s.srv.opts.MaxProcesses:
		return internal(fmt.Sprintf("at most %d processes may run in a session; terminate some or raise --max-processes", s.srv.opts.MaxProcesses))
	}
	s.procs[p.id] = p
	s.open++
	return nil
}

// find returns the process of that id, or nil.
func (s *session) find(id string) *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[id]
}

// all returns the processes of the session.
func (s *session) all() []*proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	procs := make([]*proc, 0, len(s.procs))
	for _, p := range s.procs {
		procs = append(procs, p)
	}
	return procs
}

// remove forgets a process that did not start.
func (s *session) remove(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs[p.id] == p {
		delete(s.procs, p.id)
	}
	s.open--
}

// do runs f with the process: at once, or, while it is starting, right after
// the start, in the order of the calls. f gets nil when the start failed.
func (p *proc) do(f func(*process.Process)) {
	p.mu.Lock()
	if !p.settled {
		p.later = append(p.later, f)
		p.mu.Unlock()
		return
	}
	running := p.running
	p.mu.Unlock()
	f(running)
}

// ack acknowledges events up to number seq; while the process is starting, the
// highest of them is kept.
func (p *proc) ack(seq uint64) {
	p.mu.Lock()
	running := p.running
	if !p.settled {
		p.acked = max(p.acked, seq)
	}
	p.mu.Unlock()
	if running != nil {
		running.Ack(seq)
	}
}

// settle ends the start and runs what waited for it. It reports whether the
// process was terminated meanwhile.
func (p *proc) settle(running *process.Process) (killed bool) {
	for {
		p.mu.Lock()
		later := p.later
		p.later = nil
		if len(later) == 0 {
			p.running = running
			p.settled = true
			killed = p.killed
			acked := p.acked
			p.mu.Unlock()
			if running != nil {
				running.Ack(acked)
			}
			return killed
		}
		p.mu.Unlock()
		for _, f := range later {
			f(running)
		}
	}
}

// starting reports whether the start is still going on; with cancel it ends
// it.
func (p *proc) starting(cancel bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return false
	}
	if cancel {
		p.killed = true
		p.stop()
	}
	return true
}

// discard frees what the process retained, once its session has ended.
func (p *proc) discard() {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running != nil {
		running.Release()
	}
}

// attached returns where events go at the moment; nil when nobody is there to
// be told.
func (s *session) attached() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// Output implements process.Sink. It blocks while the connection has no room,
// and goes on with another connection when that one resumes the session
// meanwhile.
func (p *proc) Output(seq uint64, stream process.Stream, chunk []byte) {
	for c := p.s.attached(); c != nil && p.s.ctx.Err() == nil; c = p.s.attached() {
		if c.out.sendOutput(p.s.ctx, p.id, seq, execproto.Stream(stream), chunk) == nil {
			return
		}
	}
}

// noteConfined notes that a confined process was there until now.
func (p *proc) noteConfined() {
	if p.confined {
		p.s.srv.confined.note()
	}
}

// Exited implements process.Sink.
func (p *proc) Exited(seq uint64, code int, denied bool) {
	p.noteConfined()
	p.tell(execproto.ExitedNotification{ProcessID: p.id, Seq: seq, ExitCode: code, SandboxDenied: denied, SandboxRefusal: p.refused()})
}

// refused tells, once the process has ended, which policy could not be enforced;
// nil: it could. Then nothing has run, and the log says so as well.
func (p *proc) refused() *execproto.SandboxRefusal {
	if p.refusal == nil {
		return nil
	}
	defer p.refusal.Close()
	reason := sandbox.ReadRefusal(p.refusal)
	if reason == "" {
		return nil
	}
	policy := p.profile.AppendJSON(nil)
	if len(policy) > maxPolicyShown {
		policy = []byte("null")
	}
	p.s.srv.log.Warn("sandbox refused, nothing ran", "process", clip(p.id), "policy", string(policy), "reason", reason)
	return &execproto.SandboxRefusal{Policy: policy, Reason: reason}
}

// Closed implements process.Sink.
func (p *proc) Closed(seq uint64) {
	p.noteConfined()
	p.tell(execproto.ClosedNotification{ProcessID: p.id, Seq: seq})
	p.s.noteClosed(p)
}

// tell sends a notification that appends itself whole.
func (p *proc) tell(n appender) {
	for c := p.s.attached(); c != nil && p.s.ctx.Err() == nil; c = p.s.attached() {
		if c.out.send(p.s.ctx, n.AppendJSON) == nil {
			return
		}
	}
}

// noteClosed begins the time for which a closed process can still be read.
func (s *session) noteClosed(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.over {
		return
	}
	p.closedAt = time.Now()
	p.mu.Lock()
	if p.running != nil {
		p.retained = p.running.Retained()
	}
	p.mu.Unlock()
	s.closed = append(s.closed, p)
	s.closedRetained += p.retained
	for s.closedRetained > closedRetained || len(s.closed) > closedEntries {
		s.forgetOldest()
	}
	if s.sweep == nil && len(s.closed) > 0 {
		s.sweep = time.AfterFunc(closedReadable, s.sweepClosed)
	}
}

// forgetOldest frees the id and the output of the process that closed first.
// The caller holds the lock.
func (s *session) forgetOldest() {
	p := s.closed[0]
	s.closed[0] = nil
	s.closed = s.closed[1:]
	s.closedRetained -= p.retained
	if s.procs[p.id] == p {
		delete(s.procs, p.id)
	}
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running != nil {
		running.Release()
	}
}

// sweepClosed forgets the closed processes whose time is over, and comes
// back for the next.
func (s *session) sweepClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep = nil
	if s.over {
		return
	}
	now := time.Now()
	for len(s.closed) > 0 && now.Sub(s.closed[0].closedAt) >= closedReadable {
		s.forgetOldest()
	}
	if len(s.closed) > 0 {
		s.sweep = time.AfterFunc(closedReadable-now.Sub(s.closed[0].closedAt), s.sweepClosed)
	}
}
