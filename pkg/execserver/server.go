package execserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/confine"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/environment"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/execserver/tunnels"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/internal/gather"
	"codex.internal/pkg/internal/metrics"
	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/websocket"
)

// ErrServerClosed is the error of Serve after Shutdown, as in net/http.
var ErrServerClosed = errors.New("exec-server: server closed")

// Options configure a Server. The zero value is a server with every default
// and no log.
type Options struct {
	// Logger receives structured records of connections, sessions and processes, and the
	// reasons for which they ended. The records never have contents, environments or tokens.
	// Nil: no log.
	Logger *slog.Logger

	// Version is sent to clients as a part of executorVersion.
	Version string

	// CodexHome is the directory with the user's config.toml, absolute and clean. Empty: the
	// server does not announce environmentConfig/read, and answers it with an error.
	CodexHome string

	// SessionTTL is how long a session without a connection can be resumed. Negative: a session
	// ends with its connection. 0: DefaultSessionTTL.
	SessionTTL time.Duration

	// Auth authenticates the clients of the listening port. Nil: only processes
	// on this machine that belong to this user or to root, and that no sandbox
	// confines, may connect.
	Auth *wsauth.Authenticator
	// AnyPeer, without Auth, accepts every client that reaches the port,
	// including other users and machines, and sandboxed commands.
	AnyPeer bool
	// RequireSandbox makes /readyz fail if CheckSandbox does.
	RequireSandbox bool
	// RequireRelay makes /readyz fail while Remote is not connected. A server whose clients come
	// through a relay sets it.
	RequireRelay bool
	// AllowUnconfinedReaders permits clients with the role read to read without a sandbox, if
	// none can be made. Otherwise their file requests are refused.
	AllowUnconfinedReaders bool

	// Limits; 0 means the Default constant of the same name.
	MaxConnections     int
	MaxProcesses       int // per session, without closed processes
	MaxHandles         int // file handles per connection, and atomic writes per session
	ConcurrentRequests int // per connection
	MaxMessage         int // bytes of an incoming websocket message

	// Sandbox names the programs that confine requests, and the backend.
	Sandbox runner.Options

	// ProxyPrivateIPsViaUpstream lets network proxies of processes reach private
	// addresses through the upstream proxy that the server's environment names.
	ProxyPrivateIPsViaUpstream bool
	// TCPUpstream is the HTTP proxy that SOCKS5 connections of processes must use (egress.Options). Nil: none.
	TCPUpstream *url.URL

	// Rules are those of the start; see SetRules.
	Rules

	// RetainDir is the directory of detached processes and their output. It must be absolute,
	// and is created if it does not exist. Empty: no detached processes. They exist only on
	// Linux, and need Keeper and Process.Subreaper.
	RetainDir string
	// RetainBytes bounds the total retained output of all detached processes. RetainFor is the
	// longest time for which output is retained after the end of its process. 0: the Default
	// constants.
	RetainBytes int64
	RetainFor   time.Duration
	// MaxDetached is how many detached processes an owner may have, including ended ones
	// that are retained; 0: DefaultMaxDetached.
	MaxDetached int
	Keeper      KeeperOptions

	// HiddenPaths are directories and files that no sandboxed request sees, in addition to
	// those of EgressPolicy.
	HiddenPaths []string
	// Tracer exports spans of requests, of processes and of their parts. Nil: no spans. The
	// caller shuts it down after Shutdown.
	Tracer *tracing.Tracer
	// TraceCommands sets TRACEPARENT and TRACESTATE in the environment of each command: to the
	// span of its process or, without a Tracer, to the span of the client.
	TraceCommands bool

	// MetricsPrincipals is how many principals have metrics of their own; all others are counted together. 0: there are no metrics
	// of principals.
	MetricsPrincipals int

	// Audit is the audit trail; nil: no audit trail.
	Audit *observe.Audit
	// PrivatePaths are absolute paths of files and directories of the server itself: its tokens
	// and keys, its audit trail, its data about detached processes. Sandboxed requests see
	// neither those that exist nor RetainDir. Landlock cannot hide paths: if it is the only
	// mechanism, PrivatePaths are hidden only with Sandbox.Stricter.
	PrivatePaths []string

	// Process configures how descendants of processes are found and killed. The zero value is
	// suitable for a program that has other child processes.
	Process process.Options
}

