package execserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/execserver/tunnels"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/jsonrpc"
	"github.com/google/uuid"
)

// session owns processes. It is attached to one connection at a time. When the connection ends,
// the session is detached, and waits until another connection resumes it
// (docs/spec/wire.md §3.2).
//
// States: attached (conn set), detached (conn nil, expiry running), ended. attach, detach and
// end change the state; every other method may be called from any goroutine at any time.
//
// When you add a field, put it into its group.
type session struct {
	// The owner of the session. These fields never change.
	srv     *Server
	id      string // lets another client of the owner resume the session; must not be logged
	log     *slog.Logger
	began   time.Time
	owner   string       // the principal that started the session; no other may resume it
	lasting string       // the owner, if later connections of the same client have the same owner; "": none
	grant   wsauth.Grant // of the client that started the session; only a client with the same token may resume it

	requests atomic.Uint64 // that have arrived, for the status page

	// These live as long as the session.
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	account  *share.Account // the session's share of the server's resources
	group    *process.Group
	sequence sequence // orders requests about a process, by its id
	shells   snapshots
	tunnels  *tunnels.Tunnels
	writes   *files.Writes

	mu sync.Mutex // guards the groups below

	// Its connection.
	conn         *conn // nil: the session is detached, or has ended
	over         bool
	expiry       *time.Timer // runs while the session is detached
	client, peer string      // of the current connection, or of the last one

	// Its processes.
	procs          map[string]*proc
	open           int     // number of processes that have not closed
	closed         []*proc // in the order of closing
	closedRetained int     // bytes of output that closed processes retain
	sweep          *time.Timer
}

// initialize starts or resumes a session. It runs on the connection's reader, so that no later
// request is answered before it (docs/spec/wire.md §9.1). The first client therefore waits here
// for the probe of the backends, because the answer contains its result.
func initialize(_ context.Context, c *conn, p *execproto.InitializeParams) (reply.Result, error) {
	if c.handshake != handshakeNew {
		return nil, execproto.InvalidRequest("initialize may only be sent once per connection")
	}
	if err := c.grant.Check(); err != nil {
		return nil, execproto.InvalidRequest(err.Error())
	}
	c.client = shorten(p.ClientName)
	s, err := c.srv.openSession(c, p)
	if err != nil {
		return nil, err
	}
	c.session, c.tunnels = s, s.tunnels
	if c.srv.keeper != nil {
		c.tunnels = c.srv.tunnels.New(c.ctx, s.log, c.account)
	}
	c.handshake = handshakeAnswered
	c.log = c.log.With("session", digest.Of(s.id))
	args := []any{"client", shorten(p.ClientName), "resumed", p.ResumeSessionID != nil}
	if c.grant.Token != "" {
		args = append(args, "token", c.grant.Token)
	}
	c.log.Info("session attached", args...)
	info := c.environment()
	r := execproto.InitializeResult{SessionID: s.id, Extensions: c.srv.extensions(), EnvironmentInfo: &info}
	return reply.Followed{Result: r, Then: func() { close(c.answered) }}, nil
}

// principal returns the owner's name for logs and lists.
func (s *session) principal() string { return cmp.Or(s.grant.Name(), s.owner) }

// seen describes a session for observers.
func (s *session) seen() observe.Session {
	return observe.Session{ID: digest.Of(s.id), Principal: s.principal()}
}

// seen describes, for observers, a session that c starts or resumes.
func (c *conn) seen(id, owner string) observe.Session {
	seen := observe.Session{ID: digest.Of(id), Principal: owner, Client: c.client}
	if c.t != nil { // a keeper's session has no connection
		seen.Peer = c.t.Peer()
	}
	return seen
}

// openSession attaches c to a new session or to the one that p names.
func (srv *Server) openSession(c *conn, p *execproto.InitializeParams) (*session, error) {
	if srv.keeper != nil {
		return srv.keeper.session, nil
	}
	if p.ResumeSessionID == nil {
		return srv.newSession(c)
	}
	srv.mu.Lock()
	s, stopping := srv.sessions[*p.ResumeSessionID], srv.stopping
	srv.mu.Unlock()
	switch {
	case stopping:
		return nil, errStopping
	case s == nil:
		return nil, unknownSession(*p.ResumeSessionID)
	case s.owner != c.principal || !s.grant.Same(&c.grant):
		// The same error as for an unknown id: a client that guesses an id must not learn that
		// it exists.
		s.log.Warn("session refused to another principal", "peer", c.t.Peer(), "other", shorten(c.grant.Name()))
		return nil, unknownSession(*p.ResumeSessionID)
	}
	err := s.resume(c, p.TakeOver)
	if err == nil {
		srv.events.SessionResumed.Tell(c.seen(s.id, s.principal()))
	}
	return s, err
}

