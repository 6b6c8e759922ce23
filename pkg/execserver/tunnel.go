package execserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/tunnel"
)

// tunnels are those of a session, with its listeners (docs/spec/wire.md §11). They
// outlive a connection: the next one takes them on with tunnel/resume. close ends them.
//
// A tunnel has a slot from before it is dialed until its connection is closed.
type tunnels struct {
	ctx     context.Context // the session's
	events  *observe.Events
	dialing chan struct{}  // holds an element for each connection that is being made
	wg      sync.WaitGroup // counts slots and listeners

	mu        sync.Mutex
	over      bool
	slots     int
	in, out   uint64 // the windows of all streams together
	streams   map[uint64]*tunnel.Stream
	listeners map[uint64]*tunnelListener
	last      uint64        // the newest id of a tunnel that came of a listener; they are even
	conn      *conn         // that takes tunnels of listeners; nil: none yet
	resumed   chan struct{} // closed and replaced when conn changes
}

// errTunnelsOver is the error of tunnels whose session has ended.
var errTunnelsOver = errors.New("the session has ended")

// errNotResumed is the error of tunnels that the client has not resumed.
var errNotResumed = errors.New("the client has let go of the tunnel")

func newTunnels(ctx context.Context, events *observe.Events) *tunnels {
	return &tunnels{
		ctx: ctx, events: events, dialing: make(chan struct{}, maxTunnelDials), resumed: make(chan struct{}),
		streams: make(map[uint64]*tunnel.Stream), listeners: make(map[uint64]*tunnelListener),
	}
}

// tunnelCarrier sends the messages of tunnels on a connection.
type tunnelCarrier struct{ c *conn }

func (t tunnelCarrier) Data(ctx context.Context, id, offset uint64, data []byte, end bool) error {
	t.c.srv.events.BytesMoved.Tell(observe.Bytes{Flow: observe.ToClient, N: len(data)})
	return t.c.out.send(ctx, execproto.TunnelData{TunnelID: id, Offset: offset, Data: data, End: end}.AppendJSON)
}

func (t tunnelCarrier) Ack(ctx context.Context, id, position uint64) error {
	return t.c.out.send(ctx, execproto.TunnelAck{TunnelID: id, Position: position}.AppendJSON)
}

func (t tunnelCarrier) Close(ctx context.Context, id uint64, reason string) error {
	return t.c.out.send(ctx, execproto.TunnelClose{TunnelID: id, Reason: reason}.AppendJSON)
}

// reserve takes a slot.
func (t *tunnels) reserve() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return execproto.Internal(errTunnelsOver.Error())
	case t.slots >= maxTunnels:
		return observe.AtLimit(observe.LimitTunnels, execproto.InvalidRequest(fmt.Sprintf("at most %d tunnels may be open in a session; close some", maxTunnels)))
	}
	t.slots++
	t.wg.Add(1)
	return nil
}

// release gives a slot back.
func (t *tunnels) release() {
	t.mu.Lock()
	t.slots--
	t.mu.Unlock()
	t.wg.Done()
}

// add makes the stream of a tunnel. With id 0 it gets the next even one.
func (t *tunnels) add(c *conn, id, window uint64) (*tunnel.Stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, execproto.Internal(errTunnelsOver.Error())
	}
	if id == 0 {
		t.last += 2
		id = t.last
	}
	if t.streams[id] != nil {
		return nil, execproto.InvalidParams(fmt.Sprintf("tunnelId %d is in use", id))
	}
	in, out := grant(t.in, tunnel.LeastIn), min(window, grant(t.out, tunnel.LeastOut))
	s := tunnel.New(t.ctx, id, tunnelCarrier{c}, out, t.forget)
	s.SetWindow(in)
	t.in += in
	t.out += out
	t.streams[id] = s
	return s, nil
}

// grant returns the window of a new stream while those of the others use that many bytes.
func grant(used, least uint64) uint64 {
	left := max(maxTunnelBytes, used) - used
	return min(max(left/tunnelShare, least), tunnel.Window)
}

// windowIn is how many bytes the client may send ahead.
func windowIn(s *tunnel.Stream) uint64 { in, _ := s.Windows(); return in }

func (t *tunnels) forget(s *tunnel.Stream) {
	in, out := s.Windows()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in -= in
	t.out -= out
	if t.streams[s.ID()] == s {
		delete(t.streams, s.ID())
	}
}

// find returns the stream of that id, or nil.
func (t *tunnels) find(id uint64) *tunnel.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.streams[id]
}

// use makes c the connection for tunnels of listeners.
func (t *tunnels) use(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != c {
		t.conn = c
		close(t.resumed)
		t.resumed = make(chan struct{})
	}
}

// close ends all tunnels and listeners and waits for their goroutines. The session's
// context must have ended.
func (t *tunnels) close() {
	t.mu.Lock()
	t.over = true
	streams, listeners := t.streams, t.listeners
	t.streams, t.listeners = make(map[uint64]*tunnel.Stream), make(map[uint64]*tunnelListener)
	t.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, s := range streams {
		s.Fail(errTunnelsOver)
	}
	t.wg.Wait()
}

// closeOwnTunnels ends the tunnels of a connection to a keeper. The session there belongs to
// no connection: servers would use the same ids, and nothing would end the tunnels of one
// that was killed.
func (c *conn) closeOwnTunnels() {
	if c.tunnels != nil && c.srv.keeper != nil {
		c.tunnels.close()
	}
}

