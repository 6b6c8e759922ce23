package execclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/jsonrpc"
)

// errDown is the error of calls whose connection was closed before the answer.
var errDown = errors.New("exec-server transport closed")

// connection is one physical connection with its calls in flight. A reader and a writer belong
// to it, and end with the transport.
type connection struct {
	t    Transport
	out  chan []byte   // messages to send
	down chan struct{} // closed when the reader has ended
	why  error         // set before down is closed

	ctx    context.Context // ends when the connection is down
	cancel context.CancelFunc
	asked  chan struct{} // has an element for each unanswered request of the server

	broken chan error    // has the error of the writer
	wake   chan struct{} // wakes the writer for acks

	mu      sync.Mutex
	nextID  int64
	acks    map[string]uint64                   // to be sent: the newest of each process
	pending map[jsonrpc.ID]chan jsonrpc.Message // nil: the connection is down
}

// open starts a connection. Its reader calls lost once, when the connection is down.
func (c *Client) open(t Transport, lost func(*connection, error)) *connection {
	l := &connection{
		t: t, out: make(chan []byte, sendQueue), down: make(chan struct{}), wake: make(chan struct{}, 1), broken: make(chan error, 1),
		acks: make(map[string]uint64), pending: make(map[jsonrpc.ID]chan jsonrpc.Message), asked: make(chan struct{}, maxPolicyRequests),
	}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	c.wg.Go(func() {
		l.why = l.routineReader(c)
		l.fail()
		select {
		case l.why = <-l.broken: // the writer's error came first
		default:
		}
		lost(l, l.why)
		_ = t.Close()
	})
	c.wg.Go(l.routineWriter)
	return l
}

// routineReader handles messages until the connection ends.
func (l *connection) routineReader(c *Client) error {
	for {
		text, err := l.t.Read()
		if err != nil {
			return err
		}
		m, err := jsonrpc.Decode(text)
		if err != nil {
			return &protocolViolation{fmt.Errorf("malformed message: %w", err)}
		}
		switch m.Kind {
		case jsonrpc.Request:
			if err := c.request(l, m); err != nil {
				return err
			}
		case jsonrpc.Notification:
			known, err := c.tunnels.notification(c, l, m)
			if !known {
				err = c.notification(m)
			}
			if err != nil {
				return &badNotification{err}
			}
		default:
			l.answer(m)
		}
	}
}

// routineWriter sends queued messages. If one cannot be sent, it ends the connection, which
// the reader notices.
func (l *connection) routineWriter() {
	for {
		var err error
		select {
		case message := <-l.out:
			err = l.t.Write(message)
		case <-l.wake:
			err = l.writeAcks()
		case <-l.down:
			return
		}
		if err != nil {
			l.broken <- err
			_ = l.t.Close()
			return
		}
	}
}

// queueAck lets the writer send an acknowledgement. It replaces an unsent one for the same
// process.
func (l *connection) queueAck(a execproto.ProcessAck) {
	l.mu.Lock()
	l.acks[a.ProcessID] = max(l.acks[a.ProcessID], a.Seq)
	l.mu.Unlock()
	wait.Wake(l.wake)
}

