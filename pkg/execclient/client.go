package execclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

// Options configure a client. The zero value has all defaults.
type Options struct {
	ClientName        string        // "": DefaultClientName
	ConnectTimeout    time.Duration // 0: DefaultConnectTimeout
	InitializeTimeout time.Duration // 0: DefaultInitializeTimeout
	// UserAgent is the NAME/VERSION of the program, which a websocket server counts; "": none is sent.
	UserAgent string
	// ResumeSessionID attaches to a session whose connection was lost.
	ResumeSessionID string
	// BearerToken is sent to servers that require one. Over plain ws it is sent to loopback
	// addresses only. There, and at a Unix socket, the server must belong to this user, to root or to
	// ServerUser, unless Connect makes the connection; systems other than Linux do not report it.
	BearerToken string
	// ServerUser is the id of another user whose servers get the token, or AnyUser.
	ServerUser int
	// TLS configures wss://; nil means that the system's authorities are trusted. It must not
	// be changed afterwards.
	TLS *tls.Config
	// Connect dials the network connection of a websocket until its context ends; nil means a
	// net.Dialer.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
	// RecoveryTimeout bounds the attempts to resume a lost session; default
	// DefaultRecoveryTimeout. Negative: none are made.
	RecoveryTimeout time.Duration
	// KeepAlive is the interval of pings on an idle websocket. Two pings without an answer end
	// the connection, and recovery begins. 0: no pings; a vanished peer is detected by TCP.
	KeepAlive time.Duration
	// OnStateChange is called when the client has lost its connection, has recovered it, or
	// has failed: one call at a time, in that order. It must not block, nor call methods of
	// the client.
	OnStateChange func(StateChange)
	// OnPolicyRequest answers the server's question whether a process with a network proxy may
	// connect to a host (docs/spec/network.md §4.5). It is called from several goroutines, and
	// Close waits for them. It must return soon after its context has ended, which happens
	// with the connection, and must not call Close. Nil: a question ends the connection; a
	// server asks only if the start of a process requests it.
	OnPolicyRequest func(context.Context, execproto.PolicyRequestParams) execproto.PolicyDecision
	Logger          *slog.Logger // nil: no log
}

