package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/runner"
)

// errNotBegun ends a command that was interrupted before the server confirmed its start. The
// client then makes sure that it does not run.
var errNotBegun = errors.New("interrupted before the command had started")

// errNotConfined ends a command that a server runs without the requested sandbox.
var errNotConfined = errors.New("the server did not confine the command, which was killed; it may be too old for --sandbox")

// errNoProxies ends a command whose sandbox permits only some hosts if the server has no network
// proxies.
var errNoProxies = errors.New("the server cannot give commands network proxies, which --allow-domain and --ask-network need")

// errInterrupted ends a command that is interrupted while the server is not reachable.
var errInterrupted = errors.New("interrupted; because the server cannot be reached, the command may continue for a while")

// attempt is one process on the server that is connected to this terminal.
type attempt struct {
	x      *remoteExec
	params execproto.StartParams
	report *report
	feed   *feed
	secret string                             // written to the process before any other input
	p      atomic.Pointer[execclient.Process] // nil until the process is started
	late   atomic.Bool                        // --timeout has passed
	caught atomic.Int32                       // the last signal; 0: none
	cause  execproto.Cause                    // cause of its end
	asked  []string                           // the command in the form that questions show
	raw    rawMode                            // raw mode of the terminal, if the process has one
	over   chan struct{}                      // closed when the process has closed or is abandoned
	// refused are hosts that the network proxy refused. It is set when the process has ended.
	refused []sandbox.Refusal
	// offline is advice if the command probably failed because it has no network. It is set when the process has ended.
	offline string
	// unenforced means that the sandbox could not be set up, so that the command did not run.
	unenforced bool
}

// run starts the process and waits for its end.
func (a *attempt) run(ctx context.Context) (approval.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { a.routineSignals(ctx, cancel) })
	a.over = make(chan struct{})
	isOver := sync.OnceFunc(func() { close(a.over) })
	defer a.x.network.begin(a)()
	defer isOver()

	p, err := a.start(ctx)
	if err != nil {
		return approval.Result{}, cause(ctx, err)
	}
	defer p.Release()
	if a.x.askNetwork {
		// While a question is on the terminal, follow reads no events. So another goroutine waits
		// for the end of the process, and withdraws the question then. Begin before the start is
		// reported, because a process may cause a question at once.
		wg.Go(func() {
			_, _ = p.WaitClosed(ctx)
			isOver()
		})
	}
	if err := a.started(p); err != nil {
		return approval.Result{}, a.giveUp(ctx, p, err)
	}
	if err := a.writeSecret(ctx, p); err != nil {
		return approval.Result{}, a.giveUp(ctx, p, err)
	}
	if a.params.TTY {
		a.raw.enter(a.x.screen)
	}
	defer a.raw.end()
	a.startRoutines(ctx, cancel, &wg, p)
	result, err := a.follow(ctx, p)
	switch {
	case errors.Is(err, syscall.EPIPE) && context.Cause(ctx) == nil && !a.x.link.lost() && a.x.client.Err() == nil:
		// The reader of the output has ended, as in "run -- yes | head". A local command would get
		// SIGPIPE.
		kill(ctx, p)
		return result, &cmdutil.ExitError{Code: cmdutil.ExitBrokenPipe}
	case err != nil:
		return result, a.giveUp(ctx, p, err)
	}
	return result, nil
}

// start starts the process. If the process must be confined, start checks that it is.
func (a *attempt) start(ctx context.Context) (*execclient.Process, error) {
	if n := a.params.NetworkProxy; n != nil {
		c := a.x.client.Capabilities()
		if !c.NetworkProxyLaunch || len(n.Proxy.ReviewDomains) > 0 && !c.NetworkProxyReviewDomains {
			return nil, &cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: errNoProxies}
		}
	}
	p, err := a.x.client.Start(ctx, a.params)
	if err != nil {
		return nil, runError(err, a.params.Argv, a.x.approves)
	}
	if a.params.Sandbox != nil && a.x.policy.Confines && p.SandboxType() == "none" {
		defer p.Release()
		_, err := p.Terminate(ctx)
		return nil, &cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: errors.Join(errNotConfined, err)}
	}
	a.p.Store(p)
	if p.SandboxType() != "none" {
		id := p.ID()
		a.x.confined.Store(&id)
	}
	return p, nil
}

