package tunnels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/tunnel"
)

// Conn is the connection of a client, as its tunnels see it.
type Conn interface {
	// Send appends a message to the queue of the connection, and waits while that is full.
	Send(ctx context.Context, encode func(b []byte) []byte) error
	// Go runs f in a goroutine. At its end, the connection waits for f.
	Go(f func())
	// Session identifies the owner of these tunnels for observers.
	Session() observe.Session
	// Process returns the process with that id, into whose sandbox a tunnel leads: a process of the
	// client's session with that name ("": the connection's own), or a detached one. An error is
	// sent as the answer.
	Process(session, id string) (Process, error)
}

// Options are shared by the tunnels of all sessions of a server.
type Options struct {
	Events *observe.Events
	Home   string // replaces ~ at the beginning of socket paths
	// Ceiling returns the limits of the target of a tunnel that is opened now; it may return nil: no
	// limits.
	Ceiling func() *egress.Ceiling
	// Sandboxes returns the runtime that makes sockets in sandboxes.
	Sandboxes func() (*runner.Runtime, error)
}

// Server has the state that the tunnels of all sessions share.
type Server struct {
	Options
	reaching chan struct{} // contains an element for each launcher that makes sockets in a sandbox
	scanning chan struct{} // contains an element while the ports of a watch are polled
}

// NewServer returns a Server with these options.
func NewServer(o Options) *Server {
	return &Server{Options: o, reaching: make(chan struct{}, maxReaching), scanning: make(chan struct{}, 1)}
}

// Tunnels has the tunnels and listeners of a session (docs/spec/wire.md §11). They survive the
// end of a connection: the next connection takes them over with tunnel/resume. Close ends them.
//
// A tunnel occupies a slot from before it is dialed until its connection is closed.
type Tunnels struct {
	srv     *Server
	log     *slog.Logger
	ctx     context.Context // context of the session
	account *share.Account  // that of the session, which closes it after Tunnels
	dialing chan struct{}   // contains an element for each connection attempt
	wg      sync.WaitGroup  // counts slots and listeners

	mu        sync.Mutex
	over      bool
	slots     int
	in, out   uint64 // the sums of the windows of all streams
	streams   map[uint64]*tunnel.Stream
	listeners map[uint64]*listener
	last      uint64        // id of the newest tunnel from a listener; these ids are even
	conn      Conn          // the connection for new tunnels from listeners; nil: none yet
	resumed   chan struct{} // closed and replaced when conn changes
}

// errOver is the error of tunnels whose session has ended.
var errOver = errors.New("the session has ended")

// errNotResumed is the error of tunnels that the client has not resumed.
var errNotResumed = errors.New("the client has let go of the tunnel")

// New returns the tunnels of a session that ends with ctx.
func (srv *Server) New(ctx context.Context, log *slog.Logger, account *share.Account) *Tunnels {
	return &Tunnels{
		srv: srv, log: log, ctx: ctx, account: account, dialing: make(chan struct{}, maxDials), resumed: make(chan struct{}),
		streams: make(map[uint64]*tunnel.Stream), listeners: make(map[uint64]*listener),
	}
}

// Count returns the number of tunnels.
func (t *Tunnels) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slots
}

// carrier sends the messages of tunnels on a connection.
type carrier struct {
	srv *Server
	c   Conn
}

func (t carrier) Data(ctx context.Context, id, offset uint64, data []byte, end bool) error {
	t.srv.Events.BytesMoved.Tell(observe.Bytes{Flow: observe.ToClient, N: len(data)})
	return t.c.Send(ctx, execproto.Notify(&execproto.TunnelData{TunnelID: id, Offset: offset, Data: data, End: end}))
}

func (t carrier) Ack(ctx context.Context, id, position uint64) error {
	return t.c.Send(ctx, execproto.Notify(&execproto.TunnelAck{TunnelID: id, Position: position}))
}

func (t carrier) Close(ctx context.Context, id uint64, reason string) error {
	return t.c.Send(ctx, execproto.Notify(&execproto.TunnelClose{TunnelID: id, Reason: reason}))
}

