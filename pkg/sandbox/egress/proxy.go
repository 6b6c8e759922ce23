package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/pkg/host/peercred"
)

// Options configure a Host. The zero value is valid.
type Options struct {
	// Logger receives the decisions with the rule that matched. Nil: no log.
	Logger *slog.Logger
	// PrivateViaUpstream sends requests for private addresses to upstream proxies too, except for
	// loopback addresses.
	PrivateViaUpstream bool
	// TCPUpstream is the HTTP proxy through which all SOCKS5 connections go, and those that do not know the proxy of the
	// process (docs/spec/network.md §5). It gets names only. Nil: they go to the hosts themselves, or to upstream proxies that
	// the environment names.
	TCPUpstream *url.URL
	// Ceiling is the egress policy of the server's owner, until SetCeiling. Nil: the owner permits
	// everything.
	Ceiling *Ceiling
	// BundleDir is the directory for the certificate bundles of processes, if Ceiling
	// injects credentials. Empty: the directory for temporary files.
	BundleDir string
	// OwnPort reports whether this program listens on a port of this machine. The proxy does not
	// connect to such a port: this program would treat the connection as its own user's, and so
	// serve a process whose policy names the address. Nil: it listens on no port.
	OwnPort func(port uint16) bool
	// Getenv returns the variables of upstream proxies. Nil: os.Getenv.
	Getenv func(name string) string
	// Connections bounds the connections of all proxies; 0: DefaultConnections.
	Connections int64
	// Resolve resolves a name; it returns soon after its context has ended. Nil:
	// the system's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// UserOf returns the user of the process at the other end of a local
	// connection. Nil: peercred.UserOf.
	UserOf func(conn net.Conn) (int, error)
}

// Host holds the data that the proxies of one server share. Its methods may be called from
// any goroutine.
type Host struct {
	opts        Options
	ceiling     atomic.Pointer[Ceiling] // of proxies that will be started
	connections atomic.Int64
	// ports are the ports of all proxies: no proxy connects to a port of
	// another one.
	ports sync.Map
	// heads contains an element for each large head.
	heads chan struct{}

	tested sync.Once
	works  error
}

// NewHost returns a Host without proxies.
func NewHost(opts Options) *Host {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.OwnPort == nil {
		opts.OwnPort = func(uint16) bool { return false }
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Connections == 0 {
		opts.Connections = DefaultConnections
	}
	if opts.UserOf == nil {
		opts.UserOf = peercred.UserOf
	}
	h := &Host{opts: opts, heads: make(chan struct{}, maxAllLargeHeads)}
	h.ceiling.Store(opts.Ceiling)
	return h
}

// SetCeiling sets the egress policy of proxies that are started from now on. Nil: the owner permits
// everything. The proxy of a running process keeps its policy, with the credentials that it injects.
func (h *Host) SetCeiling(c *Ceiling) { h.ceiling.Store(c) }

// Works returns an error if this machine does not report the user of a connection: a proxy would
// then refuse every connection. The first call makes a connection to this program itself to find
// out.
func (h *Host) Works() error {
	h.tested.Do(func() { h.works = h.test() })
	return h.works
}

// test determines the user of both ends of a connection to itself.
func (h *Host) test() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("try a connection within this machine: %w", err)
	}
	defer l.Close()
	client, err := net.DialTimeout("tcp4", l.Addr().String(), testTime)
	if err != nil {
		return fmt.Errorf("try a connection within this machine: %w", err)
	}
	defer client.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(testTime))
	conn, err := l.Accept()
	if err != nil {
		return fmt.Errorf("try a connection within this machine: %w", err)
	}
	defer conn.Close()
	user, err := h.opts.UserOf(conn)
	if err == nil && user != os.Geteuid() {
		err = fmt.Errorf("it is said to be of user %d", user)
	}
	if err != nil {
		return fmt.Errorf("find the user of a connection within this machine: %w", err)
	}
	return nil
}

// resolve resolves a name by the system's configuration. It uses Go's resolver. The C library's
// resolver cannot be cancelled, so Close would have to wait for a pending answer.
func (h *Host) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if h.opts.Resolve != nil {
		return h.opts.Resolve(ctx, name)
	}
	if !strings.Contains(name, ".") {
		// Go finds a name without a dot in /etc/hosts only without a final dot, and then would add the search domains
		// for DNS. So this look-up has no DNS. An example is the name of the machine itself, or one of docker run --add-host.
		hosts := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errNoDNS }}
		if addresses, err := hosts.LookupNetIP(ctx, "ip", name); err == nil {
			return addresses, nil
		}
	}
	resolver := net.Resolver{PreferGo: true}
	return resolver.LookupNetIP(ctx, "ip", name+".")
}

