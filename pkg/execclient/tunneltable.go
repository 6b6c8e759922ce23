package execclient

import (
	"context"
	"errors"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/tunnel"
)

// linkCarrier sends the messages of tunnels on a connection.
type linkCarrier struct{ l *connection }

func (t linkCarrier) Data(ctx context.Context, id, offset uint64, data []byte, end bool) error {
	const envelope = 128
	b := make([]byte, 0, len(data)*4/3+envelope)
	return t.l.send(ctx, execproto.Notify(&execproto.TunnelData{TunnelID: id, Offset: offset, Data: data, End: end})(b))
}

func (t linkCarrier) Ack(ctx context.Context, id, position uint64) error {
	return t.l.send(ctx, execproto.Notify(&execproto.TunnelAck{TunnelID: id, Position: position})(nil))
}

func (t linkCarrier) Close(ctx context.Context, id uint64, reason string) error {
	return t.l.send(ctx, execproto.Notify(&execproto.TunnelClose{TunnelID: id, Reason: reason})(nil))
}

// tunnelTable holds a client's tunnels and listeners. Its zero value is ready.
type tunnelTable struct {
	preparing sync.Mutex // held by prepare
	prepared  bool

	mu        sync.Mutex
	err       error // the client has failed
	last      uint64
	streams   map[uint64]*tunnelEntry
	listeners map[uint64]*TunnelListener
	resumes   int           // the number of resumptions
	gone      chan struct{} // closed when a stream was removed; nil: no goroutine waits
}

// tunnelEntry is a stream. Only open streams are resumed.
type tunnelEntry struct {
	s    *tunnel.Stream
	open bool
}

// prepare is called before a tunnel is opened. It ends tunnels of an earlier client whose
// session this one has resumed, because their ids would collide.
func (t *tunnelTable) prepare(ctx context.Context, c *Client) error {
	if !c.Has(execproto.MethodTunnelOpen) {
		return ErrUnsupported
	}
	t.preparing.Lock()
	defer t.preparing.Unlock()
	if t.prepared || c.opts.ResumeSessionID == "" {
		t.prepared = true
		return nil
	}
	err := c.Call(ctx, execproto.MethodTunnelResume, &execproto.TunnelResume{}, nil)
	t.prepared = err == nil
	return err
}

// add registers a stream that is not open yet. count is for opened.
func (t *tunnelTable) add(ctx context.Context, carrier tunnel.Carrier) (s *tunnel.Stream, count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last += 2
	s = tunnel.New(ctx, t.last-1, carrier, 0, t.forget)
	t.keep(s, false)
	return s, t.resumes
}

// keep registers a stream. The lock is held.
func (t *tunnelTable) keep(s *tunnel.Stream, open bool) {
	if t.streams == nil {
		t.streams = make(map[uint64]*tunnelEntry)
	}
	t.streams[s.ID()] = &tunnelEntry{s, open}
}

// opened marks a stream as open. It returns false if the session was resumed meanwhile without
// this stream.
func (t *tunnelTable) opened(s *tunnel.Stream, count int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.streams[s.ID()]
	if e == nil {
		return true // the server has already closed it
	}
	e.open = t.resumes == count
	return e.open && t.err == nil
}

func (t *tunnelTable) forget(s *tunnel.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.streams[s.ID()]; e != nil && e.s == s {
		delete(t.streams, s.ID())
	}
	if t.gone != nil {
		close(t.gone)
		t.gone = nil
	}
}

func (t *tunnelTable) find(id uint64) *tunnel.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.streams[id]; e != nil {
		return e.s
	}
	return nil
}

// listen registers a listener before the request is sent, because tunnels may arrive with the
// answer.
func (t *tunnelTable) listen(c *Client) *TunnelListener {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last += 2
	l := &TunnelListener{c: c, id: t.last, accepted: make(chan *Tunnel, maxAccepted), closed: make(chan struct{})}
	if t.listeners == nil {
		t.listeners = make(map[uint64]*TunnelListener)
	}
	t.listeners[l.id] = l
	return l
}

// unlisten unregisters a listener and reports whether it was registered. It ends tunnels that
// were not accepted.
func (t *tunnelTable) unlisten(l *TunnelListener) bool {
	t.mu.Lock()
	known := t.listeners[l.id] == l
	delete(t.listeners, l.id)
	t.mu.Unlock()
	if !known {
		return false
	}
	close(l.closed)
	for {
		select {
		case waiting := <-l.accepted:
			l.c.background(func(context.Context) { _ = waiting.Abort(reasonNotAccepted) })
		default:
			return true
		}
	}
}

// reasonNotAccepted is the reason for ending a connection to a listener that the client does
// not accept.
const reasonNotAccepted = "connection refused by the client"

// notification handles a notification about a tunnel; known is false for others. It runs on
// the reader of l and does not block.
func (t *tunnelTable) notification(c *Client, l *connection, m jsonrpc.Message) (known bool, err error) {
	switch m.Method {
	case execproto.NotifyTunnelData:
		n, err := execproto.Decode[execproto.TunnelData](m.Params)
		if s := t.find(n.TunnelID); err == nil && s != nil {
			c.obey(s, s.Data(n.Offset, n.Data, n.End))
		}
		return true, err
	case execproto.NotifyTunnelAck:
		n, err := execproto.Decode[execproto.TunnelAck](m.Params)
		if s := t.find(n.TunnelID); err == nil && s != nil {
			c.obey(s, s.Ack(n.Position))
		}
		return true, err
	case execproto.NotifyTunnelClose:
		n, err := execproto.Decode[execproto.TunnelClose](m.Params)
		if s := t.find(n.TunnelID); err == nil && s != nil {
			s.PeerClosed(n.Reason)
		}
		return true, err
	case execproto.NotifyTunnelAccepted:
		n, err := execproto.Decode[execproto.TunnelAccepted](m.Params)
		if err == nil {
			t.accept(c, l, n)
		}
		return true, err
	case execproto.NotifyTunnelPorts:
		n, err := execproto.Decode[execproto.Ports](m.Params)
		if w := c.portWatch(); err == nil && w != nil {
			w.receive(&n)
		}
		return true, err
	}
	return false, nil
}

