package execenv

import (
	"context"
	"sync"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// Environment is one environment with the connection that all its users
// share. Its methods may be called from any goroutine.
//
// It is idle until the first use, then connecting, then connected or failed.
// If the first attempt fails it stays failed. Once it was connected, a client
// that has failed is replaced on the next use, by one attempt for all that
// wait and with a new session, in which the processes of the old one are not;
// if that fails the next use tries again. A program is not started again: its
// failed client is what users get. At most one goroutine connects, which Close
// waits for.
type Environment struct {
	connector *connector // one attempt at a time uses it

	mu        sync.Mutex
	closed    bool
	connected bool     // at least once
	latest    *attempt // nil: idle
	// startup is the first attempt; see WaitReady.
	startup *attempt
}

// attempt is one try to connect. The results are there when done is closed.
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

// startConnecting begins to connect, unless that would start a program, which
// waits for somebody who needs it.
func (e *Environment) startConnecting() {
	if e.connector.spec.Kind.reconnects() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.current()
	}
}

// Client returns the connected client, which must not be closed. It waits for
// the attempt to connect that is under way, or makes one.
func (e *Environment) Client(ctx context.Context) (*execclient.Client, error) {
	e.mu.Lock()
	a := e.current()
	e.mu.Unlock()
	return e.wait(ctx, a)
}

// WaitReady waits for the first attempt to connect and returns how it ended,
// whatever came after it.
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

// Info asks about the environment's machine.
func (e *Environment) Info(ctx context.Context) (execproto.EnvironmentInfo, error) {
	client, err := e.Client(ctx)
	if err != nil {
		return execproto.EnvironmentInfo{}, err
	}
	return client.EnvironmentInfo(ctx)
}

// wait returns the result of an attempt; nil: the environment is closed.
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

// current returns the attempt whose result counts now, which it begins if
// there is none; nil: the environment is closed. The caller holds the lock.
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

// begin starts an attempt that takes the place of a failed client.
func (e *Environment) begin(old *execclient.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{cancel: cancel, done: make(chan struct{})}
	e.latest = a
	go e.routineConnect(ctx, a, old)
}

// routineConnect makes an attempt.
func (e *Environment) routineConnect(ctx context.Context, a *attempt, old *execclient.Client) {
	defer close(a.done)
	defer a.cancel()
	if old != nil {
		_ = old.Close() // it has failed already, and has said why
	}
	client, err := e.connector.connect(ctx)
	if err != nil {
		a.err = &ConnectError{err}
		if ctx.Err() != nil {
			a.err = ErrClosed
		}
		return
	}
	// If the environment was closed meanwhile, Close closes it.
	a.client = client
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connected = true
}

// Close ends the connection, or the attempt to make one, and waits for it.
// Processes that were started end with their session.
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