// errNoDNS ends the look-up of a name that is not in /etc/hosts.
var errNoDNS = errors.New("only /etc/hosts is read")

// Hooks are the functions that a proxy calls. Several goroutines may call them at the same time.
type Hooks struct {
	// Ask returns the answer to a question, or the zero Answer. It returns soon
	// after its context has ended. Nil: no questions are asked.
	Ask func(ctx context.Context, q Question) Answer
	// Report gets each decision when it is made. It must not block.
	Report func(r Report)
}

// Report is one decision, as Codex CLI reports it.
type Report struct {
	Time     time.Time
	Domain   bool // it is about the host, not about a method or a mode
	Verdict  Verdict
	Source   Source
	Reason   string
	Protocol Protocol
	Host     string
	Port     uint16
	Method   string // of HTTP; "": none
	Client   string // the address of the connection that the proxy accepted
	Override bool   // the client allowed a host that the patterns do not allow
	Rule     Rule   // what has refused it; "": nothing
	Detail   string // what is known besides: a pattern, or an address of the name
}

// Proxy is the network proxy of one process. It has one goroutine per listener, one per connection,
// and two per tunnel. Close ends them all.
type Proxy struct {
	host    *Host
	policy  *Policy
	ceiling *Ceiling // of the server's owner at the start; nil: no limits
	hooks   Hooks
	log     *slog.Logger
	logged  *recordLimit

	web, socks net.Listener // socks is nil if the policy has no SOCKS5 proxy

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	asking context.Context // ends with StopAsking
	mute   context.CancelFunc
	// questions contains an element for each open question.
	questions chan struct{}
	names     nameTable
	heads     chan struct{} // contains an element for each large head
	transport *http.Transport
	secrets   *secrets // nil: no credentials are injected
	wg        sync.WaitGroup

	mu    sync.Mutex
	over  bool
	conns map[net.Conn]struct{} // connections from the process, and connections to hosts
	count int                   // connections from the process
}

// Start creates the proxy of a process. The caller must call Close.
func (h *Host) Start(policy *Policy, hooks Hooks) (*Proxy, error) {
	if policy == nil {
		return nil, errNoPolicy
	}
	x := &Proxy{
		host: h, policy: policy, ceiling: h.ceiling.Load(), hooks: hooks,
		questions: make(chan struct{}, maxQuestions),
		heads:     make(chan struct{}, maxLargeHeads),
		conns:     make(map[net.Conn]struct{}),
	}
	x.log, x.logged = limitRecords(h.opts.Logger)
	var err error
	if x.web, err = h.listen(); err != nil {
		return nil, err
	}
	if policy.config.SOCKS5 {
		if x.socks, err = h.listen(); err != nil {
			_ = x.web.Close()
			h.ports.Delete(portOf(x.web))
			return nil, err
		}
	}
	if x.secrets, err = x.newSecrets(); err != nil {
		x.closePorts()
		return nil, err
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.asking, x.mute = context.WithCancel(x.ctx)
	x.transport = x.newTransport()
	x.wg.Go(func() { x.routineAccept(x.web, x.serveHTTP, x.refuseHTTP) })
	if x.socks != nil {
		x.wg.Go(func() { x.routineAccept(x.socks, x.serveSOCKS, func(net.Conn) {}) })
	}
	return x, nil
}

func (h *Host) listen() (net.Listener, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the network proxy of a process: %w", err)
	}
	h.ports.Store(portOf(l), nil)
	return l, nil
}

func portOf(l net.Listener) uint16 { return l.Addr().(*net.TCPAddr).AddrPort().Port() }

// StopAsking denies the open questions and all later ones.
func (x *Proxy) StopAsking() { x.mute() }

// Close closes the ports and every connection, and returns when all goroutines of the proxy have
// ended. It does not wait for answers from hosts.
func (x *Proxy) Close() {
	x.mu.Lock()
	x.over = true
	conns := x.conns
	x.conns = nil
	x.mu.Unlock()
	x.cancel()
	x.closePorts()
	for c := range conns {
		_ = c.Close()
	}
	x.transport.CloseIdleConnections()
	x.secrets.close()
	x.wg.Wait()
	x.logged.close()
}

