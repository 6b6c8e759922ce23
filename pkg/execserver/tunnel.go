package execserver

import (
	"context"
	"errors"
	"net"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/tunnels"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/wire/digest"
)

// This file connects the methods of tunnels with pkg/execserver/tunnels, which sees a
// connection as a tunnels.Conn.

// Send implements tunnels.Conn and files.Conn.
func (c *conn) Send(ctx context.Context, encode func(b []byte) []byte) error {
	return c.out.send(ctx, encode)
}

// Go implements tunnels.Conn.
func (c *conn) Go(f func()) { c.lanes.wg.Go(f) }

// Session implements tunnels.Conn and files.Conn.
func (c *conn) Session() observe.Session { return c.session.seen() }

// Process implements tunnels.Conn.
func (c *conn) Process(session, id string) (tunnels.Process, error) {
	s := c.session
	if session != "" {
		if s = c.otherSession(session); s == nil {
			return nil, execproto.InvalidRequest("unknown session " + shorten(session))
		}
	}
	if p := s.find(id); p != nil {
		return p, nil
	}
	if session != "" || !strings.HasPrefix(id, execproto.DetachedPrefix) {
		return nil, execproto.UnknownProcess(id)
	}
	owner, err := c.ownerOf()
	return detachedTarget{c.srv, owner, id, c.grant.Ceiling}, err
}

// Dial implements tunnels.Process.
func (p *proc) Dial(ctx context.Context, to tunnels.Target) (net.Conn, error) {
	select {
	case <-p.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.running == nil {
		return nil, tunnels.ErrProcessEnded
	}
	return p.s.srv.tunnels.DialInside(ctx, tunnels.Running{Process: p.running, Confined: p.confined}, to)
}

// detachedTarget is a detached process into whose sandbox a tunnel leads.
type detachedTarget struct {
	srv       *Server
	owner, id string
	ceiling   wsauth.Ceiling // ceiling of the client
}

// Dial implements tunnels.Process: the keeper of the process connects, because only the keeper
// can tell whether a pid still belongs to the process.
func (d detachedTarget) Dial(ctx context.Context, to tunnels.Target) (net.Conn, error) {
	p, err := d.srv.detached.Find(d.owner, d.id)
	if err != nil {
		return nil, err
	}
	conn, err := p.Dial(ctx, d.ceiling, to.Host, to.Port, to.Path)
	switch {
	case errors.Is(err, detach.ErrEnded):
		return nil, tunnels.ErrProcessEnded
	case errors.Is(err, detach.ErrOtherCeiling):
		return nil, tunnels.Denied(err.Error())
	}
	return conn, err
}

// otherSession returns the session with that name from tunnel/ports, or nil if the owner of
// this one has no such session.
func (c *conn) otherSession(name string) *session {
	owner, err := c.lastingOwner()
	if err != nil {
		return nil
	}
	for _, s := range c.sharedSessions(owner) {
		if digest.Of(s.id) == name {
			return s
		}
	}
	return nil
}

// shares reports whether a connection may see a session as one of its owner's: a client of the
// connection could have started that session itself.
func (s *session) shares(c *conn, owner string) bool {
	return s == c.session || owner != "" && s.lasting == owner && s.grant.Token == c.grant.Token
}

// sharedSessions returns the session of the connection. With an owner, it also returns the
// sessions that the connection may see as that owner's.
func (c *conn) sharedSessions(owner string) (sessions []*session) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	for _, s := range c.srv.sessions {
		if s.shares(c, owner) {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// runningOf returns the running processes of sharedSessions.
func (c *conn) runningOf(owner string) (running []tunnels.Running) {
	for _, s := range c.sharedSessions(owner) {
		name := ""
		if s != c.session {
			name = digest.Of(s.id)
		}
		for _, p := range s.all() {
			if now := p.now(); now != nil {
				running = append(running, tunnels.Running{Process: now, Confined: p.confined, ID: p.id, Session: name})
			}
		}
	}
	return running
}

// tunnelOpen reserves a slot on the reader; the connection is made in a goroutine that
// only waits.
func tunnelOpen(c *conn, p *execproto.TunnelOpenParams) (call, error) {
	opening, err := c.tunnels.Admit(c, p)
	if err != nil {
		return call{}, err
	}
	return call{drop: opening.Drop, run: func(ctx context.Context) (reply.Result, error) {
		answer, then, err := opening.Run(ctx)
		return reply.Followed{Result: answer, Then: then}, err
	}}, nil
}

func tunnelListen(ctx context.Context, c *conn, p *execproto.TunnelListenParams) (reply.Result, error) {
	answer, then, err := c.tunnels.Listen(ctx, c, p)
	return reply.Followed{Result: answer, Then: then}, err
}

func tunnelUnlisten(ctx context.Context, c *conn, p *execproto.TunnelListener) (reply.Result, error) {
	c.tunnels.Unlisten(ctx, p)
	return reply.Done{}, nil
}

func tunnelResume(_ context.Context, c *conn, p *execproto.TunnelResume) (reply.Result, error) {
	answer, then := c.tunnels.Resume(c, p)
	return reply.Followed{Result: answer, Then: then}, nil
}

func tunnelData(c *conn, p *execproto.TunnelData)   { c.tunnels.Data(c, p) }
func tunnelAck(c *conn, p *execproto.TunnelAck)     { c.tunnels.Ack(c, p) }
func tunnelClose(c *conn, p *execproto.TunnelClose) { c.tunnels.Closed(p) }

// closeOwnTunnels ends the tunnels of a connection to a keeper. The session there belongs to
// no connection: otherwise servers would use the same ids, and the tunnels of a killed
// server would not end.
func (c *conn) closeOwnTunnels() {
	if c.tunnels != nil && c.srv.keeper != nil {
		c.tunnels.Close()
	}
}

// portWatch is the watch of a connection.
type portWatch struct {
	sequence sequence // order of the requests
	watch    tunnels.PortWatch
}

// watchPorts accepts tunnel/watchPorts. It ends the current watch.
func watchPorts(c *conn, p *execproto.WatchPortsParams) (call, error) {
	owner := ""
	if p.AllSessions {
		var err error
		if owner, err = c.lastingOwner(); err != nil {
			return call{}, execproto.InvalidRequest("the ports of all sessions are told to an owner, and " + err.Error())
		}
	}
	id := p.WatchID
	return call{turn: c.ports.sequence.enter(""), run: func(context.Context) (reply.Result, error) {
		then := c.ports.watch.Watch(c.ctx, c.srv.tunnels, c, id, func() []tunnels.Running { return c.runningOf(owner) })
		return reply.Followed{Result: reply.Done{}, Then: then}, nil
	}}, nil
}

// unwatchPorts accepts tunnel/unwatchPorts. After the answer no change is reported. If
// another watch has replaced it, that is not an error.
func unwatchPorts(c *conn, p *execproto.UnwatchParams) (call, error) {
	id := p.WatchID
	return call{turn: c.ports.sequence.enter(""), run: func(context.Context) (reply.Result, error) {
		c.ports.watch.Unwatch(id)
		return reply.Done{}, nil
	}}, nil
}
