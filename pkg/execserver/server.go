//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/host/hostinfo"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/wire/pathuri"
	"codex.internal/pkg/wire/transport"
)

// ErrServerClosed is what Serve returns after Shutdown, as in net/http.
var ErrServerClosed = errors.New("exec-server: server closed")

// Options configure a Server. The zero value is a server with every default
// and no log.
type Options struct {
	// Logger gets structured records: who connected, which processes started
	// and why something ended; never contents, environments or tokens. Nil:
	// no log.
	Logger *slog.Logger

	// Version is told to clients as executorVersion.
	Version string

	// SessionTTL is how long a session without a connection can be resumed;
	// negative: it ends with its connection; 0: DefaultSessionTTL.
	SessionTTL time.Duration

	// Auth guards the listening port; nil: processes of this user and of root
	// may use it that no sandbox confines, from this machine.
	Auth *wsauth.Authenticator
	// AnyPeer lets in whoever reaches the port, if there is no Auth: other
	// users, other machines and confined commands too.
	AnyPeer bool

	// Limits; 0 means the Default constant of the same name.
	MaxConnections     int
	MaxProcesses       int // per session, not counting closed ones
	MaxHandles         int // file handles per connection
	ConcurrentRequests int // per connection
	MaxMessage         int // bytes of an incoming websocket message

	// Sandbox says where the programs are that confine requests, and how.
	Sandbox sandbox.Options

	// Process says how processes are kept together. The zero value fits a
	// program that has children of its own.
	Process process.Options
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
	fill(&o.MaxMessage, transport.DefaultMaxMessage)
	if o.SessionTTL == 0 {
		o.SessionTTL = DefaultSessionTTL
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server answers exec-server requests on any number of connections, which it
// gets from Serve, ServeHTTP or ServeConn. Its methods may be called from any
// goroutine. Shutdown must be called when it is no longer needed.
type Server struct {
	opts       Options
	log        *slog.Logger
	supervisor *process.Supervisor
	fetcher    *fetch.Client
	info       execproto.EnvironmentInfo
	home       string
	cwd        string
	memory     *memory
	confiner   confiner
	warm       *warmer
	confined   confinedTimes

	// ctx ends every connection; it ends last in Shutdown.
	ctx    context.Context
	cancel context.CancelFunc
	// wg counts connections, session ends and kills.
	wg sync.WaitGroup

	mu       sync.Mutex
	stopping bool
	conns    int
	sessions map[string]*session
	stopped  chan struct{} // closed when Shutdown begins
	ended    chan struct{} // closed when all of it is done
}

// New returns a server that listens nowhere yet.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	opts.Process.Logger = opts.Logger
	supervisor, err := process.NewSupervisor(opts.Process)
	if err != nil {
		return nil, fmt.Errorf("prepare to run processes: %w", err)
	}
	host := hostinfo.Read()
	srv := &Server{
		opts:       opts,
		log:        opts.Logger,
		supervisor: supervisor,
		fetcher:    fetch.NewClient(),
		info:       describe(host, opts.Version),
		home:       host.Home,
		cwd:        host.Cwd,
		memory:     newMemory(),
		sessions:   make(map[string]*session),
		stopped:    make(chan struct{}),
		ended:      make(chan struct{}),
	}
	srv.warm = newWarmer(srv)
	srv.ctx, srv.cancel = context.WithCancel(context.Background())
	return srv, nil
}

// describe tells what environment/info answers (sections 7 and 8.1).
func describe(host hostinfo.Info, version string) execproto.EnvironmentInfo {
	uri := func(path string) string {
		if path == "" {
			return ""
		}
		return pathuri.Format(path)
	}
	info := execproto.EnvironmentInfo{
		Shell:                execproto.Shell{Name: host.Shell.Name, Path: host.Shell.Path},
		Cwd:                  uri(host.Cwd),
		TempDir:              uri(host.TempDir),
		UserHomeDir:          uri(host.Home),
		TemporaryDirectories: []string{},
		PlatformOS:           runtime.GOOS,
		ExecutorVersion:      version,
		Capabilities: execproto.Capabilities{
			FileWriteStreaming: true,
			HTTPHeaderEnvVars:  true,
		},
	}
	for _, dir := range host.TemporaryDirectories {
		info.TemporaryDirectories = append(info.TemporaryDirectories, uri(dir))
	}
	return info
}

// ServeConn serves one connection until it ends or the server is shut down.
// It closes t.
func (srv *Server) ServeConn(t transport.Conn) error {
	if err := srv.admit(); err != nil {
		_ = t.Close(transport.CloseGoingAway, err.Error())
		return err
	}
	defer srv.leave()
	newConn(srv.ctx, srv, t, principalOf(t)).serve()
	return nil
}

// principalOf tells who is at the other end of a connection that was made for
// the server. Where that has not been proved, all are the same.
func principalOf(t transport.Conn) string {
	if a, ok := t.(transport.Authenticated); ok {
		return a.Principal()
	}
	return ""
}

// admit counts a connection in, unless there are too many.
func (srv *Server) admit() error {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.stopping {
		return ErrServerClosed
	}
	if srv.conns >= srv.opts.MaxConnections {
		return fmt.Errorf("at most %d connections may be open; close some or raise --max-connections", srv.opts.MaxConnections)
	}
	srv.conns++
	srv.wg.Add(1)
	return nil
}

func (srv *Server) leave() {
	srv.mu.Lock()
	srv.conns--
	srv.mu.Unlock()
	srv.wg.Done()
}

// forget drops a session that has ended.
func (srv *Server) forget(s *session) {
	srv.mu.Lock()
	delete(srv.sessions, s.id)
	srv.mu.Unlock()
}

// Shutdown ends the server: it accepts nothing more, kills every process,
// closes every connection and returns when all is over, or with ctx's error
// when ctx ends first. Then the rest goes on, and another call waits for it. It
// may be called more than once.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.mu.Lock()
	if !srv.stopping {
		srv.stopping = true
		close(srv.stopped)
		close(srv.warm.stop)
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
	var ending sync.WaitGroup
	for _, s := range sessions {
		ending.Go(func() { s.end("the server is shutting down", false) })
	}
	ending.Wait()
	srv.cancel()
	srv.wg.Wait()
	srv.supervisor.Close()
	srv.fetcher.Close()
	srv.confiner.close()
	srv.memory.stop()
}
