package rendezvous

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/internal/gather"
	"codex.internal/pkg/internal/metrics"
	"codex.internal/pkg/wire/secret"
	"codex.internal/pkg/wire/websocket"
)

// Options configure a Server. Only Tokens is required.
type Options struct {
	Tokens *TokenFile   // the roles and environments of clients
	Logger *slog.Logger // nil: logs nothing
	// Version is the version of the program, for its metrics.
	Version string
	// PublicURL is the URL at which executors and harnesses reach the service: http, https, ws or
	// wss, a host and an optional path. Empty: the URL of each request is used, which is right
	// unless there is a proxy in front.
	PublicURL string
	// StateFile stores registrations and the key of signed URLs across a restart. Empty: executors
	// register again after a restart.
	StateFile string
	// State and Bus are shared by the nodes of a service. They belong to the caller, which may end
	// them after Shutdown. Both or neither must be set; if they are set, StateFile must be empty.
	// nil: the service is one process.
	State State
	Bus   Bus
	// PrivateMetrics serves /metrics by Metrics only, and not to the clients of the service.
	PrivateMetrics bool
	// PingInterval is how often a peer is pinged. A peer that sends nothing for two and a half
	// intervals counts as lost. 0: DefaultPingInterval.
	PingInterval time.Duration
	// WriteTimeout is how long a peer may take to accept one frame. 0:
	// DefaultWriteTimeout.
	WriteTimeout time.Duration
	// ResumeTime is how long streams that can be resumed wait for a harness that has disconnected.
	// 0: DefaultResumeTime.
	ResumeTime time.Duration
}

// Server is the service. It is an http.Handler, and its methods may be called
// from any goroutine.
type Server struct {
	secret.Unprinted
	opts    Options
	log     *slog.Logger
	repeats *gather.Handler // of log
	public  *url.URL        // nil: of the request
	mux     *http.ServeMux
	now     func() time.Time

	bus            Bus
	state          State
	file           *stateFile // of the state; nil: no cleanup
	urls           *signer
	authorizations authorizations
	tokens         *accounts
	environments   *accounts
	metrics        *instruments
	survey         *survey // nil: there are no other nodes
	// See resumeClaimTime and handshakeClaimTime.
	resumeClaim, handshakeClaim time.Duration
	maxWaiting                  int // see there

	ctx  context.Context // ends with Shutdown
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // of the sockets, the calls that use the state, and the sweeper

	mu      sync.Mutex
	closed  bool
	sockets int

	ended chan struct{} // closed when all of Shutdown is done
}

// Check returns the error of New for options that contradict each other. It is an *InvalidError if
// the public URL is not a valid URL.
func (o *Options) Check() error {
	if o.Tokens == nil {
		return errors.New("rendezvous: Options.Tokens is missing")
	}
	if (o.Bus == nil) != (o.State == nil) || o.State != nil && o.StateFile != "" {
		return errors.New("rendezvous: Options.State and Options.Bus must be set together, and without a StateFile")
	}
	_, err := parsePublicURL(o.PublicURL)
	return err
}

// New returns a server. The caller must call Shutdown to end it.
func New(ctx context.Context, opts Options) (*Server, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Bus == nil {
		opts.Bus = NewLocalBus()
	}
	if opts.PingInterval <= 0 {
		opts.PingInterval = DefaultPingInterval
	}
	if opts.WriteTimeout <= 0 {
		opts.WriteTimeout = DefaultWriteTimeout
	}
	if opts.ResumeTime <= 0 {
		opts.ResumeTime = DefaultResumeTime
	}
	repeats := gather.New(opts.Logger.Handler(), map[string]gather.Rule{
		refusedCall: {Key: "code", Sources: []string{"peer", "token"}}, refusedConnection: {Key: "code", Sources: []string{"peer", "token"}},
	})
	opts.Logger = slog.New(repeats)
	public, err := parsePublicURL(opts.PublicURL)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, log: opts.Logger, repeats: repeats, public: public, now: time.Now, bus: opts.Bus, state: opts.State,
		tokens: newAccounts(tokenQuota), environments: newAccounts(environmentQuota), ended: make(chan struct{}),
		resumeClaim: resumeClaimTime, handshakeClaim: handshakeClaimTime, maxWaiting: maxWaiting,
	}
	if opts.StateFile != "" {
		if s.file, err = openState(ctx, opts.StateFile); err != nil {
			return nil, err
		}
		// If the path is mistyped, the logged count is 0.
		s.log.Info("registrations are stored in a file", "file", opts.StateFile, "registrations", len(s.file.registrations))
	}
	if s.state == nil {
		s.state = newRegistry(s.file)
	}
	keys := s.state.Keys()
	s.urls, s.authorizations = &signer{key: keys.URLs}, authorizations{signer: signer{key: keys.Authorizations}}
	s.metrics, s.survey = newInstruments(opts.Version, opts.Tokens, s.totals, s.programs), newSurvey(s)
	s.mux = s.routes()
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.wg.Go(s.routineSweep)
	if peers, ok := s.bus.(PeerBus); ok {
		s.wg.Go(func() { s.routineBalance(peers) })
	}
	return s, nil
}

