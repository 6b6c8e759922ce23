package rendezvous

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"

	"codex.internal/pkg/relay"
	"codex.internal/pkg/wire/websocket"
)

// serveRelay upgrades a request with a signed URL to a websocket, and serves it.
func (s *Server) serveRelay(w http.ResponseWriter, r *http.Request) {
	t, refused := s.admit(r)
	if refused == nil {
		refused = s.enter()
	}
	if refused != nil {
		s.metrics.request("relay", refused.status)
		s.log.Info(refusedConnection, "peer", r.RemoteAddr, "status", refused.status, "code", refused.code)
		writeError(w, refused)
		return
	}
	defer s.leave()
	if refused := s.attach(w, r, &t); refused != nil {
		s.metrics.request("relay", refused.status)
		s.log.Info(refusedConnection, "peer", r.RemoteAddr, "environment", t.environment, "token", t.token, "status", refused.status, "code", refused.code)
		writeError(w, refused)
	}
}

// admit reads the ticket of a request and checks that it is still valid.
func (s *Server) admit(r *http.Request) (ticket, *apiError) {
	if !websocket.IsUpgrade(r) {
		return ticket{}, &apiError{http.StatusUpgradeRequired, "no_websocket", "this URL is for a websocket"}
	}
	t, err := readTicket(r.URL.RawQuery, s.urls, s.now())
	if err != nil {
		return ticket{}, &apiError{http.StatusUnauthorized, "invalid_url", err.Error()}
	}
	role := RoleHarness
	if t.end == endExecutor {
		role = RoleExecutor
	}
	if s.checkToken(t.token, role, t.environment, t.identity) != nil {
		return ticket{}, &apiError{http.StatusUnauthorized, "invalid_token", closeRevoked.reason}
	}
	return t, nil
}

// attach serves a socket with a ticket, or answers with the reason for refusing it.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, t *ticket) *apiError {
	if t.end == endExecutor {
		return s.attachExecutor(w, r, t)
	}
	return s.attachHarness(w, r, t)
}

func (s *Server) attachExecutor(w http.ResponseWriter, r *http.Request, t *ticket) *apiError {
	ctx, cancel := context.WithTimeout(s.ctx, stateTime)
	defer cancel()
	mine, ok := s.tokens.use(t.token, (*account).addSocket)
	if !ok {
		return tooManySockets("with the token " + t.token)
	}
	defer mine.removeSocket()
	generation, err := s.state.Attach(ctx, t.registration, s.executorConnection(r, t))
	switch {
	case errors.Is(err, ErrNotRegistered):
		return &apiError{http.StatusNotFound, "unknown_registration", "the registration has expired or was replaced; register again"}
	case err != nil:
		return s.stateError(err)
	}
	defer s.detach(t.registration, generation)
	account, _ := s.environments.use(t.environment, (*account).hold)
	defer account.release()
	log := s.log.With("role", t.end, "environment", t.environment, "registration", t.registration, "peer", r.RemoteAddr)
	x := &executor{
		srv: s, box: NewMailbox(SourceBytes), address: executorAddress(t.registration), account: account,
		token: t.token, environment: t.environment, log: log,
		harnesses: make(map[string]*member), tokens: make(map[string]int), streams: make(map[string]*stream),
	}
	// When the executor gets its connection, harnesses can already reach it.
	defer x.unbind()
	switch err := x.bind(ctx, generation); {
	case errors.Is(err, ErrReplaced):
		return &apiError{http.StatusServiceUnavailable, "replaced", closeReplaced.reason}
	case err != nil:
		return s.busError(err)
	}
	if x.socket = s.upgrade(w, r); x.socket == nil {
		return nil
	}
	account.addExecutor(t.registration, x)
	defer account.removeExecutor(t.registration, x)
	log.Info("connected")
	s.logEnd(log, x.serve(s.ctx))
	return nil
}

// executorConnection returns the known data about an executor that connects.
func (s *Server) executorConnection(r *http.Request, t *ticket) ExecutorConnection {
	said := relay.ReadDescription(r.Header)
	return ExecutorConnection{Address: r.RemoteAddr, Since: s.now().UTC(), Name: said.Name, Agent: cmp.Or(said.Agent, t.agent)}
}

// detach records the end of an executor's connection, even while the service is ending.
func (s *Server) detach(registration string, generation uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTime)
	defer cancel()
	s.state.Detach(ctx, registration, generation, s.now().UTC())
}

// busError is the answer when the bus fails.
func (s *Server) busError(err error) *apiError {
	s.log.Error("the bus cannot route frames", "error", err)
	return &apiError{http.StatusServiceUnavailable, "bus_unavailable", "the service cannot route frames"}
}

func tooManySockets(of string) *apiError {
	return &apiError{http.StatusTooManyRequests, "too_many_sockets", "too many connections " + of}
}

func (s *Server) attachHarness(w http.ResponseWriter, r *http.Request, t *ticket) *apiError {
	ctx, cancel := context.WithTimeout(s.ctx, stateTime)
	defer cancel()
	connected, err := s.bus.Bound(ctx, executorAddress(t.registration))
	switch {
	case err != nil:
		return s.busError(err)
	case !connected:
		return offline(t.environment)
	}
	mine, ok := s.tokens.use(t.token, (*account).addSocket)
	if !ok {
		return tooManySockets("with the token " + t.token)
	}
	defer mine.removeSocket()
	environment, ok := s.environments.use(t.environment, func(a *account) bool { return a.takeSocket(t.token) })
	if !ok {
		return tooManySockets("to this environment with the token " + t.token)
	}
	defer environment.returnSocket(t.token)
	socket := s.upgrade(w, r)
	if socket == nil {
		return nil
	}
	log := s.log.With("role", t.end, "environment", t.environment, "registration", t.registration, "peer", r.RemoteAddr, "token", t.token)
	n := &harness{
		srv: s, socket: socket, box: NewMailbox(SourceBytes), address: "harness." + rand.Text(), executor: executorAddress(t.registration),
		account: mine, up: &environment.up, token: t.token, environment: t.environment, identity: t.identity,
		agent: cmp.Or(relay.ReadDescription(r.Header).Agent, t.agent), log: log,
	}
	log.Info("connected")
	s.logEnd(log, n.serve(s.ctx))
	return nil
}

// upgrade upgrades the request to a websocket. It returns nil if it has answered the request with
// an error.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *socket {
	ws, err := websocket.Upgrade(w, r, s.websocketOptions(), func(w http.ResponseWriter, status int, reason error) {
		writeError(w, &apiError{status, "no_websocket", reason.Error()})
	})
	if err != nil {
		s.metrics.request("relay", http.StatusBadRequest)
		s.log.Debug("upgrade failed", "peer", r.RemoteAddr, "error", err)
		return nil
	}
	s.metrics.request("relay", http.StatusSwitchingProtocols)
	return &socket{ws: ws, check: min(s.opts.PingInterval, checkInterval)}
}

func (s *Server) websocketOptions() websocket.Options {
	return websocket.Options{Limit: MaxFrame, ReadSize: fullFrame, Ping: s.opts.PingInterval, WriteTimeout: s.opts.WriteTimeout}
}

// logEnd logs the reason why a socket has ended.
func (s *Server) logEnd(log *slog.Logger, why error) {
	if errors.Is(why, websocket.ErrSilent) {
		s.metrics.silent.Inc()
	}
	log.Info("disconnected", "reason", why)
}