// reserve reserves a slot.
func (t *Tunnels) reserve() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return execproto.Internal(errOver.Error())
	case t.slots >= maxTunnels:
		return observe.AtLimit(observe.LimitTunnels, execproto.InvalidRequest(fmt.Sprintf("at most %d tunnels may be open in a session; close some", maxTunnels)))
	}
	if err := t.account.Reserve(observe.LimitDescriptors, 1); err != nil {
		return err
	}
	t.slots++
	t.wg.Add(1)
	return nil
}

// release frees a slot.
func (t *Tunnels) release() {
	t.mu.Lock()
	t.slots--
	t.account.Give(observe.LimitDescriptors, 1)
	t.mu.Unlock()
	t.wg.Done()
}

// add makes the stream of a tunnel. If id is 0, the tunnel gets the next even id.
func (t *Tunnels) add(c Conn, id, window uint64) (*tunnel.Stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, execproto.Internal(errOver.Error())
	}
	if id == 0 {
		t.last += 2
		id = t.last
	}
	if t.streams[id] != nil {
		return nil, execproto.InvalidParams(fmt.Sprintf("tunnelId %d is in use", id))
	}
	in, out := grant(t.in, tunnel.LeastIn), min(window, grant(t.out, tunnel.LeastOut))
	s := tunnel.New(t.ctx, id, carrier{t.srv, c}, out, t.forget)
	s.SetWindow(in)
	t.in += in
	t.out += out
	t.streams[id] = s
	return s, nil
}

// grant returns the window of a new stream. used is the sum of the other windows.
func grant(used, least uint64) uint64 {
	left := max(maxBytes, used) - used
	return min(max(left/parts, least), tunnel.Window)
}

// windowIn returns how many bytes the client may send ahead.
func windowIn(s *tunnel.Stream) uint64 { in, _ := s.Windows(); return in }

func (t *Tunnels) forget(s *tunnel.Stream) {
	in, out := s.Windows()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in -= in
	t.out -= out
	if t.streams[s.ID()] == s {
		delete(t.streams, s.ID())
	}
}

// find returns the stream with that id, or nil.
func (t *Tunnels) find(id uint64) *tunnel.Stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.streams[id]
}

// use makes c the connection that gets the tunnels of listeners.
func (t *Tunnels) use(c Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != c {
		t.conn = c
		close(t.resumed)
		t.resumed = make(chan struct{})
	}
}

// Close ends all tunnels and listeners and waits for their goroutines. The session's
// context must have ended.
func (t *Tunnels) Close() {
	t.mu.Lock()
	t.over = true
	streams, listeners := t.streams, t.listeners
	t.streams, t.listeners = make(map[uint64]*tunnel.Stream), make(map[uint64]*listener)
	t.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, s := range streams {
		s.Fail(errOver)
	}
	t.wg.Wait()
}

// Opening is an accepted tunnel/open. The caller must call either Run or Drop, once.
type Opening struct {
	t          *Tunnels
	c          Conn
	id, window uint64
	to         Target
}

// Admit accepts a tunnel/open and reserves a slot. It does not block. If it returns an error,
// the error is the answer.
func (t *Tunnels) Admit(c Conn, p *execproto.TunnelOpenParams) (*Opening, error) {
	to, err := t.srv.target(c, p)
	if err != nil {
		return nil, err
	}
	if t.find(p.TunnelID) != nil {
		return nil, execproto.InvalidParams(fmt.Sprintf("tunnelId %d is in use", p.TunnelID))
	}
	return &Opening{t, c, p.TunnelID, p.Window, to}, t.reserve()
}

// Drop frees the slot of a tunnel that will not be opened.
func (o *Opening) Drop() { o.t.release() }