// started reports the start of the process.
func (a *attempt) started(p *execclient.Process) error {
	a.checkLimits(p)
	return a.report.emit(execEvent{
		Type: "started", ProcessID: p.ID(), Environment: a.x.environment, Argv: a.params.Argv, Cwd: a.params.Cwd, Sandbox: p.SandboxType(), Limits: limitEvents(p.Limits()),
	})
}

// writeSecret writes the secret to the process, if the job has one. If the process has closed its
// stdin or has ended, that is not an error.
func (a *attempt) writeSecret(ctx context.Context, p *execclient.Process) error {
	if a.secret == "" {
		return nil
	}
	_, err := io.WriteString(p.Stdin(ctx), a.secret)
	if errors.Is(err, execclient.ErrStdinClosed) || errors.Is(err, execclient.ErrUnknownProcess) {
		return nil
	}
	return err
}

// startRoutines starts the goroutines that pass input on and enforce --timeout.
func (a *attempt) startRoutines(ctx context.Context, cancel context.CancelCauseFunc, wg *sync.WaitGroup, p *execclient.Process) {
	// A panic in a routine ends the program without the deferred calls of run.
	routine := func(f func()) {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					a.raw.end()
					panic(r)
				}
			}()
			f()
		})
	}
	routine(func() { a.routineTimeout(ctx, cancel) })
	switch {
	case a.params.TTY && a.x.screen.f == nil:
		routine(func() { a.routineStdin(ctx) })
	case a.params.TTY:
		routine(func() { routineResize(ctx, a.params.Size, a.x.screen.size, func() { a.resize(ctx) }) })
		routine(func() { a.pumpKeys(ctx, p, cancel) })
	case a.params.PipeStdin:
		routine(func() { a.routineStdin(ctx) })
	}
}

// follow passes the process's output on and returns how it ended.
func (a *attempt) follow(ctx context.Context, p *execclient.Process) (approval.Result, error) {
	var denials []execproto.Denial
	var last []byte // the end of the output, at most lastOutput bytes
	for e, err := range p.Events(ctx) {
		if e.Kind == execclient.Output && len(last) == 0 && a.params.Sandbox != nil && !a.report.json {
			e.Data = inShellWords(e.Data, a.params.Argv)
		}
		if err == nil {
			err = a.report.process(e)
		}
		switch e.Kind {
		case execclient.Exited:
			denials, a.unenforced = e.Denials, e.Refusal != ""
			if e.Cause == execproto.CauseServerStopped {
				a.x.link.serverStops()
			}
		case execclient.Output:
			last = append(last, e.Data[max(0, len(e.Data)-lastOutput):]...)
			last = last[max(0, len(last)-lastOutput):]
		}
		if err != nil {
			return approval.Result{}, err
		}
	}
	// Older servers report a denial only when they are asked, which WaitClosed does.
	state, err := p.WaitClosed(ctx)
	if err != nil {
		return approval.Result{}, err
	}
	a.cause = state.Cause
	refused, found := a.x.network.denials(denials)
	a.refused = refused
	if state.Code != 0 && a.params.NetworkProxy == nil {
		a.offline = a.x.policy.WithoutNetwork(string(last))
	}
	// A command that succeeds although a host was refused does not need that host.
	denied := state.SandboxDenied || found && state.Code != 0
	return approval.Result{ExitCode: state.Code, Denied: denied && a.params.Sandbox != nil}, nil
}

