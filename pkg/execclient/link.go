package execclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/logtext"
)

// errDown is what calls on a link return that ended before their answer came.
var errDown = errors.New("exec-server transport closed")

// link is one physical connection with the calls in flight on it. A reader and
// a writer belong to it; they end with the transport.
type connection struct {
	t    Transport
	out  chan []byte   // to be sent
	down chan struct{} // closed when the reader has seen the end
	why  error         // once down

	ctx    context.Context // ends when the connection is down
	cancel context.CancelFunc
	asked  chan struct{} // holds an element for each request of the server without an answer

	broken chan error    // why nothing can be sent any more
	wake   chan struct{} // tells the writer of acks

	mu      sync.Mutex
	nextID  int64
	acks    map[string]uint64                   // to be sent: the newest of each process
	pending map[jsonrpc.ID]chan jsonrpc.Message // nil: down
}

// open starts a link. Lost is called once, by the reader, when it is down.
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
		case l.why = <-l.broken: // that came first
		default:
		}
		lost(l, l.why)
		_ = t.Close()
	})
	c.wg.Go(l.routineWriter)
	return l
}

// routineReader takes messages until the connection ends.
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

// routineWriter sends what is queued. A message that cannot be sent ends the
// connection: the reader sees that.
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

// queueAck has the writer send an acknowledgement. A newer one for the same process
// replaces one that has not been sent yet.
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

// answer hands an answer to its call. Late ones are dropped.
func (l *connection) answer(m jsonrpc.Message) {
	l.mu.Lock()
	answer := l.pending[m.ID]
	delete(l.pending, m.ID)
	l.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// fail marks the link as down, whose calls fail with that.
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

// call makes a request and waits for its answer, which counts also if the
// link has ended since. The error is errDown if it ended before.
func (l *connection) call(ctx context.Context, method string, params []byte) (jsonrpc.Message, error) {
	return l.begin(ctx, method, params).wait(ctx)
}

// callUnderWay is a request that was made.
type callUnderWay struct {
	l      *connection
	id     jsonrpc.ID
	answer chan jsonrpc.Message
	err    error // of making it
}

// begin makes a request. Those that one goroutine begins are sent in their order. The
// caller waits for the answer.
func (l *connection) begin(ctx context.Context, method string, params []byte) *callUnderWay {
	u := &callUnderWay{l: l, answer: make(chan jsonrpc.Message, 1)}
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

// wait waits for the answer.
func (u *callUnderWay) wait(ctx context.Context) (jsonrpc.Message, error) {
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

// initialize makes the handshake. The reader runs already: a resumed session
// sends its output at once.
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
		// A server may repeat the id, and errors go to logs and screens.
		refused.Message = strings.ReplaceAll(refused.Message, *id, logtext.Digest(*id))
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return info, &InitTimeoutError{o.InitializeTimeout}
	case err == nil && params.ResumeSessionID != nil && info.SessionID != *params.ResumeSessionID:
		return info, protocolf("exec-server initialized an unexpected session %s", logtext.Digest(info.SessionID))
	default:
		return info, err
	}
}

// protocolViolation is the error for a message that no conforming server sends. The
// text for the user does not have it as the reason for the end of the connection, as
// the user cannot do anything about it.
type protocolViolation struct{ err error }

func (e *protocolViolation) Error() string { return e.err.Error() }

// badNotification is a notification that could not be understood.
type badNotification struct{ err error }

func (e *badNotification) Error() string {
	return "exec-server notification handling failed: " + e.err.Error()
}
