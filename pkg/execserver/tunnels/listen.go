package tunnels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/tunnel"
)

// listener is a port of this machine whose connections become tunnels to the
// client (docs/spec/wire.md §11.4).
type listener struct {
	net.Listener
	id     uint64
	window uint64 // window of each tunnel
	once   sync.Once
	ended  chan struct{} // closed when the port is free
}

// Close stops the listener. It may be called more than once.
func (l *listener) Close() (err error) {
	l.once.Do(func() { err = l.Listener.Close() })
	return err
}

// Listen listens on a port, on a loopback address unless the client names another address. The
// caller must call then after the answer was added to the connection's queue.
func (t *Tunnels) Listen(ctx context.Context, c Conn, p *execproto.TunnelListenParams) (answer execproto.TunnelListenResult, then func(), err error) {
	then = func() {}
	host := p.Host
	if host == "" {
		host = "127.0.0.1"
	}
	if err := t.srv.Events.TunnelListening.Ask(Target{Host: host, Port: p.Port}.seen(c)); err != nil {
		return answer, then, err
	}
	var config net.ListenConfig
	on, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(p.Port))))
	if err != nil {
		kind, reason := failureOf(err)
		return execproto.TunnelListenResult{Failure: kind, Reason: reason}, then, nil
	}
	l := &listener{Listener: on, id: p.ListenerID, window: p.Window, ended: make(chan struct{})}
	if err := t.listen(l); err != nil {
		_ = l.Close()
		return answer, then, err
	}
	t.use(c)
	at := on.Addr().(*net.TCPAddr).AddrPort()
	t.log.Info("listening for tunnels", "address", at.String())
	return execproto.TunnelListenResult{Host: at.Addr().String(), Port: at.Port()}, func() { go t.routineListener(l) }, nil
}

// listen registers a listener.
func (t *Tunnels) listen(l *listener) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return execproto.Internal(errOver.Error())
	case t.listeners[l.id] != nil:
		return execproto.InvalidParams(fmt.Sprintf("listenerId %d is in use", l.id))
	case len(t.listeners) >= maxListeners:
		return observe.AtLimit(observe.LimitListeners, execproto.InvalidRequest(fmt.Sprintf("a session may listen on at most %d ports; close some", maxListeners)))
	}
	if err := t.account.Reserve(observe.LimitDescriptors, 1); err != nil {
		return err
	}
	t.listeners[l.id] = l
	t.wg.Add(1)
	return nil
}

// Unlisten closes a listener. It returns when the port is free or ctx ends. The listener's
// tunnels continue. An unknown listener is not an error.
func (t *Tunnels) Unlisten(ctx context.Context, p *execproto.TunnelListener) {
	t.mu.Lock()
	l := t.listeners[p.ListenerID]
	delete(t.listeners, p.ListenerID)
	t.mu.Unlock()
	if l != nil {
		_ = l.Close()
		select {
		case <-l.ended: // until Accept has returned, the kernel still accepts connections
		case <-ctx.Done():
		}
	}
}

// routineListener makes a tunnel of each connection to a listener, until the listener is
// closed. The owner waits for it.
func (t *Tunnels) routineListener(l *listener) {
	defer t.wg.Done()
	defer t.account.Give(observe.LimitDescriptors, 1)
	defer close(l.ended)
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example too many open files
			_ = wait.For(t.ctx, acceptPause)
			continue
		}
		if t.reserve() != nil {
			t.srv.Events.LimitReached.Tell(observe.LimitTunnels)
			refuse(conn)
			continue
		}
		if s := t.announce(l, conn.RemoteAddr().String()); s != nil {
			go t.routineTunnel(s, conn)
			continue
		}
		refuse(conn)
		t.release()
	}
}

// refuse ends a connection so that its other end gets an error.
func refuse(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// announce tells the client of a new tunnel. If the client has no connection, announce waits
// for the next one. It returns nil if the session ends first.
func (t *Tunnels) announce(l *listener, from string) *tunnel.Stream {
	for {
		t.mu.Lock()
		c, resumed := t.conn, t.resumed
		t.mu.Unlock()
		s, err := t.add(c, 0, l.window)
		if err != nil {
			return nil
		}
		news := execproto.TunnelAccepted{ListenerID: l.id, TunnelID: s.ID(), Window: windowIn(s), Peer: from}
		if c.Send(t.ctx, execproto.Notify(&news)) == nil {
			return s
		}
		s.Fail(errNotResumed)
		select {
		case <-resumed:
		case <-t.ctx.Done():
			return nil
		}
	}
}