// tunnelOpen takes a slot on the reader; the connection is made in a goroutine that only
// waits.
func tunnelOpen(c *conn, p *execproto.TunnelOpenParams) (call, error) {
	to, err := c.tunnelTarget(p)
	if err != nil {
		return call{}, err
	}
	t := c.tunnels
	if t.find(p.TunnelID) != nil {
		return call{}, execproto.InvalidParams(fmt.Sprintf("tunnelId %d is in use", p.TunnelID))
	}
	if err := t.reserve(); err != nil {
		return call{}, err
	}
	id, window := p.TunnelID, p.Window
	return call{
		run:  func(ctx context.Context) (result, error) { return c.openTunnel(ctx, id, window, to) },
		drop: t.release,
	}, nil
}

// openTunnel makes a connection and a tunnel of it. The caller has its slot.
func (c *conn) openTunnel(ctx context.Context, id, window uint64, to tunnelTarget) (result, error) {
	t := c.tunnels
	if err := c.srv.events.TunnelOpening.Ask(c.seenTunnel(to)); err != nil {
		t.release()
		return nil, err
	}
	conn, err := t.dial(ctx, c, to)
	if err != nil {
		t.release()
		if errors.As(err, new(*jsonrpc.Error)) {
			return nil, err
		}
		kind, reason := failureOf(err)
		c.log.Debug("tunnel not opened", "to", to.String(), "error", err)
		return execproto.TunnelOpenResult{Failure: kind, Reason: reason}, nil
	}
	s, err := t.add(c, id, window)
	if err != nil {
		_ = conn.Close()
		t.release()
		return nil, err
	}
	c.log.Debug("tunnel opened", "to", to.String(), "tunnel", id)
	// The client must know its window before bytes come.
	return followed{execproto.TunnelOpenResult{Window: windowIn(s)}, func() { go t.routineTunnel(s, conn) }}, nil
}

// seenTunnel returns what observers know of a tunnel.
func (c *conn) seenTunnel(to tunnelTarget) observe.Tunnel {
	return observe.Tunnel{Session: c.session.seen(), Host: to.host, Port: to.port, Path: to.path, Process: to.processID()}
}

// routineTunnel moves the bytes of a tunnel until it has ended, and gives its slot back.
// The owner waits for it by the slot.
func (t *tunnels) routineTunnel(s *tunnel.Stream, conn net.Conn) {
	defer t.release()
	t.events.TunnelOpened.Tell(observe.Tunnel{})
	defer t.events.TunnelClosed.Tell(observe.Tunnel{})
	_ = tunnel.Join(s, conn) // the client is told why
}

// tunnelData takes bytes of the client. A tunnel that is not known may have ended
// meanwhile.
func tunnelData(c *conn, p *execproto.TunnelData) {
	if s := c.tunnels.find(p.TunnelID); s != nil {
		c.srv.events.BytesMoved.Tell(observe.Bytes{Flow: observe.FromClient, N: len(p.Data)})
		c.obey(s, s.Data(p.Offset, bytes.Clone(p.Data), p.End)) // the message is released
	}
}

// tunnelAck makes room in the client's window.
func tunnelAck(c *conn, p *execproto.TunnelAck) {
	if s := c.tunnels.find(p.TunnelID); s != nil {
		c.obey(s, s.Ack(p.Position))
	}
}

// obey ends a tunnel if its client has violated the protocol.
func (c *conn) obey(s *tunnel.Stream, violation error) {
	if violation != nil {
		c.lanes.wg.Go(func() { _ = s.Abort(violation.Error()) })
	}
}

// tunnelClose takes the end of a tunnel by the client.
func tunnelClose(c *conn, p *execproto.TunnelClose) {
	if s := c.tunnels.find(p.TunnelID); s != nil {
		s.PeerClosed(shorten(p.Reason))
	}
}

// tunnelResume moves tunnels and listeners to this connection. The client sends nothing
// about them before it has the answer.
func tunnelResume(_ context.Context, c *conn, p *execproto.TunnelResume) (result, error) {
	t := c.tunnels
	kept, dropped, listeners := t.sort(p)
	answer := execproto.TunnelResume{Tunnels: []execproto.TunnelPosition{}, Listeners: []execproto.TunnelListener{}}
	resumed := make([]*tunnel.Stream, 0, len(kept))
	for s, position := range kept {
		received := s.Received()
		if err := s.Resume(tunnelCarrier{c}, position); err != nil {
			dropped = append(dropped, s)
			continue
		}
		resumed = append(resumed, s)
		answer.Tunnels = append(answer.Tunnels, execproto.TunnelPosition{TunnelID: s.ID(), Received: received})
	}
	for _, s := range dropped {
		s.Fail(errNotResumed)
	}
	for _, id := range listeners {
		answer.Listeners = append(answer.Listeners, execproto.TunnelListener{ListenerID: id})
	}
	return followed{answer, func() {
		t.use(c)
		for _, s := range resumed {
			c.lanes.wg.Go(s.Flush)
		}
	}}, nil
}

// sort says which tunnels go on, with the client's positions, which do not, and which
// listeners go on. It closes the other listeners.
func (t *tunnels) sort(p *execproto.TunnelResume) (kept map[*tunnel.Stream]uint64, dropped []*tunnel.Stream, listeners []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = make(map[*tunnel.Stream]uint64)
	for _, at := range p.Tunnels {
		if s := t.streams[at.TunnelID]; s != nil {
			kept[s] = at.Received
		}
	}
	for _, s := range t.streams {
		if _, ok := kept[s]; !ok {
			dropped = append(dropped, s)
		}
	}
	wanted := make(map[uint64]bool)
	for _, l := range p.Listeners {
		wanted[l.ListenerID] = true
	}
	for id, l := range t.listeners {
		if wanted[id] {
			listeners = append(listeners, id)
		} else {
			delete(t.listeners, id)
			_ = l.Close()
		}
	}
	return kept, dropped, listeners
}