func (x *Proxy) closePorts() {
	for _, l := range []net.Listener{x.web, x.socks} {
		if l != nil {
			closePort(l)
			x.host.ports.Delete(portOf(l))
		}
	}
}

// routineAccept serves the connections of one listener until Close.
func (x *Proxy) routineAccept(l net.Listener, serve func(net.Conn), refuse func(net.Conn)) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			x.admit(conn, serve, refuse)
		case errors.Is(err, net.ErrClosed), x.ctx.Err() != nil:
			// closePort shuts the port down before it closes the listener, and Accept may return
			// between the two.
			return
		default:
			x.log.Warn("network proxy: accept a connection", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-x.ctx.Done():
			}
		}
	}
}

// admit serves a connection in its own goroutine. If the other end belongs to another user, admit
// closes the connection: any local user can connect to a loopback port, and would get the network
// access of this server's user. Root may use the proxy, because root can become this user. The
// proxy of another program may not use it, because the process of that proxy has another policy.
func (x *Proxy) admit(conn net.Conn, serve, refuse func(net.Conn)) {
	user, err := x.host.opts.UserOf(conn)
	if err != nil || user != os.Geteuid() && user != 0 {
		x.log.Warn("network proxy: refused a connection of another user", "user", user, "error", err)
		_ = conn.Close()
		return
	}
	if !x.enter(conn) {
		refuse(conn)
		_ = conn.Close()
		return
	}
	x.wg.Go(func() {
		defer x.leave(conn)
		serve(conn)
	})
}

// enter counts a connection from the process. It returns false if there are too many connections,
// or if the proxy is closed.
func (x *Proxy) enter(conn net.Conn) bool {
	if x.host.connections.Add(1) > x.host.opts.Connections {
		x.host.connections.Add(-1)
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.count >= maxConnections {
		x.host.connections.Add(-1)
		return false
	}
	x.count++
	x.conns[conn] = struct{}{}
	return true
}

func (x *Proxy) leave(conn net.Conn) {
	_ = conn.Close()
	x.host.connections.Add(-1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count--
	delete(x.conns, conn)
}

// admitHead takes a slot for a large head, or returns false.
func (x *Proxy) admitHead() bool {
	select {
	case x.heads <- struct{}{}:
	default:
		return false
	}
	select {
	case x.host.heads <- struct{}{}:
		return true
	default:
		<-x.heads
		return false
	}
}

func (x *Proxy) releaseHead() {
	<-x.host.heads
	<-x.heads
}

// begin makes Close wait for the caller, until wg.Done. It returns false if the proxy is closed.
// Only goroutines of the transport need begin: they may connect for later requests too, and Close
// would not wait for them otherwise.
func (x *Proxy) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.wg.Add(1)
	}
	return !x.over
}

// keep registers a connection to a host, so that Close closes it. If the proxy is already closed,
// keep closes the connection and returns an error.
func (x *Proxy) keep(conn net.Conn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		_ = conn.Close()
		return net.ErrClosed
	}
	x.conns[conn] = struct{}{}
	return nil
}

func (x *Proxy) forget(conn net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.conns, conn)
}

// attempt is one request of the process, for reports and refusals.
type attempt struct {
	Question
	method string
	client string
}

// report reports a decision. domain means that the decision is about the host.
func (x *Proxy) report(a attempt, d decision, domain bool) {
	level := slog.LevelInfo
	if d.verdict == Pass {
		level = slog.LevelDebug // a record for each request would fill the log
	}
	x.log.Log(context.Background(), level, "network decision", "verdict", d.verdict, "reason", d.reason, "by", d.by, "rule", d.rule, "source", d.source,
		"protocol", a.Protocol, "host", a.Host, "port", a.Port)
	if x.hooks.Report == nil {
		return
	}
	x.hooks.Report(Report{
		Time: time.Now(), Domain: domain, Verdict: d.verdict, Source: d.source, Reason: d.reason,
		Protocol: a.Protocol, Host: a.Host, Port: a.Port, Method: a.method, Client: a.client, Override: d.override, Rule: d.by, Detail: d.rule,
	})
}
