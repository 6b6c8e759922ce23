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

// ErrPortsWatched is the error of WatchPorts while another watch of the client is open.
var ErrPortsWatched = errors.New("the ports are watched already; close that watch first")

// PortOptions configure Client.WatchPorts.
type PortOptions struct {
	// AllSessions: the ports of every session of the client's user or token are told, and
	// not those of this session alone.
	AllSessions bool
}

// Ports is what PortWatch.Next returns: all TCP ports on which processes listen. Truncated
// means that there may be more.
type Ports struct {
	Ports     []execproto.Port
	Truncated bool
}

// PortWatch is told on which TCP ports processes of the server listen (docs/spec/wire.md
// §11.8). Its methods may be called from any goroutine.
//
// When the connection was lost and the session resumed, the server is asked again.
type PortWatch struct {
	c      *Client
	params execproto.WatchPortsParams
	woken  chan struct{} // something is there to be taken

	mu      sync.Mutex
	waiting *Ports // nil: nothing is new
	err     error  // why it has ended
}

// WatchPorts watches on which ports processes of this session listen; the first Next
// returns those of the beginning. The error is ErrUnsupported if the server cannot tell, and
// ErrPortsWatched. The caller must call Close.
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
		_ = w.Close() // the server may be watching if only the answer was lost
		return nil, err
	}
	return w, nil
}

// begin asks the server.
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
		err = &DisconnectedError{ErrClosed.Error()}
	}
	return err
}

// Next waits until the ports are others than those that it returned last, and returns them
// all. After the end of the watch the error is the reason: ErrClosed after Close, that of the
// client's failure, or an error of the server when the connection came back.
func (w *PortWatch) Next(ctx context.Context) (Ports, error) {
	for {
		w.mu.Lock()
		now, err := w.waiting, w.err
		w.waiting = nil
		w.mu.Unlock()
		switch {
		case err != nil:
			wait.Wake(w.woken) // every Next returns from now on
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

// Close ends the watch. The server is told, and not waited for.
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

// endPorts ends the watch when the client has failed.
func (c *Client) endPorts(why error) {
	if w := c.portWatch(); w != nil {
		w.end(why)
	}
}

// end ends the watch on this side, and reports whether it had not ended before.
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

// receive takes a notification: the newest has all ports.
func (w *PortWatch) receive(n *execproto.Ports) {
	w.mu.Lock()
	if n.WatchID == w.params.WatchID {
		w.waiting = &Ports{n.Ports, n.Truncated}
	}
	w.mu.Unlock()
	wait.Wake(w.woken)
}

// again asks on another connection.
func (w *PortWatch) again(l *connection) {
	err := w.begin(w.c.ctx, l)
	if err != nil && !errors.As(err, new(*DisconnectedError)) { // else the next connection does this
		w.end(fmt.Errorf("the watch of the ports could not be resumed: %w", err))
	}
}
