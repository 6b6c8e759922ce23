// Package execclient is a client of exec-servers: it connects, starts
// processes and follows their output, and reads and writes files.
//
//	client, err := execclient.DialWebSocket(ctx, "ws://127.0.0.1:8765", execclient.Options{})
//	...
//	defer client.Close()
//	p, err := client.Start(ctx, execproto.StartParams{ProcessID: "1", Argv: []string{"uname"}, Cwd: "file:///", Env: env})
//	...
//	code, err := p.Stream(ctx, os.Stdout, os.Stderr)
//
// It speaks to codex's own servers too; what those lack is told by
// Client.Has.
package execclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/jsonrpc"
)

// Options configure a client; the zero value has every default.
type Options struct {
	ClientName        string        // default DefaultClientName
	ConnectTimeout    time.Duration // default DefaultConnectTimeout
	InitializeTimeout time.Duration // default DefaultInitializeTimeout
	// ResumeSessionID attaches to a session whose connection was lost.
	ResumeSessionID string
	// BearerToken is sent to servers that guard their port. Over plain ws it
	// is sent to loopback addresses only.
	BearerToken string
	Logger      *slog.Logger // nil: no log
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// State is how a client is doing.
type State int

// The states of a client. A client that can recover its session, which is
// not built yet, would be Recovering in between.
const (
	Connected State = iota + 1
	Recovering
	Failed
)

// Client is a connection to an exec-server with the session that it has
// there. Its methods may be called from any goroutine. One goroutine reads
// the connection; it ends with Close or when the connection breaks.
type Client struct {
	t    Transport
	log  *slog.Logger
	info execproto.InitializeResult
	done chan struct{} // closed when failed
	read chan struct{} // closed when the reader has ended

	write sync.Mutex // held while a message is sent

	mu      sync.Mutex
	nextID  int64
	pending map[jsonrpc.ID]chan jsonrpc.Message
	procs   map[string]*Process
	err     error // why it failed
	closing bool
}

// DialWebSocket connects to a server at a ws:// or wss:// URL.
func DialWebSocket(ctx context.Context, url string, o Options) (*Client, error) {
	o = o.withDefaults()
	t, err := dialWebSocket(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return NewClient(ctx, t, o)
}

// StartCommand starts a server as a command and speaks to it over its stdin
// and stdout. Close ends the command.
func StartCommand(ctx context.Context, c Command, o Options) (*Client, error) {
	t, err := startCommand(c)
	if err != nil {
		return nil, err
	}
	return NewClient(ctx, t, o)
}

// NewClient opens a session over a transport, which it closes in the end,
// also when it fails.
func NewClient(ctx context.Context, t Transport, o Options) (*Client, error) {
	o = o.withDefaults()
	c := &Client{
		t: t, log: o.Logger, done: make(chan struct{}), read: make(chan struct{}),
		pending: make(map[jsonrpc.ID]chan jsonrpc.Message), procs: make(map[string]*Process),
	}
	go c.routineReader()
	if err := c.initialize(ctx, o); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// initialize makes the handshake. The reader runs already: a resumed session
// sends its output at once.
func (c *Client) initialize(ctx context.Context, o Options) error {
	bound, cancel := context.WithTimeout(ctx, o.InitializeTimeout)
	defer cancel()
	params := execproto.InitializeParams{ClientName: o.ClientName}
	if o.ResumeSessionID != "" {
		params.ResumeSessionID = &o.ResumeSessionID
	}
	err := c.Call(bound, execproto.MethodInitialize, params, &c.info)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("timed out waiting for exec-server initialize handshake after %v", o.InitializeTimeout)
	case err != nil:
		return err
	case o.ResumeSessionID != "" && c.info.SessionID != o.ResumeSessionID:
		return protocolf("exec-server initialized an unexpected session %s", c.info.SessionID)
	}
	return c.send(jsonrpc.AppendNotification(nil, execproto.NotifyInitialized, []byte(`{}`)))
}

// SessionID returns the session's id, for Options.ResumeSessionID.
func (c *Client) SessionID() string { return c.info.SessionID }

// Has reports whether the server said that it knows a method beyond the base
// protocol.
func (c *Client) Has(method string) bool { return slices.Contains(c.info.Extensions, method) }

// Capabilities returns what the server said it can do.
func (c *Client) Capabilities() execproto.Capabilities {
	if c.info.EnvironmentInfo == nil {
		return execproto.Capabilities{}
	}
	return c.info.EnvironmentInfo.Capabilities
}

// State returns how the client is doing.
func (c *Client) State() State {
	if c.Err() != nil {
		return Failed
	}
	return Connected
}

// Err returns why the client failed; nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the client has failed or was closed.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for the client's goroutine.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.fail(ErrClosed)
	err := c.t.Close()
	<-c.read
	return err
}

// EnvironmentInfo asks about the server's machine.
func (c *Client) EnvironmentInfo(ctx context.Context) (execproto.EnvironmentInfo, error) {
	var info execproto.EnvironmentInfo
	err := c.Call(ctx, execproto.MethodEnvironmentInfo, nil, &info)
	return info, err
}

// DoHTTP has the server make an HTTP request and returns the whole answer.
func (c *Client) DoHTTP(ctx context.Context, p execproto.HTTPRequestParams) (execproto.HTTPRequestResult, error) {
	var r execproto.HTTPRequestResult
	p.StreamResponse = false
	if p.Headers == nil {
		p.Headers = []execproto.HTTPHeader{}
	}
	err := c.Call(ctx, execproto.MethodHTTPRequest, p, &r)
	return r, err
}

// Call makes a request and decodes its result. A context that ends abandons
// the answer; the server is not told. Errors of the server are *ServerError.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	var raw []byte
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return fmt.Errorf("encode the params of %s: %w", method, err)
		}
	}
	answer := make(chan jsonrpc.Message, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.nextID++
	id := jsonrpc.IntID(c.nextID)
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err := c.send(jsonrpc.AppendRequest(make([]byte, 0, len(raw)+len(method)+64), id, method, raw)); err != nil {
		return err
	}
	select {
	case m := <-answer:
		return decodeAnswer(method, m, result)
	case <-c.done:
		// An answer that was read before the end counts.
		select {
		case m := <-answer:
			return decodeAnswer(method, m, result)
		default:
			return c.Err()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func decodeAnswer(method string, m jsonrpc.Message, result any) error {
	if m.Kind == jsonrpc.ErrorResponse {
		return &ServerError{Method: method, Code: m.Err.Code, Message: m.Err.Message}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("failed to decode the result of %s: %w", method, err)
	}
	return nil
}

func (c *Client) send(message []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.t.Write(message); err != nil {
		if known := c.Err(); known != nil {
			return known
		}
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil
}

// routineReader takes messages until the connection ends.
func (c *Client) routineReader() {
	defer close(c.read)
	for {
		text, err := c.t.Read()
		if err == nil {
			err = c.receive(text)
		}
		if err != nil {
			c.fail(disconnected(err))
			return
		}
	}
}

func disconnected(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("exec-server transport disconnected")
	}
	return fmt.Errorf("exec-server transport disconnected: %w", err)
}

// receive handles one message; an error ends the connection.
func (c *Client) receive(text []byte) error {
	m, err := jsonrpc.Decode(text)
	if err != nil {
		return fmt.Errorf("malformed message: %w", err)
	}
	switch m.Kind {
	case jsonrpc.Request:
		return fmt.Errorf("the server sent a request, %s", m.Method)
	case jsonrpc.Notification:
		if err := c.notification(m); err != nil {
			return fmt.Errorf("exec-server notification handling failed: %w", err)
		}
		return nil
	default:
		c.mu.Lock()
		answer := c.pending[m.ID]
		delete(c.pending, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
		return nil
	}
}

// notification hands an event to its process. Unknown ones are for clients
// that know more.
func (c *Client) notification(m jsonrpc.Message) error {
	var id string
	var e Event
	switch m.Method {
	case execproto.NotifyProcessOutput:
		n, err := execproto.DecodeOutputNotification(m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{Seq: n.Seq, Kind: Output, Stream: n.Stream, Data: n.Chunk}
	case execproto.NotifyProcessExited:
		n, err := execproto.DecodeExitedNotification(m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{Seq: n.Seq, Kind: Exited, ExitCode: n.ExitCode, SandboxDenied: n.SandboxDenied}
	case execproto.NotifyProcessClosed:
		n, err := execproto.DecodeClosedNotification(m.Params)
		if err != nil {
			return err
		}
		id, e = n.ProcessID, Event{Seq: n.Seq, Kind: Closed}
	default:
		return nil
	}
	c.mu.Lock()
	p := c.procs[id]
	c.mu.Unlock()
	if p != nil && p.receive(e) {
		c.forget(p)
	}
	return nil
}

// forget stops routing events to a process.
func (c *Client) forget(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[p.id] == p {
		delete(c.procs, p.id)
	}
}

// fail ends the client for good. Everything that waits is told why.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if c.closing {
		err = ErrClosed
	}
	c.err = err
	procs := c.procs
	c.procs = make(map[string]*Process)
	close(c.done)
	c.mu.Unlock()
	for _, p := range procs {
		p.fail(err)
	}
}
