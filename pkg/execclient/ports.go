package execclient

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonrpc"
)

// ErrPortsWatched is the error of WatchPorts while the client has another watch of ports.
var ErrPortsWatched = errors.New("the ports are watched already; close that watch first")

// PortOptions configure Client.WatchPorts.
type PortOptions struct {
	// AllSessions includes the ports of every session of the client's user or token, and not
	// only those of this session.
	AllSessions bool
}

// Ports are all TCP ports on which processes listen. If Truncated is set, the list may be
// incomplete.
type Ports struct {
	Ports     []execproto.Port
	Truncated bool
}

// PortWatch watches the TCP ports on which processes of the server listen
// (docs/spec/wire.md §11.8). Its methods may be called from any goroutine.
//
// After a lost connection, the client asks the server again.
type PortWatch struct {
	c      *Client
	params execproto.WatchPortsParams
	woken  chan struct{} // wakes Next

	mu      sync.Mutex
	waiting *Ports // nil: nothing has changed
	err     error  // the reason for the end of the watch
}

// WatchPorts watches the ports on which processes of this session listen. The first Next
// returns the current ones. The error is ErrUnsupported if the server cannot list ports, and
// ErrPortsWatched if this client watches already. The caller must call Close.
func (c *Client) WatchPorts(ctx context.Context, o PortOptions) (*PortWatch, error) {
	if !c.Has(execproto.MethodTunnelWatchPorts) {
		return nil, ErrUnsupported
	}
	w := &PortWatch{c: c, woken: make(chan struct{}, 1), params: execproto.WatchPortsParams{AllSessions: o.AllSessions}}
	c.mu.Lock()
	taken, err := c.ports != nil, c.err
	if !taken && err == nil {
		c.ports = w
		c.lastPorts++
		w.params.WatchID = c.lastPorts
	}
	c.mu.Unlock()
	switch {
	case taken:
		return nil, ErrPortsWatched
	case err != nil:
		return nil, err
	}
	l, err := c.live(ctx)
	if err == nil {
		err = w.begin(ctx, l)
	}
	if err != nil {
		_ = w.Close() // if only the answer was lost, the server watches
		return nil, err
	}
	return w, nil
}

// begin sends the request for the watch.
func (w *PortWatch) begin(ctx context.Context, l *connection) error {
	raw, err := encode(execproto.MethodTunnelWatchPorts, &w.params)
	if err != nil {
		return err
	}
	m, err := l.call(ctx, execproto.MethodTunnelWatchPorts, raw)
	if err == nil && m.Kind == jsonrpc.ErrorResponse {
		err = serverError(execproto.MethodTunnelWatchPorts, m)
	}
	if isDown(err) {
		err = &DisconnectedError{Message: ErrClosed.Error()}
	}
	return err
}

// Next waits until the ports differ from its last result, and returns all ports. After the end
// of the watch the error is the reason: ErrClosed after Close, the error of the failed client,
// or an error of the server after a lost connection.
func (w *PortWatch) Next(ctx context.Context) (Ports, error) {
	for {
		w.mu.Lock()
		now, err := w.waiting, w.err
		w.waiting = nil
		w.mu.Unlock()
		switch {
		case err != nil:
			wait.Wake(w.woken) // from now on every Next returns
			return Ports{}, err
		case now != nil:
			return *now, nil
		}
		select {
		case <-w.woken:
		case <-ctx.Done():
			return Ports{}, ctx.Err()
		}
	}
}

// Close ends the watch. It does not wait for the server.
func (w *PortWatch) Close() error {
	if !w.end(ErrClosed) {
		return nil
	}
	w.c.mu.Lock()
	l := w.c.link
	w.c.mu.Unlock()
	if l != nil {
		w.c.background(func(ctx context.Context) {
			if raw, err := encode(execproto.MethodTunnelUnwatch, &execproto.UnwatchParams{WatchID: w.params.WatchID}); err == nil {
				_, _ = l.call(ctx, execproto.MethodTunnelUnwatch, raw)
			}
		})
	}
	return nil
}

// portWatch returns the watch of the ports, or nil.
func (c *Client) portWatch() *PortWatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports
}

// endPorts ends the watch of a client that has failed.
func (c *Client) endPorts(why error) {
	if w := c.portWatch(); w != nil {
		w.end(why)
	}
}

// end ends the watch locally, and reports whether it had not ended before.
func (w *PortWatch) end(why error) bool {
	w.mu.Lock()
	first := w.err == nil
	if first {
		w.err = why
	}
	w.mu.Unlock()
	w.c.mu.Lock()
	if w.c.ports == w {
		w.c.ports = nil
	}
	w.c.mu.Unlock()
	wait.Wake(w.woken)
	return first
}

// receive handles a notification. The newest has all ports.
func (w *PortWatch) receive(n *execproto.Ports) {
	w.mu.Lock()
	if n.WatchID == w.params.WatchID {
		w.waiting = &Ports{n.Ports, n.Truncated}
	}
	w.mu.Unlock()
	wait.Wake(w.woken)
}

// again watches on a new connection.
func (w *PortWatch) again(l *connection) {
	err := w.begin(w.c.ctx, l)
	if err != nil && !errors.As(err, new(*DisconnectedError)) { // otherwise the next connection does this
		w.end(fmt.Errorf("the watch of the ports could not be resumed: %w", err))
	}
}
