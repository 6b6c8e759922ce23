package execserver

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// maxPolicyShown bounds the policy in a process/exited: clients drop messages
// of more than 2 MiB. A longer one is null.
const maxPolicyShown = 64 << 10

// proc is one process of a session, from the request that starts it until it is
// removed. It is the process.Sink of its process.
//
// States: starting, running, failed (removed from the session), closed. started is closed at
// the end of the state starting. Requests that name the process wait for that, in the session's
// sequence.
//
// When you add a field, put it into its group.
type proc struct {
	// These describe it and never change.
	s         *session
	id        string
	tty       bool
	startedAt time.Time

	// The stages of the start set these before the process starts.
	confined bool
	refusal  *os.File            // set if confined is: see runner.Command; closed at exit
	profile  permissions.Profile // set if confined is
	output   *outputlog.Log      // output on disk; nil: this is not a keeper

	// The start itself.
	stop    context.CancelFunc // cancels the start
	started chan struct{}      // closed when the start has succeeded or failed
	running *process.Process   // set before started is closed; nil: the start has failed

	// State for observers.
	seen    observe.Process
	denials denials

	mu        sync.Mutex    // guards the rest of the group
	argv      []string      // clipped to keptArgv after the end
	cancelled bool          // terminated while starting
	acked     uint64        // highest acknowledgement that arrived while starting
	network   *egress.Proxy // nil: there is no proxy, or it is closed

	// The session's lock guards these.
	closedAt time.Time
	retained int // bytes of output that are retained after closing
}

// add registers a process that is about to start.
func (s *session) add(p *proc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return execproto.Internal("the session has ended")
	case s.procs[p.id] != nil:
		return execproto.ProcessExists(shorten(p.id))
	case s.open >= s.srv.opts.MaxProcesses:
		return observe.AtLimit(observe.LimitProcesses,
			execproto.Internal(fmt.Sprintf("at most %d processes may run in a session; terminate some or raise --max-processes", s.srv.opts.MaxProcesses)))
	}
	if err := s.account.Reserve(observe.LimitProcesses, 1); err != nil {
		return err
	}
	s.procs[p.id] = p
	s.open++
	return nil
}

// find returns the process with that id, or nil.
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

// remove removes a process that did not start.
func (s *session) remove(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs[p.id] == p {
		delete(s.procs, p.id)
	}
	s.open--
	s.account.Give(observe.LimitProcesses, 1)
}

// now returns the running process. It returns nil while the process is starting, and if it did
// not start.
func (p *proc) now() *process.Process {
	select {
	case <-p.started:
		return p.running
	default:
		return nil
	}
}

// ack acknowledges the events up to number seq. While the process is starting,
// the highest seq is kept until setStarted.
func (p *proc) ack(seq uint64) {
	p.mu.Lock()
	p.acked = max(p.acked, seq)
	running := p.now()
	p.mu.Unlock()
	if running != nil {
		running.Ack(seq)
	}
}

// setStarted ends the start. running is nil if it failed. It reports whether
// cancelStart was called meanwhile.
func (p *proc) setStarted(running *process.Process) (cancelled bool) {
	p.mu.Lock()
	p.running = running
	close(p.started)
	acked, cancelled := p.acked, p.cancelled
	p.mu.Unlock()
	if running != nil {
		running.Ack(acked)
	}
	return cancelled
}

// cancelStart cancels a start that has not finished and reports whether there
// was one.
func (p *proc) cancelStart() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.started:
		return false
	default:
	}
	p.cancelled = true
	p.stop()
	return true
}

// discard frees the retained output after the session has ended.
func (p *proc) discard() {
	if running := p.now(); running != nil {
		running.Release()
	}
}

// attached returns the connection that currently receives events, or nil.
func (s *session) attached() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// Output implements process.Sink. It blocks while the connection has no space.
// If another connection resumes the session meanwhile, it sends on that one.
func (p *proc) Output(seq uint64, stream process.Stream, chunk []byte) {
	p.countOutput(stream, len(chunk))
	for c := p.s.attached(); c != nil && p.s.ctx.Err() == nil; c = p.s.attached() {
		encode := func(b []byte) []byte {
			return execproto.AppendOutput(b, p.id, seq, execproto.Stream(stream), chunk)
		}
		if c.greeted(p.s.ctx) && c.out.send(p.s.ctx, encode) == nil {
			return
		}
	}
}