// KeeperOptions configure how the keepers of detached processes are started.
type KeeperOptions struct {
	// Command is a command whose main function calls RunKeeper.
	Command []string
	// Settings returns what is written as JSON of at most 32 KiB to the command's standard input.
	// It is called for each keeper, with the rules of that moment.
	Settings func(Rules) any
}

// Rules are what the owner of a server permits, and may change while it runs. A process has the rules
// of its start, and a tunnel those of the time when it is opened.
type Rules struct {
	// EgressPolicy limits what network proxies of processes permit, whatever
	// clients request. Nil: no limit.
	EgressPolicy *egress.Ceiling
	// Limits are the limits of every process, and the upper bounds of what clients may request.
	Limits execproto.ProcessLimits
}

// SetRules replaces the rules. It may be called at any time from any goroutine.
func (srv *Server) SetRules(r Rules) {
	srv.rules.Store(&r)
	srv.egress.SetCeiling(r.EgressPolicy)
}

func (o Options) withDefaults() Options {
	fill := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	fill(&o.MaxConnections, DefaultMaxConnections)
	fill(&o.MaxProcesses, DefaultMaxProcesses)
	fill(&o.MaxHandles, DefaultMaxHandles)
	fill(&o.ConcurrentRequests, DefaultConcurrentRequests)
	fill(&o.MaxMessage, websocket.DefaultMaxMessage)
	fill(&o.MaxDetached, DefaultMaxDetached)
	if o.RetainBytes == 0 {
		o.RetainBytes = DefaultRetainBytes
	}
	if o.RetainFor == 0 {
		o.RetainFor = DefaultRetainFor
	}
	if o.SessionTTL == 0 {
		o.SessionTTL = DefaultSessionTTL
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server answers exec-server requests on any number of connections, which Serve, ServeHTTP or
// ServeConn pass to it. Its methods may be called from any goroutine. Shutdown must be called
// when it is no longer needed.
//
// When you add a field, put it into its group.
type Server struct {
	// The options, and facts about this machine. These never change.
	opts      Options // without Rules
	log       *slog.Logger
	repeats   *gather.Handler            // of log
	certified atomic.Pointer[tls.Config] // of the listeners, which have the same one; nil: none encrypts
	env       *environment.Environment
	home      string
	cwd       string
	hostName  string
	began     time.Time
	keeper    *keeper // nil: this is not the keeper of a detached process

	// Observers and the status page.
	events     *observe.Events
	metrics    *observe.Metrics
	statusPage *statuspage.Page

	// These carry out requests.
	supervisor *process.Supervisor
	fetcher    *fetch.Client
	egress     *egress.Host
	files      *files.Server
	tunnels    *tunnels.Server
	detached   *detach.Store // nil: no detached processes
	memory     *time.Timer   // calls releaseMemory

	// What confines.
	confiner *confine.Confiner
	rules    atomic.Pointer[Rules]

	// What all connections and sessions share.
	shares   *share.Shares
	ports    sync.Map   // the ports on which clients are accepted
	mu       sync.Mutex // guards the rest of the group
	stopping bool
	conns    int
	sessions map[string]*session

	// The end. ctx is the parent of every connection's context; Shutdown cancels it last.
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup // counts connections, session ends and kills
	stopped chan struct{}  // closed when Shutdown begins
	ended   chan struct{}  // closed when Shutdown has completed
}

// New returns a server. It does not listen yet.
func New(opts Options) (*Server, error) { return newServer(opts, nil) }

// newServer is New. within is the trace of the process of a keeper; nil: the server is not a
// keeper.
func newServer(opts Options, within *tracing.Context) (*Server, error) {
	opts = opts.withDefaults()
	repeats := gather.New(opts.Logger.Handler(), map[string]gather.Rule{
		observe.RefusedConnection: {Key: "reason", Sources: []string{"peer", "principal"}},
		unenforcedLimit:           {Key: "limit", Sources: []string{"principal"}}, noProxies: {Key: "error"},
	})
	opts.Logger = slog.New(repeats)
	opts.Process.Logger = opts.Logger
	supervisor, err := process.NewSupervisor(opts.Process)
	if err != nil {
		return nil, fmt.Errorf("prepare to run processes: %w", err)
	}
	env := environment.Read(opts.Version, opts.CodexHome)
	srv := &Server{
		opts:       opts,
		log:        opts.Logger,
		repeats:    repeats,
		supervisor: supervisor,
		fetcher:    fetch.NewClient(),
		env:        env,
		home:       env.Home,
		cwd:        env.Cwd,
		began:      time.Now(),
		memory:     newMemoryTimer(),
		sessions:   make(map[string]*session),
		stopped:    make(chan struct{}),
		ended:      make(chan struct{}),
	}
	srv.rules.Store(&opts.Rules)
	srv.shares = share.New(opts.shared())
	srv.shares.Unlimited(observe.LimitTurns)
	srv.shares.Undivided(observe.LimitMemory, opts.memory()*3/8, opts.memory()/4+messageMargin)
	srv.hostName, _ = os.Hostname()
	srv.addObservers(within)
	srv.confiner = srv.newConfiner()
	srv.statusPage = statuspage.New(statuspage.Options{
		Source: statusSource{srv}, Events: srv.events, Log: srv.log, AnyHost: opts.Auth != nil, Authenticate: srv.authenticate, Refuse: srv.refuse,
	})
	srv.tunnels = tunnels.NewServer(tunnels.Options{Events: srv.events, Home: srv.home, Ceiling: func() *egress.Ceiling { return srv.rules.Load().EgressPolicy }, Sandboxes: srv.confiner.Sandboxes})
	srv.egress = srv.newEgress()
	srv.ctx, srv.cancel = context.WithCancel(context.Background())
	srv.files = srv.newFiles()
	srv.openDetached()
	return srv, nil
}

// addObservers makes the server's events and their observers. within is that of newServer.
func (srv *Server) addObservers(within *tracing.Context) {
	o := &srv.opts
	srv.events, srv.metrics = observe.New(observe.Options{
		Version: o.Version, Methods: slices.Collect(maps.Keys(methods)), Causes: causes[:], Log: srv.log, Totals: srv.totals,
		Shares: func(used func(limit observe.Limit, all, used int64)) {
			for _, u := range srv.shares.Usage() {
				used(u.Limit, u.All, u.Used)
			}
		},
		PrincipalShares: func(used func(string, observe.Limit, int64)) { srv.shares.EachUse(used) }, Principals: o.MetricsPrincipals,
		Clients: srv.clients, TokenEnd: o.Auth.NextEnd, CertificateEnd: srv.certificateEnd,
		Audit: o.Audit, Tracer: o.Tracer, ClientTraces: o.TraceCommands, Within: within,
	})
}

// ServeConn serves one connection until it ends or the server is shut down.
// It closes t.
func (srv *Server) ServeConn(t websocket.Transport) error {
	grant := grantOf(t)
	account, err := srv.admit(grant)
	if err != nil {
		_ = t.Close(websocket.CloseGoingAway, err.Error())
		return err
	}
	defer srv.leave(account)
	transport := observe.Relay
	if t.Peer() == string(observe.Stdio) {
		transport = observe.Stdio
	}
	srv.serveTransport(t, transport, "", grant, account)
	return nil
}

// serveTransport serves a connection of an accepted client. build is its User-Agent; "": it is not known.
func (srv *Server) serveTransport(t websocket.Transport, kind observe.Transport, build string, grant wsauth.Grant, account *share.Account) {
	srv.events.ConnectionOpened.Tell(kind)
	defer srv.events.ConnectionClosed.Tell(kind)
	c := newConn(srv.ctx, srv, t, grant, account)
	c.build = shorten(strings.ToValidUTF8(build, "\uFFFD"))
	c.serve()
	// Scenario: a client asks for large files, reads no answer for a minute, and disconnects.
	srv.memory.Reset(releaseDelay)
}

// grantOf returns the grant of a transport's peer, which a registry may have sent with it. All
// unauthenticated peers have the same principal, "".
func grantOf(t websocket.Transport) wsauth.Grant {
	principal := ""
	if a, ok := t.(websocket.Authenticated); ok {
		principal = a.Principal()
	}
	if r, ok := t.(interface{ Grant() *tokens.Grant }); ok && r.Grant() != nil {
		return wsauth.Relayed(r.Grant(), principal)
	}
	return wsauth.Unlimited(principal)
}

// admit accepts a new connection, and returns its account. It returns an error if the client's
// share of MaxConnections is used up or the server is shut down.
func (srv *Server) admit(grant wsauth.Grant) (*share.Account, error) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.stopping {
		return nil, ErrServerClosed
	}
	account := srv.shares.Open(grant.Principal, srv.hasWhole(grant.Principal))
	if err := account.Take(observe.LimitConnections, 1); err != nil {
		account.Close()
		srv.events.LimitReached.Tell(observe.LimitConnections)
		return nil, fmt.Errorf("%w; --max-connections of the server raises the limit", err)
	}
	srv.conns++
	srv.wg.Add(1)
	return account, nil
}

// leave ends a connection that admit has accepted.
func (srv *Server) leave(account *share.Account) {
	account.Close()
	srv.mu.Lock()
	srv.conns--
	last := srv.conns == 0
	srv.mu.Unlock()
	if srv.keeper != nil && last {
		wait.Wake(srv.keeper.left)
	}
	srv.wg.Done()
}

// forget removes a session that has ended.
func (srv *Server) forget(s *session) {
	srv.mu.Lock()
	delete(srv.sessions, s.id)
	srv.mu.Unlock()
}

// Shutdown ends the server: it accepts no more connections, kills every process, closes every
// connection, and then returns. If ctx ends first, it returns ctx's error, and the shutdown
// continues; another call waits for it. It may be called more than once.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.mu.Lock()
	if !srv.stopping {
		srv.stopping = true
		close(srv.stopped)
		go srv.routineEnd(slices.Collect(maps.Values(srv.sessions)))
	}
	srv.mu.Unlock()
	select {
	case <-srv.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// routineEnd does the work of Shutdown.
func (srv *Server) routineEnd(sessions []*session) {
	defer close(srv.ended)
	srv.supervisor.Stopping()
	var ending sync.WaitGroup
	for _, s := range sessions {
		ending.Go(func() { s.end("the server is shutting down", false) })
	}
	ending.Wait()
	srv.cancel()
	srv.detached.Close()
	srv.wg.Wait()
	srv.files.Wait()
	srv.confiner.Close()
	srv.supervisor.Close()
	srv.fetcher.Close()
	srv.memory.Stop()
	srv.repeats.Close()
}

// Metrics returns a handler that answers GET and HEAD of /metrics with the server's metrics, for
// Prometheus, and of /readyz, /livez and /healthz like the listening port (docs/spec/wire.md §1.2).
// It does not authenticate, because the metrics name no session, process, path or command. Requests
// with an Origin come from web pages and are refused.
func (srv *Server) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz", "/livez", "/healthz":
			if len(r.Header.Values("Origin")) == 0 {
				srv.serveHealth(w, r)
				return
			}
		}
		srv.metrics.ServeHTTP(w, r)
	})
}

// Remote returns the counter of registrations and of connections to a relay.
func (srv *Server) Remote() *observe.Remote { return srv.metrics.Remote() }

// clients returns how many clients of each program are connected.
func (srv *Server) clients() map[metrics.Program]int {
	srv.mu.Lock()
	sessions := slices.Collect(maps.Values(srv.sessions))
	srv.mu.Unlock()
	all := make(map[metrics.Program]int)
	for _, s := range sessions {
		if c := s.attached(); c != nil {
			all[metrics.Program{Name: c.client, Build: c.build}]++
		}
	}
	return all
}

// totals counts sessions, and processes that have not closed.
func (srv *Server) totals() (t observe.Totals) {
	srv.mu.Lock()
	sessions := slices.Collect(maps.Values(srv.sessions))
	srv.mu.Unlock()
	for _, s := range sessions {
		if s.attached() != nil {
			t.Attached++
		} else {
			t.Detached++
		}
		for _, p := range s.all() {
			running := p.now()
			if running == nil {
				t.Starting++
				continue
			}
			switch state := running.State(); {
			case state.Closed:
			case state.Exited:
				t.Exited++
			default:
				t.Running++
			}
		}
	}
	return t
}
