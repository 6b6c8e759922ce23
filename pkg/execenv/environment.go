package execenv

import (
	"context"
	"sync"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// Environment is one environment with a connection that all its users share. Its methods may
// be called from any goroutine.
//
// It is idle until the first use, then connecting, then connected or failed. If the first
// attempt to connect fails, it stays failed. After it was connected, a failed client is
// replaced on the next use: all waiting users share one attempt, which opens a new session
// without the processes of the old one. If that attempt fails, the next use tries again. A
// program is not started again: users get its failed client. At most one goroutine connects,
// and Close waits for it.
type Environment struct {
	connector *connector // for one attempt at a time

	mu        sync.Mutex
	closed    bool
	connected bool     // it was connected before
	latest    *attempt // nil: idle
	// startup is the first attempt; see WaitReady.
	startup *attempt
}

// attempt is one attempt to connect. The results are set before done is closed.
type attempt struct {
	cancel context.CancelFunc
	done   chan struct{}
	client *execclient.Client
	err    error
}

func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func newEnvironment(s Spec, o Options) *Environment {
	return &Environment{connector: newConnector(s, o)}
}

// startConnecting begins to connect, unless that would start a program. Programs are started
// on first use.
func (e *Environment) startConnecting() {
	if e.connector.spec.Kind.reconnects() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.current()
	}
}

// Client returns the connected client, which must not be closed. It waits for the current
// attempt to connect, or begins one.
func (e *Environment) Client(ctx context.Context) (*execclient.Client, error) {
	e.mu.Lock()
	a := e.current()
	e.mu.Unlock()
	return e.wait(ctx, a)
}

// WaitReady waits for the first attempt to connect and returns its result, even if later ones
// had another result.
func (e *Environment) WaitReady(ctx context.Context) error {
	e.mu.Lock()
	if e.startup == nil {
		e.current()
	}
	a := e.startup
	e.mu.Unlock()
	_, err := e.wait(ctx, a)
	return err
}

// Info asks for a description of the environment's machine.
func (e *Environment) Info(ctx context.Context) (execproto.EnvironmentInfo, error) {
	client, err := e.Client(ctx)
	if err != nil {
		return execproto.EnvironmentInfo{}, err
	}
	return client.EnvironmentInfo(ctx)
}

// wait waits for an attempt and returns its result. A nil attempt means that the environment
// is closed.
func (e *Environment) wait(ctx context.Context, a *attempt) (*execclient.Client, error) {
	if a == nil {
		return nil, ErrClosed
	}
	select {
	case <-a.done:
		return a.client, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// current returns the current attempt, or begins one; nil if the environment is closed. The
// lock is held.
func (e *Environment) current() *attempt {
	a := e.latest
	switch {
	case e.closed:
		return nil
	case a == nil:
		e.begin(nil)
		e.startup = e.latest
	case !a.isDone():
	case a.err != nil && e.connected:
		e.begin(nil)
	case a.err == nil && a.client.Err() != nil && e.connector.spec.Kind.reconnects():
		e.begin(a.client)
	}
	return e.latest
}

// begin begins an attempt to replace a failed client.
func (e *Environment) begin(old *execclient.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{cancel: cancel, done: make(chan struct{})}
	e.latest = a
	go e.routineConnect(ctx, a, old)
}

// routineConnect makes the attempt.
func (e *Environment) routineConnect(ctx context.Context, a *attempt, old *execclient.Client) {
	defer close(a.done)
	defer a.cancel()
	if old != nil {
		_ = old.Close() // this client has failed before
	}
	client, err := e.connector.connect(ctx)
	if err != nil {
		a.err = &ConnectError{err}
		if ctx.Err() != nil {
			a.err = ErrClosed
		}
		return
	}
	// If the environment was closed during the attempt, Close closes the client.
	a.client = client
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connected = true
}

// Close closes the connection, or cancels the attempt to make one, and waits for it. The
// session's processes end with the session.
func (e *Environment) Close() error {
	e.mu.Lock()
	e.closed = true
	a := e.latest
	e.mu.Unlock()
	if a == nil {
		return nil
	}
	a.cancel()
	<-a.done
	if a.client == nil {
		return nil
	}
	return a.client.Close()
}