// publicURL is the name of the option in an InvalidError.
const publicURL = "public URL"

// parsePublicURL returns the URL of the relay; nil: use the URL of each request.
func parsePublicURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error is not used, because it contains the whole URL, which may contain a
		// password.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, invalid(publicURL, "cannot be read: %v", err)
	}
	scheme, ok := map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}[u.Scheme]
	if !ok || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		shown := text
		if strings.ContainsAny(text, "@?#") { // what is there may be a secret
			shown = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		}
		return nil, invalid(publicURL, "%q: expected http:// or https://, a host and perhaps a path, and nothing else", shown)
	}
	u.Scheme = scheme
	return u, nil
}

// relayURL returns the URL of a websocket, without its query.
func (s *Server) relayURL(r *http.Request) *url.URL {
	if s.public != nil {
		return s.public.JoinPath(relayPath)
	}
	scheme := "ws"
	if r.TLS != nil {
		scheme = "wss"
	}
	return &url.URL{Scheme: scheme, Host: r.Host, Path: relayPath}
}

const (
	relayPath    = "/relay"   // where the websockets are
	callValidate = "validate" // with which an executor asks about a harness
)

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cloud/environment/{id}/register", s.call("register", s.serveRegister))
	mux.HandleFunc("POST /cloud/environment/{id}/connect", s.call("connect", s.serveConnect))
	mux.HandleFunc("POST /cloud/environment/{id}/validate", s.call(callValidate, s.serveValidate))
	mux.HandleFunc("GET "+relayPath, s.serveRelay)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", s.serveReady)
	if !s.opts.PrivateMetrics {
		mux.HandleFunc("GET /metrics", s.serveMetrics)
	}
	mux.HandleFunc("GET /status", s.serveStatus)
	mux.Handle("GET /{$}", http.RedirectHandler("/status", http.StatusFound))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &apiError{http.StatusNotFound, "not_found", "nothing exists at " + r.Method + " " + r.URL.Path})
	})
	return mux
}

// Metrics returns a handler that serves /metrics alone. Requests with an Origin come from web pages and are refused.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Origin")) > 0 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.serveMetrics(w, r)
	})
	return mux
}

// ServeHTTP serves the registry's API, the relay at /relay, and /healthz, /readyz, /metrics and
// /status. / redirects to /status. Requests with an Origin come from web pages and are refused.
//
// Every answer except a websocket ends its connection, for two reasons. First, calls are rare, and
// the network may fail between them: clients of Codex CLI give up if they send a call on a dead
// connection, but retry if they cannot make a new one. Second, clients without a token must not
// keep idle connections.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	// Do not wait for the rest of a refused body. An error is ignored, because no deadline can be
	// set on a recorder in tests, or on a connection after an upgrade.
	defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftTime)) }()
	if len(r.Header.Values("Origin")) > 0 {
		writeError(w, &apiError{http.StatusForbidden, "origin_not_allowed", "web pages may not use this service"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Serve accepts connections on l, with TLS if config is not nil, until ctx ends or the server is
// shut down. It closes l and returns ErrServerClosed, or the listener's error. The websockets
// continue until Shutdown.
//
// Any client can open connections that are not websockets. So such a connection must send its
// request within seconds, and there are at most maxWaiting of them. Addresses have equal shares: if
// one address opens too many, its own connections are closed.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	l = websocket.LimitWaiting(l, s.maxWaiting, nil)
	h := websocket.NewHTTPServer(s)
	h.WriteTimeout, h.MaxHeaderBytes = answerTime, maxHeader
	// Websockets are upgraded only from HTTP/1.1.
	h.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-s.ctx.Done():
		case <-stop:
		}
		// Shutdown waits for calls to be answered. Hijacked sockets no longer belong to the HTTP
		// server.
		bound, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if h.Shutdown(bound) != nil {
			_ = h.Close()
		}
	}()
	err := h.Serve(l)
	close(stop)
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return ErrServerClosed
	}
	return err
}

