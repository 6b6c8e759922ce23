package execserver

import (
	"context"
	"slices"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/tracing"
)

// The values of sandboxType in the result of process/start.
const (
	sandboxNone  = "none"
	sandboxLinux = "linuxSeccomp"
)

// startStages are the stages of a start, from first to last. Each stage reads what the earlier
// ones have stored in the start. If one fails, the earlier ones are undone, the last one first.
//
// The order has reasons. The audit trail must have the start, with the policy of its sandbox,
// before the start has any effect outside of the server. The shell's start-up files run in the
// sandbox and with the network of the command. The start of a detached process, in its keeper,
// differs from any other in one stage: retainOutput.
var startStages = []stage{
	{when: onReader, do: reserveProcess, undo: forgetProcess},
	{when: onWorker, do: traceProcess},
	{when: onWorker, only: hasSandbox, do: makeSandbox, span: observe.StepPrepareSandbox},
	{when: onWorker, do: recordStart},
	{when: onWorker, do: openNetwork, undo: closeNetwork},
	{when: onWorker, only: hasSnapshot, do: restoreShell},
	{when: onWorker, only: isInKeeper, do: retainOutput},
	{when: onWorker, do: spawnProcess, span: observe.StepSpawn},
	{when: afterAnswer, do: publishProcess},
}

// stage is a part of a start.
type stage struct {
	when phase
	only func(st *start) bool // which starts need it; nil: all
	do   func(ctx context.Context, st *start) error
	// undo reverts do after the start has failed with err.
	undo func(st *start, err error) error
	span string // the name of the stage's span; "": it has none
}

// phase is the time at which a stage runs.
type phase int

const (
	onReader    phase = iota // on the connection's reader, so that the next request can name the process
	onWorker                 // in the ordinary lane
	afterAnswer              // after the answer was added to the connection's queue
)

// advance runs the stages of a phase. If it returns an error, the error is the answer to the
// request.
func (st *start) advance(ctx context.Context, when phase) error {
	for ; st.done < len(startStages) && startStages[st.done].when == when; st.done++ {
		if err := st.runStage(ctx, &startStages[st.done]); err != nil {
			return startError(st.fail(err))
		}
	}
	return nil
}

func hasSandbox(st *start) bool  { return st.sandbox != nil }
func hasSnapshot(st *start) bool { return st.shell != nil }
func isInKeeper(st *start) bool  { return st.c.srv.keeper != nil }

func (st *start) runStage(ctx context.Context, s *stage) error {
	switch {
	case s.only != nil && !s.only(st):
		return nil
	case s.span == "":
		return s.do(ctx, st)
	}
	step := &observe.Step{Name: s.span, Within: st.p.seen.Within}
	st.c.srv.events.StepBegan.Tell(step)
	step.Err = s.do(ctx, st)
	st.c.srv.events.StepDone.Tell(step)
	return step.Err
}

// fail undoes the completed stages, because of err. It returns the error that says why the
// process did not start.
func (st *start) fail(err error) error {
	for _, s := range slices.Backward(startStages[:st.done]) {
		if s.undo != nil {
			err = s.undo(st, err)
		}
	}
	st.done = 0
	return err
}

// reserveProcess registers the process in its session.
func reserveProcess(_ context.Context, st *start) error {
	s := st.c.session
	ctx, stop := context.WithCancel(s.ctx)
	p := &proc{
		s: s, id: st.id, argv: st.spec.Argv, tty: st.spec.TTY, startedAt: time.Now(), stop: stop, started: make(chan struct{}),
	}
	p.seen.Session, p.seen.ID, p.seen.TTY, p.seen.Log = s.seen(), st.id, st.spec.TTY, st.c.log.With("process", shorten(st.id))
	if m := st.metadata; m != nil {
		p.seen.Thread, p.seen.ToolCall = shorten(m.ThreadID), shorten(m.ToolCallID)
		p.seen.Log = p.seen.Log.With("thread", p.seen.Thread, "call", p.seen.ToolCall)
	}
	if err := s.add(p); err != nil {
		stop()
		return err
	}
	st.p, st.ctx = p, ctx
	return nil
}

// forgetProcess removes the process, which did not start.
func forgetProcess(st *start, err error) error {
	p, srv := st.p, st.c.srv
	p.stop()
	p.s.remove(p)
	if srv.keeper != nil {
		defer srv.keeper.End()
	}
	if p.setStarted(nil) {
		err = execproto.Internal("process " + shorten(p.id) + " was terminated while it was starting")
	}
	srv.events.ProcessStartFailed.Tell(observe.StartFailure{Process: &p.seen, Err: err})
	return err
}

// traceProcess begins the span of the process. If commands get spans, it adds the span to the
// command's environment.
func traceProcess(_ context.Context, st *start) error {
	seen := &st.p.seen
	seen.Within, seen.Trace = tracing.From(st.request), observe.TraceOf(st.request)
	st.c.srv.events.ProcessStartBegan.Tell(seen)
	if st.c.srv.opts.TraceCommands {
		st.spec.Env = seen.Environ(st.spec.Env)
	}
	return nil
}

// recordStart records in the audit trail that the process is about to start, and its policy.
func recordStart(_ context.Context, st *start) error {
	seen := &st.p.seen
	seen.Argv, seen.Dir, seen.Sandbox = st.spec.Argv, st.spec.Dir, sandboxNone
	if st.confinement != nil {
		seen.Sandbox, seen.Policy = sandboxLinux, st.confinement.Profile
	}
	err := st.c.srv.events.ProcessStarting.Ask(seen)
	seen.Argv = nil // argv may be large, and the process is retained for some time after its end
	return err
}

// spawnProcess starts the command or, in a sandbox, the launcher.
func spawnProcess(ctx context.Context, st *start) error {
	p := st.p
	began := time.Now()
	defer func() { p.seen.Took = time.Since(began) }()
	var err error
	if st.confinement == nil {
		st.running, err = p.s.group.Start(ctx, st.spec, p.sink())
		return err
	}
	p.confined, p.profile, p.seen.Backend = true, st.confinement.Profile, st.c.srv.confiner.Backend()
	command, err := p.s.srv.confiner.Confine(st.confinement, &st.spec)
	if err != nil {
		return err
	}
	defer command.Close()
	p.refusal = command.Refusal
	st.running, err = p.s.group.Start(ctx, st.spec, p.sink())
	if err != nil {
		_ = command.Refusal.Close()
	}
	if command.Egress != nil {
		p.redirect(command.Egress)
	}
	return err
}

// publishProcess lets waiting requests about the process continue, and permits its output to be
// sent.
func publishProcess(_ context.Context, st *start) error {
	p := st.p
	if p.setStarted(st.running) {
		st.running.Terminate()
	}
	p.seen.PID = st.running.Pid()
	st.c.srv.events.ProcessStarted.Tell(&p.seen)
	st.running.OpenGate()
	return nil
}