// Run makes the connection and its tunnel. The caller must call then after the answer was added
// to the connection's queue: the client must know its window before bytes arrive.
func (o *Opening) Run(ctx context.Context) (answer execproto.TunnelOpenResult, then func(), err error) {
	t, events := o.t, o.t.srv.Events
	then = func() {}
	if err := events.TunnelOpening.Ask(o.to.seen(o.c)); err != nil {
		t.release()
		return answer, then, err
	}
	conn, err := t.dial(ctx, o.to)
	if err != nil {
		t.release()
		if errors.As(err, new(*jsonrpc.Error)) {
			return answer, then, err
		}
		kind, reason := failureOf(err)
		t.log.Debug("tunnel not opened", "to", o.to.String(), "error", err)
		return execproto.TunnelOpenResult{Failure: kind, Reason: reason}, then, nil
	}
	s, err := t.add(o.c, o.id, o.window)
	if err != nil {
		_ = conn.Close()
		t.release()
		return answer, then, err
	}
	t.log.Debug("tunnel opened", "to", o.to.String(), "tunnel", o.id)
	return execproto.TunnelOpenResult{Window: windowIn(s)}, func() { go t.routineTunnel(s, conn) }, nil
}

// routineTunnel copies the bytes of a tunnel until it has ended, and frees its slot. The owner
// waits until the slot is free.
func (t *Tunnels) routineTunnel(s *tunnel.Stream, conn net.Conn) {
	defer t.release()
	t.srv.Events.TunnelOpened.Tell(observe.Tunnel{})
	defer t.srv.Events.TunnelClosed.Tell(observe.Tunnel{})
	_ = tunnel.Join(s, conn) // Join tells the client the reason
}

// Data handles bytes of the client. It ignores an unknown tunnel, which may have ended
// meanwhile.
func (t *Tunnels) Data(c Conn, p *execproto.TunnelData) {
	if s := t.find(p.TunnelID); s != nil {
		t.srv.Events.BytesMoved.Tell(observe.Bytes{Flow: observe.FromClient, N: len(p.Data)})
		obey(c, s, s.Data(p.Offset, bytes.Clone(p.Data), p.End)) // the message is released after this call
	}
}

// Ack frees space in the client's window.
func (t *Tunnels) Ack(c Conn, p *execproto.TunnelAck) {
	if s := t.find(p.TunnelID); s != nil {
		obey(c, s, s.Ack(p.Position))
	}
}

// obey ends a tunnel if its client has violated the protocol.
func obey(c Conn, s *tunnel.Stream, violation error) {
	if violation != nil {
		c.Go(func() { _ = s.Abort(violation.Error()) })
	}
}

// Closed handles the end of a tunnel by the client.
func (t *Tunnels) Closed(p *execproto.TunnelClose) {
	if s := t.find(p.TunnelID); s != nil {
		s.PeerClosed(observe.Short(p.Reason))
	}
}

// Resume moves tunnels and listeners to a connection. The client sends nothing about them
// before it has the answer. The caller must call then after the answer was added to the
// connection's queue.
func (t *Tunnels) Resume(c Conn, p *execproto.TunnelResume) (answer execproto.TunnelResume, then func()) {
	wanted, dropped, listeners := t.sort(p)
	answer = execproto.TunnelResume{Tunnels: []execproto.TunnelPosition{}, Listeners: []execproto.TunnelListener{}}
	resumed := make([]*tunnel.Stream, 0, len(wanted))
	for s, position := range wanted {
		received := s.Received()
		if err := s.Resume(carrier{t.srv, c}, position); err != nil {
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
	return answer, func() {
		t.use(c)
		for _, s := range resumed {
			c.Go(s.Flush)
		}
	}
}

// sort determines, from the client's positions, which tunnels and listeners continue.
// It closes the other listeners.
func (t *Tunnels) sort(p *execproto.TunnelResume) (wanted map[*tunnel.Stream]uint64, dropped []*tunnel.Stream, listeners []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted = make(map[*tunnel.Stream]uint64)
	for _, at := range p.Tunnels {
		if s := t.streams[at.TunnelID]; s != nil {
			wanted[s] = at.Received
		}
	}
	for _, s := range t.streams {
		if _, ok := wanted[s]; !ok {
			dropped = append(dropped, s)
		}
	}
	named := make(map[uint64]bool)
	for _, l := range p.Listeners {
		named[l.ListenerID] = true
	}
	for id, l := range t.listeners {
		if named[id] {
			listeners = append(listeners, id)
		} else {
			delete(t.listeners, id)
			_ = l.Close()
		}
	}
	return wanted, dropped, listeners
}