func (l *connection) writeAcks() error {
	l.mu.Lock()
	acks := l.acks
	l.acks = make(map[string]uint64, len(acks))
	l.mu.Unlock()
	for id, seq := range acks {
		raw, err := encode(execproto.NotifyProcessAck, &execproto.ProcessAck{ProcessID: id, Seq: seq})
		if err == nil {
			err = l.t.Write(jsonrpc.AppendNotification(nil, execproto.NotifyProcessAck, raw))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer passes an answer to its call. Late answers are dropped.
func (l *connection) answer(m jsonrpc.Message) {
	l.mu.Lock()
	answer := l.pending[m.ID]
	delete(l.pending, m.ID)
	l.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// fail marks the connection as down. Its calls fail.
func (l *connection) fail() {
	l.mu.Lock()
	l.pending = nil
	l.mu.Unlock()
	l.cancel()
	close(l.down)
}

func (l *connection) isDown() bool {
	select {
	case <-l.down:
		return true
	default:
		return false
	}
}

// call makes a request and waits for its answer. An answer that has arrived is valid even if
// the connection has ended since then. The error is errDown if the connection ended before.
func (l *connection) call(ctx context.Context, method string, params []byte) (jsonrpc.Message, error) {
	return l.begin(ctx, method, params).wait(ctx)
}

// callUnderWay is a request whose answer is awaited.
type callUnderWay struct {
	l      *connection
	id     jsonrpc.ID
	method string
	answer chan jsonrpc.Message
	err    error // the error of sending it
}

// begin sends a request. Requests of one goroutine are sent in order. The caller must call
// wait.
func (l *connection) begin(ctx context.Context, method string, params []byte) *callUnderWay {
	u := &callUnderWay{l: l, method: method, answer: make(chan jsonrpc.Message, 1)}
	l.mu.Lock()
	if l.pending == nil {
		l.mu.Unlock()
		u.err = errDown
		return u
	}
	l.nextID++
	u.id = jsonrpc.IntID(l.nextID)
	l.pending[u.id] = u.answer
	l.mu.Unlock()
	u.err = l.send(ctx, jsonrpc.AppendRequest(make([]byte, 0, len(params)+len(method)+64), u.id, method, params))
	return u
}

// wait waits for the answer. An answer that is larger than the method permits is an error.
func (u *callUnderWay) wait(ctx context.Context) (jsonrpc.Message, error) {
	m, err := u.any(ctx)
	if n := len(m.Result); n > maxAnswer && u.method != execproto.MethodFSReadFile && u.method != execproto.MethodHTTPRequest {
		return jsonrpc.Message{}, fmt.Errorf("the server's answer to %s has %d bytes, and at most %d are accepted", u.method, n, maxAnswer)
	}
	return m, err
}

// any waits for an answer of any size.
func (u *callUnderWay) any(ctx context.Context) (jsonrpc.Message, error) {
	err := u.err
	if err == nil {
		select {
		case m := <-u.answer:
			return m, nil
		case <-u.l.down:
			err = errDown
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	u.l.mu.Lock()
	delete(u.l.pending, u.id)
	u.l.mu.Unlock()
	select {
	case m := <-u.answer:
		return m, nil
	default:
		return jsonrpc.Message{}, err
	}
}

// send queues a message.
func (l *connection) send(ctx context.Context, message []byte) error {
	select {
	case l.out <- message:
		return nil
	case <-l.down:
		return errDown
	case <-ctx.Done():
		return ctx.Err()
	}
}

// initialize makes the handshake. The reader already runs, because the output of a resumed
// session follows at once.
func (l *connection) initialize(ctx context.Context, o Options, params execproto.InitializeParams) (execproto.InitializeResult, error) {
	var info execproto.InitializeResult
	bound, cancel := context.WithTimeout(ctx, o.InitializeTimeout)
	defer cancel()
	raw, err := encode(execproto.MethodInitialize, &params)
	if err != nil {
		return info, err
	}
	m, err := l.call(bound, execproto.MethodInitialize, raw)
	if err == nil {
		err = decodeAnswer(execproto.MethodInitialize, m, &info)
	}
	if err == nil {
		err = l.send(bound, jsonrpc.AppendNotification(nil, execproto.NotifyInitialized, []byte(`{}`)))
	}
	var refused *ServerError
	if id := params.ResumeSessionID; id != nil && errors.As(err, &refused) {
		// A server may repeat the secret id in its error, which goes to logs and screens.
		refused.Message = strings.ReplaceAll(refused.Message, *id, digest.Of(*id))
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return info, &InitTimeoutError{o.InitializeTimeout}
	case err == nil && params.ResumeSessionID != nil && info.SessionID != *params.ResumeSessionID:
		return info, protocolf("exec-server initialized an unexpected session %s", digest.Of(info.SessionID))
	default:
		return info, err
	}
}

// protocolViolation is the error for a message that no conforming server sends. It is not
// shown to users as the reason for the end of the connection, because they cannot do anything
// about it.
type protocolViolation struct{ err error }

func (e *protocolViolation) Error() string { return e.err.Error() }

// badNotification is the error of a notification that cannot be decoded.
type badNotification struct{ err error }

func (e *badNotification) Error() string {
	return "exec-server notification handling failed: " + e.err.Error()
}