// Shutdown ends every socket with a message to the peer, and waits until all have ended or ctx
// ends. If ctx ends first, the shutdown continues in the background, and another call of Shutdown
// waits for it. It may be called more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.stop(closeShutdown)
		go s.routineEnd()
	}
	s.mu.Unlock()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down: %w", ctx.Err())
	}
}

// routineEnd waits for the sockets and the calls, and then releases the state.
func (s *Server) routineEnd() {
	defer close(s.ended)
	s.wg.Wait()
	s.repeats.Close()
	if s.file != nil {
		if err := s.file.close(); err != nil {
			s.log.Warn("the state's file could not be closed", "error", err)
		}
	}
}

// begin makes Shutdown wait for the caller before it releases the state. The caller must call
// wg.Done. The error is for the peer.
func (s *Server) begin() *apiError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &apiError{http.StatusServiceUnavailable, "shutting_down", closeShutdown.reason}
	}
	s.wg.Add(1)
	return nil
}

// enter calls begin for a socket, and counts the socket. The caller must call leave.
func (s *Server) enter() *apiError {
	if refused := s.begin(); refused != nil {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets >= maxSockets {
		s.wg.Done()
		return &apiError{http.StatusServiceUnavailable, "too_many_sockets", "the service has reached its limit of connections"}
	}
	s.sockets++
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	s.sockets--
	s.mu.Unlock()
	s.wg.Done()
}

// routineSweep removes expired entries.
func (s *Server) routineSweep() {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			s.sweep()
		}
	}
}

func (s *Server) sweep() {
	ctx, cancel := context.WithTimeout(s.ctx, stateTime)
	defer cancel()
	s.state.Sweep(ctx)
	s.tokens.sweep()
	s.environments.sweep()
}

// checkToken returns an error if the holder of a token may not keep its socket. If the token file
// cannot be read, no connection ends.
//
// identity is the identity of a harness (see ticket). It contains the permissions that the token
// had when the ticket was made.
func (s *Server) checkToken(id string, role Role, environment, identity string) error {
	token, err := s.opts.Tokens.Find(id)
	switch {
	case errors.Is(err, ErrBadToken):
		return closeRevoked
	case err != nil:
		s.log.Error("cannot check a token", "token", id, "error", err)
		return nil
	case !token.permits(role, environment, s.now()), role == RoleHarness && accessOf(identity) != token.access():
		return closeRevoked
	default:
		return nil
	}
}

// serveReady reports whether new executors and harnesses can be served.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), stateTime)
	defer cancel()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	var missing []string
	if closed {
		missing = append(missing, closeShutdown.reason)
	}
	if err := s.opts.Tokens.Read(); err != nil {
		s.log.Error("not ready", "error", err)
		missing = append(missing, "the tokens cannot be read")
	}
	if err := s.state.Check(ctx); err != nil {
		s.log.Error("not ready", "error", err)
		missing = append(missing, "the state cannot be written")
	}
	if len(missing) > 0 {
		http.Error(w, strings.Join(missing, "; "), http.StatusServiceUnavailable)
	}
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", metrics.ContentType)
	_ = s.metrics.set.Write(w) // an error means that the client has stopped reading
	if bus, ok := s.bus.(MetricsWriter); ok {
		bus.WriteMetrics(w)
	}
}