// obey ends a tunnel if the server has violated the protocol.
func (c *Client) obey(s *tunnel.Stream, violation error) {
	if violation != nil {
		c.background(func(context.Context) { _ = s.Abort(violation.Error()) })
	}
}

// accept handles a new connection to a listener.
func (t *tunnelTable) accept(c *Client, l *connection, n execproto.TunnelAccepted) {
	s := tunnel.New(c.ctx, n.TunnelID, linkCarrier{l}, n.Window, t.forget)
	t.mu.Lock()
	listener := t.listeners[n.ListenerID]
	taken := listener != nil && t.err == nil && t.streams[n.TunnelID] == nil && n.TunnelID%2 == 0
	if taken {
		t.keep(s, true)
		select {
		case listener.accepted <- &Tunnel{s, tunnel.Addr(n.Peer)}:
		default:
			taken = false
		}
	}
	t.mu.Unlock()
	if !taken {
		c.background(func(context.Context) { _ = s.Abort(reasonNotAccepted) })
	}
}

// errTunnelLost is the error of a tunnel that the server does not have any more after a lost
// connection.
var errTunnelLost = &tunnel.ClosedError{Reason: "it ended while the connection was lost"}

// resume resumes the tunnels and listeners on a new connection. It returns errors of the
// connection.
func (t *tunnelTable) resume(ctx context.Context, c *Client, l *connection) error {
	t.mu.Lock()
	used := t.last > 0
	t.resumes++
	params := execproto.TunnelResume{}
	streams := make(map[uint64]*tunnel.Stream)
	for id, e := range t.streams {
		if e.open {
			streams[id] = e.s
			params.Tunnels = append(params.Tunnels, execproto.TunnelPosition{TunnelID: id, Received: e.s.Received()})
		}
	}
	for id := range t.listeners {
		params.Listeners = append(params.Listeners, execproto.TunnelListener{ListenerID: id})
	}
	t.mu.Unlock()
	if !used || !c.Has(execproto.MethodTunnelResume) {
		return nil
	}
	var r execproto.TunnelResume
	raw, err := encode(execproto.MethodTunnelResume, &params)
	if err != nil {
		return err
	}
	m, err := l.call(ctx, execproto.MethodTunnelResume, raw)
	if err == nil {
		err = decodeAnswer(execproto.MethodTunnelResume, m, &r)
	}
	if err != nil {
		return err
	}
	for _, at := range r.Tunnels {
		if s := streams[at.TunnelID]; s != nil && s.Resume(linkCarrier{l}, at.Received) == nil {
			delete(streams, at.TunnelID)
			c.background(func(context.Context) { s.Flush() })
		}
	}
	for _, s := range streams {
		s.Fail(errTunnelLost)
	}
	t.dropListeners(params.Listeners, r.Listeners)
	return nil
}

// dropListeners closes the listeners that the server does not have any more.
func (t *tunnelTable) dropListeners(sent, kept []execproto.TunnelListener) {
	lost := make(map[uint64]bool)
	for _, l := range sent {
		lost[l.ListenerID] = true
	}
	for _, l := range kept {
		delete(lost, l.ListenerID)
	}
	for id := range lost {
		t.mu.Lock()
		l := t.listeners[id]
		t.mu.Unlock()
		if l != nil {
			t.unlisten(l)
		}
	}
}

// fail ends all tunnels. Listeners end with the client.
func (t *tunnelTable) fail(err error) {
	t.mu.Lock()
	t.err = err
	streams := t.streams
	t.streams = nil
	t.mu.Unlock()
	for _, e := range streams {
		e.s.Fail(err)
	}
}

// letGo is called before the connection is closed. It waits until closed tunnels have sent all
// written data. It ends the other tunnels, because the server would keep them for a new
// connection.
func (t *tunnelTable) letGo(c *Client) {
	ctx, cancel := context.WithTimeout(c.ctx, lingerTime)
	defer cancel()
	for {
		t.mu.Lock()
		lingering, open := false, len(t.streams)+len(t.listeners) > 0
		for _, e := range t.streams {
			lingering = lingering || e.s.Closing()
		}
		if t.gone == nil {
			t.gone = make(chan struct{})
		}
		gone := t.gone
		t.mu.Unlock()
		if !open {
			return
		}
		if !lingering {
			break
		}
		select {
		case <-gone:
			continue
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
	c.mu.Lock()
	l, connected := c.link, c.state == Connected
	c.mu.Unlock()
	raw, err := encode(execproto.MethodTunnelResume, &execproto.TunnelResume{})
	if err == nil && connected {
		_, err = l.call(ctx, execproto.MethodTunnelResume, raw)
	}
	if err != nil && !errors.Is(err, errDown) {
		c.log.Debug("the server keeps tunnels until the session ends", "error", err)
	}
}
