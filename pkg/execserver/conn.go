package execserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/execserver/tunnels"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// handshake is the state of a connection's handshake (docs/spec/wire.md §3.1).
type handshake int

const (
	handshakeNew      handshake = iota // only initialize is allowed
	handshakeAnswered                  // initialize was answered
	handshakeDone                      // initialized was received
)

// conn is one connection: a reader (the goroutine of serve), a writer, and one goroutine per
// running request. It ends when its context ends, the client closes it, or the client breaks
// the protocol. serve returns when all its goroutines have returned.
//
// When you add a field, put it into its group.
type conn struct {
	// The owner of the connection. These fields never change.
	srv       *Server
	t         websocket.Transport
	principal string         // owns the sessions of the client: its user, token or key
	grant     wsauth.Grant   // what the client may do
	account   *share.Account // the connection's share of the server's resources
	build     string         // of the client, such as codex-remote/1.2.3; "": it is not known

	// These carry out requests and send answers.
	out   *outbox
	lanes *lanes
	// fileTurns determine which file requests run one after the other.
	fileTurns fileSequences

	// The handshake. Only the reader uses these, in initialize and notification. Exceptions:
	// any goroutine may use answered and, after it is closed, the fields that initialize has
	// set.
	handshake handshake
	client    string // the name that the client gives itself
	session   *session
	tunnels   *tunnels.Tunnels // those of the session; in a keeper, those of the connection
	log       *slog.Logger     // names the session after initialize
	// answered is closed after the answer to initialize: no notification about processes is
	// sent before.
	answered chan struct{}

	// The end. ctx is the context of all work of the connection. waits ends earlier, when the
	// client sends no more: it is for requests that only wait.
	ctx    context.Context
	cancel context.CancelCauseFunc
	waits  context.Context
	hangup context.CancelFunc
	// receiving is a lock that the reader holds while it handles a message. Once ctx has ended,
	// the reader handles no message.
	receiving sync.Mutex

	// Resources that requests have opened. serve closes them.
	files     *files.Files
	ports     portWatch
	streams   streamTable
	questions questions
}

// ending describes how a connection ends: the close code and reason for the client.
type ending struct {
	code   int
	reason string
	// lost means that the connection is broken and nothing can be sent.
	lost bool
	// closed means that the client closed the connection and reads no more.
	closed bool
}