// giveUp kills a process whose output can no longer be read, if the server can be reached.
func (a *attempt) giveUp(ctx context.Context, p *execclient.Process, err error) error {
	err = cause(ctx, err)
	switch {
	case a.late.Load():
		return nil // the command has been killed
	case a.x.link.lost():
		return err // the server ends it with the session
	}
	var code *cmdutil.ExitError
	if kill(context.WithoutCancel(ctx), p) || errors.As(err, &code) {
		return err
	}
	return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: err}
}

// cause returns the cause of ctx if it has ended, and err otherwise.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return why
	}
	return err
}

// runError distinguishes a command that could not be started, which gets the exit codes of a shell,
// from a lost connection.
func runError(err error, argv []string, approves bool) error {
	var refused *execclient.ServerError
	if errors.As(err, &refused) {
		switch {
		case runner.NamesMissingProgram(refused.Message):
			err = fmt.Errorf("%w; the server's program needs codex-linux-sandbox and codex-fs in its directory, or their paths in its options", err)
		case strings.Contains(refused.Message, runner.ErrUnenforceable.Error()):
			err = fmt.Errorf("%w; run codex doctor on the server to see what is missing", err)
		}
		code := cmdutil.ExitNotStarted
		if !approves && notExecutable(err) { // exec uses 126 for other errors
			code = cmdutil.ExitNotExecutable
		}
		return &cmdutil.ExitError{Code: code, Err: startError(err, argv)}
	}
	return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: err}
}

// routineStdin forwards stdin until its end.
func (a *attempt) routineStdin(ctx context.Context) {
	switch err := a.feed.pump(ctx, a.p.Load(), a.params.TTY); {
	case errors.Is(err, execclient.ErrNoCloseStdin):
		fmt.Fprintln(a.x.s.Err, "codex: this server cannot close a command's stdin; a command that reads to its end will wait")
	case err != nil:
		cmdutil.Messagef(a.x.s.Err, "codex: %v\n", err)
	}
}

// routineSignals forwards signals. While the server cannot be reached, a signal ends the
// command locally.
func (a *attempt) routineSignals(ctx context.Context, cancel context.CancelCauseFunc) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case received := <-a.x.signals:
			sig, _ := received.(syscall.Signal)
			a.caught.Store(int32(sig))
			a.x.network.interrupt()
			p := a.p.Load()
			switch {
			case a.x.link.lost():
				cancel(cmdutil.Signaled(sig, errInterrupted))
			case p == nil:
				cancel(cmdutil.Signaled(sig, errNotBegun))
			case sig == syscall.SIGINT && time.Since(last) > secondInterrupt:
				last = time.Now()
				bound, stop := context.WithTimeout(ctx, secondInterrupt)
				_ = p.Signal(bound, execproto.SignalInterrupt)
				stop()
			case !kill(ctx, p):
				cancel(cmdutil.Signaled(sig, errInterrupted))
			}
		}
	}
}

// kill kills the process and reports whether the server answered in time.
func kill(ctx context.Context, p *execclient.Process) bool {
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	_, err := p.Terminate(ctx)
	return err == nil
}

// routineTimeout kills the process after --timeout, and waits for its end for a limited time.
func (a *attempt) routineTimeout(ctx context.Context, cancel context.CancelCauseFunc) {
	if a.x.timeout <= 0 {
		return
	}
	after := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if !after(a.x.timeout) {
		return
	}
	a.late.Store(true)
	_ = kill(ctx, a.p.Load())
	if after(killTime) {
		cancel(fmt.Errorf("the command did not end within %v after --timeout", killTime))
	}
}

// resize sends the size of the terminal to the process.
func (a *attempt) resize(ctx context.Context) {
	if size := a.x.screen.size(); size != nil {
		_ = a.p.Load().Resize(ctx, size.Rows, size.Cols)
	}
}

// addTerminal adds the type (TERM) and the size of this terminal to the params of a process.
func (x *remoteExec) addTerminal(params *execproto.StartParams) {
	if local, ok := os.LookupEnv("TERM"); ok {
		if _, given := params.Env["TERM"]; !given {
			params.Env["TERM"] = local
		}
	}
	params.Size = x.screen.size()
}