// newSession starts a session that is attached to c.
func (srv *Server) newSession(c *conn) (*session, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make a session id: %w", err)
	}
	if err := srv.events.SessionStarting.Ask(c.seen(id.String(), cmp.Or(c.grant.Name(), c.principal))); err != nil {
		return nil, err
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.stopping {
		return nil, errStopping
	}
	s := &session{srv: srv, id: id.String(), owner: c.principal, grant: c.grant, conn: c, group: srv.supervisor.NewGroup(), procs: make(map[string]*proc)}
	s.began, s.client = time.Now(), c.client
	if c.t != nil { // a keeper's session has no connection
		s.peer = c.t.Peer()
		s.lasting, _ = c.lastingOwner() // after an error there is none
	}
	s.log = named(srv.log.With("session", digest.Of(s.id)), s.principal())
	s.ctx, s.cancel = context.WithCancel(srv.ctx)
	s.account = srv.shares.Open(s.grant.Principal, srv.hasWhole(s.grant.Principal))
	s.tunnels = srv.tunnels.New(s.ctx, s.log, s.account)
	s.writes = srv.files.NewWrites(s.account)
	srv.sessions[s.id] = s
	if s.grant.Ends() && !s.grant.Renewable {
		srv.wg.Go(s.routineGrant)
	}
	return s, nil
}

// routineGrant ends the session when the token of its client is no longer valid.
func (s *session) routineGrant() {
	if err := watchGrant(s.ctx, &s.grant); err != nil {
		s.end(err.Error(), false)
	}
}

// watchGrant waits until a grant is no longer valid, and returns the reason. It returns nil if
// ctx ends first.
func watchGrant(ctx context.Context, grant *wsauth.Grant) error {
	ticker := time.NewTicker(grantInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := grant.Check(); err != nil {
			return err
		}
	}
}

// resume makes c the session's connection. If another connection has the session, that
// connection is closed if takeOver is set or the connection is suspended; otherwise resume
// fails. If several clients take over at the same time, the last one gets the session.
func (s *session) resume(c *conn, takeOver bool) error {
	var evicted *conn
	for {
		other, err := s.attach(c, evicted)
		switch {
		case other == nil:
			return err
		case !takeOver && !other.suspended():
			return &jsonrpc.Error{
				Code:    execproto.CodeSessionAttached,
				Message: fmt.Sprintf("session %s is already attached to another connection", s.id),
			}
		}
		s.log.Info("session taken from its connection", "peer", other.t.Peer(), "by", c.t.Peer())
		other.evict()
		evicted = other
	}
}

// attach makes c the session's connection. If the session has a connection other than evicted,
// attach returns that one and changes nothing.
func (s *session) attach(c, evicted *conn) (other *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, unknownSession(s.id)
	}
	if s.conn != nil {
		if s.conn != evicted {
			return s.conn, nil
		}
		// Later notifications must go to c, not into its queue.
		evicted.out.end()
	}
	s.conn, s.client, s.peer = c, c.client, c.t.Peer()
	s.stopExpiry()
	return nil, nil
}

// stopExpiry stops the timer that ends a detached session. The caller holds the
// lock.
func (s *session) stopExpiry() {
	if s.expiry != nil && s.expiry.Stop() {
		s.srv.wg.Done()
	}
	s.expiry = nil
}

// detach separates c from the session. From now on output is retained and notifications are
// dropped; goroutines that wait for space in c's queue return.
func (s *session) detach(c *conn) {
	c.out.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || s.over {
		return
	}
	s.conn = nil
	ttl := s.srv.opts.SessionTTL
	s.log.Info("session detached", "ttl", ttl)
	s.srv.wg.Add(1)
	s.expiry = time.AfterFunc(max(ttl, 0), func() {
		defer s.srv.wg.Done()
		s.end("not resumed in time", true)
	})
}

// end kills the session's processes and waits for them. With ifDetached it does nothing if a
// connection has resumed the session in the meantime.
func (s *session) end(why string, ifDetached bool) {
	s.mu.Lock()
	if s.over || ifDetached && s.conn != nil {
		s.mu.Unlock()
		return
	}
	s.stopExpiry()
	s.over = true
	procs := make([]*proc, 0, len(s.procs))
	for _, p := range s.procs {
		procs = append(procs, p)
	}
	s.procs = make(map[string]*proc)
	s.closed = nil
	if s.sweep != nil {
		s.sweep.Stop()
	}
	s.mu.Unlock()

	s.log.Info("session ended", "reason", why, "processes", len(procs))
	s.srv.events.SessionEnded.Tell(observe.SessionEnd{Session: s.seen(), Reason: why})
	for _, p := range procs {
		p.cancelStart()
	}
	// If the client still reads, it learns how its processes ended. Otherwise the events that
	// wait for space in its queue are dropped after finalReadTime.
	limit := time.AfterFunc(finalReadTime, s.cancel)
	s.group.Close()
	limit.Stop()
	s.cancel()
	s.tunnels.Close()
	s.writes.Close()
	for _, p := range procs {
		p.discard()
	}
	s.account.Close()
	s.srv.forget(s)
}