// newConn prepares a connection of a client that ends with ctx. The caller closes the account after serve.
func newConn(ctx context.Context, srv *Server, t websocket.Transport, grant wsauth.Grant, account *share.Account) *conn {
	c := &conn{
		srv:       srv,
		t:         t,
		out:       newOutbox(t, srv.events),
		log:       named(srv.log.With("peer", t.Peer()), grant.Name()),
		principal: grant.OwnerOf(),
		grant:     grant,
		account:   account,
		answered:  make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(share.With(ctx, account))
	c.waits, c.hangup = context.WithCancel(c.ctx)
	c.lanes = newLanes(c.ctx, srv.opts.ConcurrentRequests, account, c.out.sendNow)
	c.files = srv.files.New(c.ctx, c)
	return c
}

// named adds the name of a principal to a log, if there is one.
func named(log *slog.Logger, principal string) *slog.Logger {
	if principal == "" {
		return log
	}
	return log.With("principal", shorten(principal))
}

// serve runs the connection until it ends.
func (c *conn) serve() {
	defer c.cancel(nil)
	var wg sync.WaitGroup
	wg.Go(c.out.routineWriter)
	wg.Go(c.routineInterrupt)
	if c.grant.Ends() {
		wg.Go(c.routineGrant)
	}
	c.log.Debug("connection opened")

	end := c.read()

	if !end.lost && !end.closed {
		// Requests that only wait get waitTime, running ones flushTime.
		waits := time.AfterFunc(waitTime, c.hangup)
		defer waits.Stop()
		flush, done := context.WithTimeout(c.ctx, flushTime)
		c.lanes.wait(flush)
		done()
	}
	c.hangup()
	c.detach()
	if c.ctx.Err() != nil {
		end = c.interruption()
	}
	c.close(end)
	c.cancel(nil)
	c.out.end()
	c.lanes.wg.Wait()
	c.files.Close()
	c.ports.watch.Close()
	c.closeOwnTunnels()
	wg.Wait()
	c.log.Debug("connection closed", "reason", end.reason)
}

// routineInterrupt closes the connection when its context ends, which ends the
// reader's ReadMessage.
func (c *conn) routineInterrupt() {
	<-c.ctx.Done()
	c.close(c.interruption())
}

// routineGrant ends the connection when the token of its client is no longer valid, even if the client has sent
// nothing yet (TestTokensEndConnections). The session ends first, so that the client is notified how its
// processes ended; a session that another token may resume is detached.
func (c *conn) routineGrant() {
	err := watchGrant(c.ctx, &c.grant)
	if err == nil {
		return
	}
	// c.log must not be used here, because the reader changes it.
	named(c.srv.log, c.grant.Name()).Warn("connection ends", "peer", c.t.Peer(), "token", c.grant.Token, "reason", err)
	if c.isGreeted() && !c.grant.Renewable {
		c.session.end(err.Error(), false)
		<-c.session.ctx.Done()
	}
	c.cancel(err)
}

// errTakenOver closes a connection whose session was resumed on another one.
var errTakenOver = errors.New("session was resumed on another connection")

// interruption returns how a connection ends whose context has ended.
func (c *conn) interruption() ending {
	cause := context.Cause(c.ctx)
	switch {
	case c.srv.ctx.Err() != nil:
		return ending{code: websocket.CloseGoingAway, reason: "the server is shutting down"}
	case errors.Is(cause, errTakenOver), errors.Is(cause, wsauth.ErrRevoked), errors.Is(cause, wsauth.ErrEnded):
		return ending{code: websocket.ClosePolicyViolation, reason: cause.Error()}
	default:
		return ending{lost: true, reason: cause.Error()}
	}
}

// close sends the queued messages and closes the connection.
func (c *conn) close(end ending) {
	if end.lost {
		_ = c.t.Abort()
		return
	}
	c.out.finish(flushTime, end.code, end.reason)
}

// evict closes the connection because another one takes its session. When it
// returns, the connection's requests are cancelled and it handles no further
// message.
func (c *conn) evict() {
	c.cancel(errTakenOver)
	c.receiving.Lock()
	defer c.receiving.Unlock()
}

// greeted waits until the answer to initialize is in the queue: the client learns its session
// from that answer. It returns false if ctx or the connection ends first.
func (c *conn) greeted(ctx context.Context) bool {
	select {
	case <-c.answered:
		return true
	case <-c.out.ended:
	case <-ctx.Done():
	}
	return false
}

// isGreeted reports whether initialize has been answered.
func (c *conn) isGreeted() bool {
	select {
	case <-c.answered:
		return true
	default:
		return false
	}
}

// suspended reports whether the client cannot be reached at the moment.
func (c *conn) suspended() bool {
	s, ok := c.t.(websocket.Suspender)
	return ok && s.Suspended()
}

// detach separates the connection from its session.
func (c *conn) detach() {
	if c.session != nil {
		c.session.detach(c)
	}
}

// read handles messages until the connection ends.
func (c *conn) read() ending {
	for {
		msg, err := c.t.ReadMessage()
		if err != nil {
			return c.readEnding(err)
		}
		c.srv.events.BytesMoved.Tell(observe.Bytes{Flow: observe.Received, N: len(msg.Bytes())})
		if end := c.receive(msg); end != nil {
			return *end
		}
	}
}

func (c *conn) readEnding(err error) ending {
	var large *websocket.TooLargeError
	switch {
	case errors.Is(err, io.EOF):
		return ending{code: websocket.CloseNormal, reason: "end of input"}
	case errors.Is(err, websocket.ErrClosed):
		return ending{code: websocket.CloseNormal, reason: "closed by the peer", closed: true}
	case errors.As(err, &large):
		c.srv.events.LimitReached.Tell(observe.LimitMessageBytes)
		return ending{code: websocket.CloseTooLarge, reason: large.Error() + "; write large files in blocks"}
	case errors.Is(err, errNoMemory):
		c.srv.events.LimitReached.Tell(observe.LimitMemory)
		return ending{code: websocket.CloseTryAgainLater, reason: err.Error()}
	case errors.Is(err, websocket.ErrSilent):
		c.log.Info("connection ended", "reason", err)
		return ending{lost: true, reason: err.Error()}
	default:
		return ending{lost: true, reason: err.Error()}
	}
}

// receive handles one message. If the message ends the connection, receive returns how it ends,
// else nil. The message is released here or by its request.
func (c *conn) receive(msg *websocket.Message) *ending {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	if c.ctx.Err() != nil {
		msg.Release()
		end := c.interruption()
		return &end
	}
	m, err := jsonrpc.Decode(msg.Bytes())
	if err != nil {
		end := c.malformed(msg, err)
		msg.Release()
		return end
	}
	switch m.Kind {
	case jsonrpc.Request:
		c.request(msg, m)
		return nil
	case jsonrpc.Notification:
		defer msg.Release()
		return c.notification(m)
	default:
		defer msg.Release()
		if !c.questions.answer(m) {
			return &ending{code: websocket.CloseProtocolError, reason: "a client must not send a response to a request that it did not get"}
		}
		return nil
	}
}

// malformed answers a text that is not a valid message (docs/spec/wire.md §2.3).
func (c *conn) malformed(msg *websocket.Message, err error) *ending {
	if msg.Text && !utf8.Valid(msg.Bytes()) {
		return &ending{code: websocket.CloseInvalidUTF8, reason: "a text frame must be UTF-8"}
	}
	from := "exec-server stdio"
	what := "JSON-RPC"
	if c.t.Peer() != "stdio" {
		from = "exec-server websocket " + c.t.Peer()
		what = "websocket JSON-RPC"
	}
	c.replyError(jsonrpc.IntID(-1), &jsonrpc.Error{
		Code:    execproto.CodeInvalidRequest,
		Message: fmt.Sprintf("failed to parse %s message from %s: %v", what, from, err),
	})
	return nil
}

// notification handles a notification of the client. Errors are answered with
// id -1.
func (c *conn) notification(m jsonrpc.Message) *ending {
	if m.Method == execproto.NotifyInitialized {
		if c.handshake == handshakeNew {
			return &ending{code: websocket.CloseProtocolError, reason: "initialized came before initialize"}
		}
		c.handshake = handshakeDone
		return nil
	}
	wrong := func(code int, text string) {
		c.replyError(jsonrpc.IntID(-1), &jsonrpc.Error{Code: code, Message: text})
	}
	spec, ok := notifications[m.Method]
	if !ok {
		wrong(execproto.CodeInvalidRequest, fmt.Sprintf("unexpected notification `%s`", shorten(m.Method)))
	} else if text := c.tooEarly(spec.family); text != "" {
		wrong(execproto.CodeInvalidRequest, text)
	} else if err := c.permit(m.Method); err != nil {
		c.forbidden(m.Method, err)
		wrong(execproto.CodeInvalidRequest, err.Error())
	} else if err := spec.handle(c, m.Params); err != nil {
		wrong(execproto.CodeInvalidParams, fmt.Sprintf("notification `%s`: %v", m.Method, err))
	}
	return nil
}

// tooEarly returns an error text if the handshake does not allow methods of the
// family yet, else "".
func (c *conn) tooEarly(family string) string {
	what := "call initialize"
	switch {
	case family == "" || c.handshake == handshakeDone:
		return ""
	case c.handshake == handshakeAnswered:
		what = "send initialized"
	}
	return fmt.Sprintf("client must %s before using %s methods", what, family)
}

// replyError sends an error response. If the connection has ended, it is
// dropped.
func (c *conn) replyError(id jsonrpc.ID, e *jsonrpc.Error) {
	_ = c.out.send(c.ctx, func(b []byte) []byte { return jsonrpc.AppendError(b, id, e) })
}

// shorten clips a text of a client for an error or the log.
func shorten(s string) string { return observe.Short(s) }