// Exited implements process.Sink.
func (p *proc) Exited(seq uint64, e process.Exit) {
	refused := p.exited(&e)
	p.notify(&execproto.ExitedNotification{
		ProcessID: p.id, Seq: seq, ExitCode: e.Code, SandboxDenied: e.Denied, SandboxRefusal: refused,
		Denials: p.denials.list(), Cause: causes[e.Cause], Resources: resources(&e.Usage),
	})
}

// exited reports the exit of the process to observers, and returns the result of refused.
func (p *proc) exited(e *process.Exit) *execproto.SandboxRefusal {
	p.seen.Exit = observe.Exit{
		Code: e.Code, Cause: causes[e.Cause], Duration: time.Since(p.startedAt), Processor: e.Usage.User + e.Usage.System,
		Refusal: p.refused(),
	}
	p.s.srv.events.ProcessExited.Tell(&p.seen)
	return p.seen.Exit.Refusal
}

// countOutput counts output of the process.
func (p *proc) countOutput(stream process.Stream, n int) {
	flow := observe.Terminal
	switch execproto.Stream(stream) {
	case execproto.Stdout:
		flow = observe.Stdout
	case execproto.Stderr:
		flow = observe.Stderr
	}
	p.seen.Out.Add(int64(n))
	p.s.srv.events.BytesMoved.Tell(observe.Bytes{Flow: flow, N: n})
}

// countInput counts input of the process.
func (p *proc) countInput(n int) {
	p.seen.In.Add(int64(n))
	p.s.srv.events.BytesMoved.Tell(observe.Bytes{Flow: observe.Stdin, N: n})
}

// refused returns the policy that could not be enforced, so that the command has not run. It
// returns nil if the policy was enforced. It must be called after the end of the process.
func (p *proc) refused() *execproto.SandboxRefusal {
	if p.refusal == nil {
		return nil
	}
	defer p.refusal.Close()
	reason := runner.ReadRefusal(p.refusal)
	if reason == "" {
		return nil
	}
	policy := p.profile.AppendJSON(nil)
	if len(policy) > maxPolicyShown {
		policy = []byte("null")
	}
	return &execproto.SandboxRefusal{Policy: policy, Reason: reason}
}

// Closed implements process.Sink.
func (p *proc) Closed(seq uint64) {
	p.closeNetwork()
	p.s.srv.events.ProcessClosed.Tell(&p.seen)
	p.s.freeSlot() // after this message, the client may start another process
	p.notify(&execproto.ClosedNotification{ProcessID: p.id, Seq: seq})
	p.s.retainClosed(p)
}

// freeSlot permits another process in place of a closed one.
func (s *session) freeSlot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.account.Give(observe.LimitProcesses, 1)
}

// notify sends a notification.
func (p *proc) notify(n execproto.Notification) {
	for c := p.s.attached(); c != nil && p.s.ctx.Err() == nil; c = p.s.attached() {
		if c.greeted(p.s.ctx) && c.out.send(p.s.ctx, execproto.Notify(n)) == nil {
			return
		}
	}
}

// arguments returns the command line. It must not be changed.
func (p *proc) arguments() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.argv
}

// cutArguments clips the retained arguments of a closed process to keptArgv bytes. Scenario: a
// client starts /bin/true with 2 MB of arguments a hundred times a second. Closed processes are
// listed for closedReadable.
func (p *proc) cutArguments() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := keptArgv
	for i, arg := range p.argv {
		if left -= len(arg) + 1; left < 0 {
			p.argv = append(slices.Clone(p.argv[:i]), "...")
			return
		}
	}
}

// retainClosed starts the period during which the output of a closed process can still be read.
func (s *session) retainClosed(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	p.closedAt = time.Now()
	p.cutArguments()
	if running := p.now(); running != nil {
		p.retained = running.Retained()
	}
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
	if running := p.now(); running != nil {
		running.Release()
	}
}

// sweepClosed forgets the processes that closed closedReadable ago, and
// schedules itself for the next one.
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
