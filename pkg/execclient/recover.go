package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/websocket"
)

// textDisconnected begins the errors about a lost connection. A reason may follow.
const textDisconnected = "exec-server transport disconnected"

// lost is called by a connection's reader when the connection is down. If it is the current
// one, the session is recovered, or the client fails.
func (c *Client) lost(l *connection, reason error) {
	message := disconnected(reason)
	c.log.Debug("connection lost", "reason", reason)
	mine, stable := false, true
	why := &DisconnectedError{Message: message, Reason: closeReason(reason)}
	recovering := c.become(Recovering, why, func() bool {
		mine = c.link == l && c.state == Connected
		stable = time.Since(c.since) >= calmTime
		return mine && c.dialer != nil && !c.closing
	})
	if mine {
		c.bodies.fail(why)
	}
	switch {
	case recovering:
		c.wg.Go(func() { c.routineRecovery(why, stable) })
	case mine:
		c.fail(why)
	}
}

// disconnected returns the user's text for the end of a connection.
func disconnected(reason error) string {
	var bad *badNotification
	var breach *protocolViolation
	switch {
	case errors.As(reason, &bad):
		return bad.Error()
	case reason == nil, errors.Is(reason, io.EOF), errors.As(reason, &breach):
		return textDisconnected
	case closeReason(reason) != "":
		return fmt.Sprintf("%s: the server said: %s", textDisconnected, closeReason(reason))
	default:
		return fmt.Sprintf("%s: %v", textDisconnected, reason)
	}
}

// closeReason returns the reason that the server gave when it closed a connection, or "".
func closeReason(err error) string {
	var closed *websocket.CloseError
	if !errors.As(err, &closed) {
		return ""
	}
	return closed.Reason
}

// routineRecovery tries to resume the session until it succeeds, it is impossible, or
// RecoveryTimeout has passed. lost says how the connection was lost. stable means that it
// had lasted for calmTime: then the first attempt is made at once.
func (c *Client) routineRecovery(lost *DisconnectedError, stable bool) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.RecoveryTimeout)
	defer cancel()
	give := func(why string) {
		c.fail(&DisconnectedError{Message: lost.Message + "; failed to resume exec-server session: " + why, Reason: lost.Reason})
	}
	if c.info.SessionID == "" {
		give("missing session id")
		return
	}
	for attempt := 0; ; attempt++ {
		if attempt > 0 || !stable {
			_ = wait.For(ctx, c.pauseBefore(attempt)) // the next attempt fails if ctx has ended
		}
		err := ctx.Err()
		if err == nil {
			err = c.resume(ctx)
		}
		switch {
		case err == nil:
			c.log.Debug("session resumed", "attempts", attempt+1)
			return
		case ctx.Err() != nil:
			give(fmt.Sprintf("recovery timed out after %v", c.opts.RecoveryTimeout))
			return
		case !retryable(err):
			give(err.Error())
			return
		}
		c.log.Debug("the session could not be resumed yet", "error", err)
	}
}

// pauseBefore returns the time before an attempt.
func (c *Client) pauseBefore(attempt int) time.Duration {
	if p, ok := c.dialer.(interface {
		RetryPause(attempt int) time.Duration
	}); ok {
		return p.RetryPause(attempt)
	}
	return retryPause
}

// resume makes one attempt: it connects, makes the handshake, and requests the missed events
// of each process.
func (c *Client) resume(ctx context.Context) error {
	t, err := c.dialer.Dial(ctx)
	if err != nil {
		return err
	}
	l := c.open(t, c.lost)
	params := execproto.InitializeParams{
		ClientName: c.opts.ClientName, ResumeSessionID: &c.info.SessionID,
		// The server may not have noticed the loss of the last connection yet.
		TakeOver: c.Has(execproto.ExtensionTakeOver),
	}
	_, err = l.initialize(ctx, c.opts, params)
	if err == nil {
		err = c.recoverProcesses(ctx, l)
	}
	if err == nil {
		err = c.tunnels.resume(ctx, c, l)
	}
	if err == nil && !c.install(l) {
		err = errDown
	}
	if err != nil {
		_ = t.Close()
	}
	return err
}

// install makes a connection the current one, unless it is down already.
func (c *Client) install(l *connection) bool {
	ok := c.become(Connected, nil, func() bool {
		if l.isDown() || c.closing {
			return false
		}
		c.link, c.since = l, time.Now()
		return true
	})
	if ok {
		for _, p := range c.processes() {
			p.repeatAck()
		}
		c.rewatch(l)
		if w := c.portWatch(); w != nil {
			c.wg.Go(func() { w.again(l) })
		}
	}
	return ok
}

// processes returns the processes whose events are routed.
func (c *Client) processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	procs := make([]*Process, 0, len(c.procs))
	for _, p := range c.procs {
		procs = append(procs, p)
	}
	return procs
}

// recoverProcesses requests the missed events of all processes. It returns errors of the
// connection. An error about one process ends only that process.
func (c *Client) recoverProcesses(ctx context.Context, l *connection) error {
	for _, p := range c.processes() {
		if !p.isStarted() {
			continue
		}
		err := p.recover(ctx, l)
		if err == nil || errors.Is(err, ErrStarting) {
			continue // Start sends it again
		}
		if isDown(err) || ctx.Err() != nil {
			return err
		}
		c.giveUp(l, p, err)
	}
	return nil
}

// giveUp ends a process whose events cannot be recovered.
func (c *Client) giveUp(l *connection, p *Process, err error) {
	c.forget(p)
	p.fail(fmt.Errorf("failed to recover process %s: %w", p.id, err))
	c.wg.Go(func() {
		if raw, err := encode(execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: p.id}); err == nil {
			_, _ = l.call(c.ctx, execproto.MethodProcessTerminate, raw)
		}
	})
}

// recover requests the process's missed events. The error is ErrStarting if the server has not
// started the process yet.
func (p *Process) recover(ctx context.Context, l *connection) error {
	after := p.through()
	raw, err := encode(execproto.MethodProcessRead, &execproto.ReadParams{
		ProcessID: p.id, AfterSeq: &after, WaitMS: new(uint64), Details: p.c.Has(execproto.ExtensionLimits),
	})
	if err != nil {
		return err
	}
	m, err := l.call(ctx, execproto.MethodProcessRead, raw)
	if err != nil {
		return err
	}
	var r execproto.ReadResult
	switch err := decodeAnswer(execproto.MethodProcessRead, m, &r); {
	case execproto.IsProcessStarting(err):
		return fmt.Errorf("process %s: %w", p.id, ErrStarting)
	case IsCode(err, execproto.CodeInvalidRequest):
		return &EventsLostError{ProcessID: p.id, After: after, Err: err}
	case err != nil:
		return err
	}
	return p.merge(r)
}
