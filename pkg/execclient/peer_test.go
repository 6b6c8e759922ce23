package execclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

// peer is the server's end of a connection, played by the test.
type peer struct {
	t    *testing.T
	in   chan []byte // messages from the client
	out  chan []byte // messages to the client
	down chan struct{}
	once sync.Once
}

func (p *peer) cut() { p.once.Do(func() { close(p.down) }) }

// end is the client's end.
type end struct{ *peer }

func (e end) Read() ([]byte, error) {
	select {
	case m := <-e.out:
		return m, nil
	default:
	}
	select {
	case m := <-e.out:
		return m, nil
	case <-e.down:
		return nil, io.EOF
	}
}

func (e end) Write(m []byte) error {
	select {
	case e.in <- append([]byte(nil), m...):
		return nil
	case <-e.down:
		return io.ErrClosedPipe
	}
}

func (e end) Close() error {
	e.cut()
	return nil
}

// host makes connections, or refuses them.
type host struct {
	t      *testing.T
	peers  chan *peer
	mu     sync.Mutex
	refuse error
	dials  int
}

func newHost(t *testing.T) *host { return &host{t: t, peers: make(chan *peer, 16)} }

func (h *host) Dial(ctx context.Context) (Transport, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	if h.refuse != nil {
		return nil, h.refuse
	}
	p := &peer{t: h.t, in: make(chan []byte, 64), out: make(chan []byte, 64), down: make(chan struct{})}
	h.peers <- p
	return end{p}, ctx.Err()
}

func (h *host) refuses(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = err
}

// expect receives the next message from the client, which must have that method.
func (p *peer) expect(method string, params execproto.Object) jsonrpc.Message {
	p.t.Helper()
	text, ok := <-p.in
	if !ok {
		p.t.Fatalf("no %s came", method)
	}
	m, err := jsonrpc.Decode(text)
	if err != nil || m.Method != method {
		p.t.Fatalf("%s came, not %s (%v)", text, method, err)
	}
	if params != nil {
		must(p.t, execproto.DecodeTo(m.Params, params))
	}
	return m
}

// testSession is the session of every peer. A client that has the id can
// resume it, so errors show only its digest.
const testSession = "0190-f00d"

// appender is a result that can be encoded.
type appender interface{ AppendJSON(b []byte) []byte }

func (p *peer) answer(m jsonrpc.Message, result appender) {
	p.out <- append(result.AppendJSON(jsonrpc.AppendResultHeader(nil, m.ID)), '}')
}

func (p *peer) refuse(m jsonrpc.Message, code int, text string) {
	p.out <- jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: text})
}

// greet makes the handshake, and returns the client's params of initialize.
func (p *peer) greet(extensions ...string) execproto.InitializeParams {
	p.t.Helper()
	var params execproto.InitializeParams
	m := p.expect("initialize", &params)
	p.answer(m, execproto.InitializeResult{SessionID: testSession, Extensions: extensions})
	p.expect("initialized", nil)
	return params
}

func (p *peer) output(id string, seq uint64, text string) {
	p.out <- execproto.AppendOutput(nil, id, seq, execproto.Stdout, []byte(text))
}

func (p *peer) exited(id string, seq uint64, code int) {
	p.out <- execproto.Notify(&execproto.ExitedNotification{ProcessID: id, Seq: seq, ExitCode: code})(nil)
}

func (p *peer) closed(id string, seq uint64) {
	p.out <- execproto.Notify(&execproto.ClosedNotification{ProcessID: id, Seq: seq})(nil)
}

// join returns a client of the host and the peer of its first connection.
func (h *host) join(o Options, extensions ...string) (*Client, *peer) {
	h.t.Helper()
	var greeting sync.WaitGroup
	var p *peer
	greeting.Go(func() {
		p = <-h.peers
		p.greet(extensions...)
	})
	c, err := Dial(h.t.Context(), h, o)
	greeting.Wait()
	must(h.t, err)
	return c, p
}

// run starts a process, which the peer accepts.
func (p *peer) run(c *Client, id string) *Process {
	p.t.Helper()
	var starting sync.WaitGroup
	starting.Go(func() { p.answer(p.expect("process/start", nil), execproto.StartResult{ProcessID: id}) })
	proc, err := c.Start(p.t.Context(), execproto.StartParams{ProcessID: id, Argv: []string{"x"}, Cwd: "/"})
	starting.Wait()
	must(p.t, err)
	return proc
}

var errRefused = &DialError{URL: "ws://test", Err: errors.New("refused")}

func decode(t *testing.T, text []byte) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Decode(text)
	must(t, err)
	return m
}

// expectLater is expect for another goroutine than the test's.
func (p *peer) expectLater(method string) jsonrpc.Message {
	m, err := jsonrpc.Decode(<-p.in)
	if err != nil || m.Method != method {
		p.t.Errorf("%+v came, not %s (%v)", m, method, err)
	}
	return m
}