func (o Options) withDefaults() Options {
	if o.ClientName == "" {
		o.ClientName = DefaultClientName
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.InitializeTimeout == 0 {
		o.InitializeTimeout = DefaultInitializeTimeout
	}
	if o.RecoveryTimeout == 0 {
		o.RecoveryTimeout = DefaultRecoveryTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// AnyUser as Options.ServerUser sends the token to a server of any user.
const AnyUser = -1

// State is the state of a client's connection.
type State int

// The states of a client. Failed is final.
const (
	Connected State = iota + 1
	Recovering
	Failed
)

func (s State) String() string {
	switch s {
	case Connected:
		return "connected"
	case Recovering:
		return "recovering"
	case Failed:
		return "failed"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}

// StateChange is a new state and, unless that is Connected, the reason.
type StateChange struct {
	State State
	Err   error
}

// Client is a session on an exec-server, with one connection at a time. Its methods may be
// called from any goroutine.
//
// Two goroutines read and write the connection, and one recovers the session after the
// connection was lost. They end with Close, or when the client fails.
type Client struct {
	opts   Options
	log    *slog.Logger
	dialer Dialer // nil: a lost session is not recovered
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	info   execproto.InitializeResult
	done   chan struct{} // closed when the client has failed
	bodies bodyStreams

	watches   watches
	tunnels   tunnelTable
	ports     *PortWatch // nil: none is open; guarded by mu, like the id of the last one
	lastPorts uint64

	notifying sync.Mutex // held during a state change and its OnStateChange

	mu      sync.Mutex
	state   State
	link    *connection   // the current one, or the last
	changed chan struct{} // closed and replaced when the state changes
	since   time.Time     // when the connection was established
	procs   map[string]*Process
	err     error // the reason of the failure
	closing bool
}

// DialWebSocket connects to a server at a ws://, wss:// or unix:///path URL. The session
// survives lost connections.
func DialWebSocket(ctx context.Context, url string, o Options) (*Client, error) {
	return Dial(ctx, WebSocketDialer(url, o), o)
}

// WebSocketDialer returns the dialer of DialWebSocket, for callers that pass messages on themselves.
func WebSocketDialer(url string, o Options) Dialer { return &webSocketDialer{url, o.withDefaults()} }

// Dial opens a session on a connection of the dialer. If that connection is lost, it dials
// another one.
func Dial(ctx context.Context, d Dialer, o Options) (*Client, error) {
	t, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, t, d, o)
}

// StartCommand starts a server as a command and communicates over its stdin and stdout. Close
// ends the command. If the command ends first, the client fails.
func StartCommand(ctx context.Context, c Command, o Options) (*Client, error) {
	t, err := StartTransport(c)
	if err != nil {
		return nil, err
	}
	return newClient(ctx, t, nil, o)
}

// NewClient opens a session on a transport, which it closes even if it fails. If the transport
// ends, the client fails.
func NewClient(ctx context.Context, t Transport, o Options) (*Client, error) {
	return newClient(ctx, t, nil, o)
}

func newClient(ctx context.Context, t Transport, d Dialer, o Options) (*Client, error) {
	o = o.withDefaults()
	if o.RecoveryTimeout < 0 {
		d = nil
	}
	c := &Client{
		opts: o, log: o.Logger, dialer: d, done: make(chan struct{}),
		state: Connected, changed: make(chan struct{}), procs: make(map[string]*Process),
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	params := execproto.InitializeParams{ClientName: o.ClientName}
	if o.ResumeSessionID != "" {
		params.ResumeSessionID = &o.ResumeSessionID
	}
	l := c.open(t, c.lost)
	info, err := l.initialize(ctx, o, params)
	if err != nil {
		c.cancel()
		_ = t.Close()
		c.wg.Wait()
		return nil, err
	}
	c.info = info
	if !c.install(l) {
		_ = c.Close()
		return nil, &DisconnectedError{Message: disconnected(l.why)}
	}
	return c, nil
}

// SessionID returns the session's id, for Options.ResumeSessionID.
func (c *Client) SessionID() string { return c.info.SessionID }

// Has reports whether the server supports a method or another extension of the base protocol.
func (c *Client) Has(extension string) bool { return slices.Contains(c.info.Extensions, extension) }

// Capabilities returns the capabilities that the server reports.
func (c *Client) Capabilities() execproto.Capabilities {
	if c.info.EnvironmentInfo == nil {
		return execproto.Capabilities{}
	}
	return c.info.EnvironmentInfo.Capabilities
}

// State returns the state of the connection.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Err returns the reason for which the client failed; nil if it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the client has failed or was closed.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for the client's goroutines. The server ends the
// session's processes after the session's TTL.
func (c *Client) Close() error {
	c.tunnels.letGo(c)
	c.mu.Lock()
	c.closing = true
	l := c.link
	c.mu.Unlock()
	c.fail(ErrClosed)
	c.cancel()
	var err error
	if l != nil {
		err = l.t.Close()
	}
	c.wg.Wait()
	return err
}

// EnvironmentInfo asks the server for a description of its machine.
func (c *Client) EnvironmentInfo(ctx context.Context) (execproto.EnvironmentInfo, error) {
	var info execproto.EnvironmentInfo
	err := c.Call(ctx, execproto.MethodEnvironmentInfo, nil, &info)
	return info, err
}

// notification passes an event to its process. Unknown notifications are ignored: they are for
// newer clients.
func (c *Client) notification(m jsonrpc.Message) error {
	var id string
	var e Event
	switch m.Method {
	case execproto.NotifyProcessOutput:
		n, err := execproto.Decode[execproto.OutputNotification](m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{Seq: n.Seq, Kind: Output, Stream: n.Stream, Data: n.Chunk}
	case execproto.NotifyProcessExited:
		n, err := execproto.Decode[execproto.ExitedNotification](m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{
			Seq: n.Seq, Kind: Exited, ExitCode: n.ExitCode, SandboxDenied: n.SandboxDenied, Denials: n.Denials, Refusal: n.SandboxRefusal.Text(),
			Cause: n.Cause, Resources: n.Resources,
		}
	case execproto.NotifyProcessClosed:
		n, err := execproto.Decode[execproto.ClosedNotification](m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{Seq: n.Seq, Kind: Closed}
	case execproto.NotifyHTTPBodyDelta:
		n, err := execproto.Decode[execproto.HTTPBodyDelta](m.Params)
		if err == nil {
			c.bodies.deliver(n)
		}
		return err
	case execproto.NotifyFSChanged:
		n, err := execproto.Decode[execproto.Changed](m.Params)
		if err != nil {
			return err
		}
		if w := c.watches.find(n.WatchID); w != nil {
			w.receive(&n)
		}
		return nil
	default:
		return nil
	}
	c.mu.Lock()
	p := c.procs[id]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.receive(e)
}

// forget stops routing events to a process.
func (c *Client) forget(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[p.id] == p {
		delete(c.procs, p.id)
	}
}

// become changes the state and calls OnStateChange. set runs with mu held, and returns false
// if there is nothing to change.
func (c *Client) become(s State, why error, set func() bool) bool {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	c.mu.Lock()
	if c.state == Failed || !set() {
		c.mu.Unlock()
		return false
	}
	silent := c.state == s
	c.state = s
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if c.opts.OnStateChange != nil && !silent {
		c.opts.OnStateChange(StateChange{State: s, Err: why})
	}
	return true
}

// fail ends the client permanently. All waiting calls return why.
func (c *Client) fail(err error) {
	var procs map[string]*Process
	if !c.become(Failed, err, func() bool {
		if c.closing {
			err = ErrClosed
		}
		c.err = err
		procs, c.procs = c.procs, make(map[string]*Process)
		close(c.done)
		return true
	}) {
		return
	}
	if !errors.Is(err, ErrClosed) || c.log.Enabled(c.ctx, slog.LevelDebug) {
		c.log.Debug("the session has ended", "error", err)
	}
	c.bodies.fail(err)
	c.tunnels.fail(err)
	for _, p := range procs {
		p.fail(err)
	}
	for _, w := range c.watches.all() {
		w.end(err)
	}
	c.endPorts(err)
}
