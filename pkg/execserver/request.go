//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// request is one request from its arrival to its answer. Its handler runs on
// the connection's reader and must not block: it answers at once, or passes a
// function to work, wait or control. The handler, or that function, must call
// exactly one of result, respond, stream, empty, finish and fail.
type request struct {
	c      *conn
	id     jsonrpc.ID
	method string
	msg    *websocket.Message // holds the params; released with the answer
	params []byte             // the JSON text; aliases msg
}

// appender is a result that encodes itself.
type appender interface {
	AppendJSON(b []byte) []byte
}

// work runs f in the ordinary lane, after the earlier requests of the same
// key if there is one.
func (rq *request) work(key string, f func(context.Context)) {
	rq.run(laneOrdinary, key, f)
}

// control runs f as work does, but in the control lane, which never waits behind
// ordinary requests.
func (rq *request) control(key string, f func(context.Context)) {
	rq.run(laneControl, key, f)
}

func (rq *request) run(lane laneID, key string, f func(context.Context)) {
	ctx := rq.c.ctx
	wait, leave := func(context.Context) {}, func() {}
	if key != "" {
		wait, leave = rq.c.order.enter(key)
	}
	ok := rq.c.lanes.submit(ctx, lane, job{bytes: rq.size(), run: func() {
		defer leave()
		wait(ctx)
		f(ctx)
	}})
	if !ok {
		leave()
		rq.release()
	}
}

// park counts the request among those that only wait, until unpark. It returns
// false if it has refused the request.
func (rq *request) park() bool {
	if rq.c.lanes.park(rq.c.waits, rq.size()) {
		return true
	}
	rq.fail(invalid("too many requests of this connection are waiting; wait for answers before sending more"))
	return false
}

func (rq *request) unpark(size int) { rq.c.lanes.unpark(size) }

// wait runs f, which waits for an event or another server, in a goroutine of its
// own. Its context ends when the client sends nothing more. wait returns false
// if it has refused the request instead.
func (rq *request) wait(f func(context.Context)) bool {
	if !rq.park() {
		return false
	}
	size := rq.size()
	rq.c.lanes.wg.Go(func() {
		defer rq.unpark(size)
		f(rq.c.waits)
	})
	return true
}

// size is the size of the request's message.
func (rq *request) size() int { return len(rq.msg.Bytes()) }

// release returns the message's buffer to its pool. The params are invalid
// afterwards.
func (rq *request) release() {
	if rq.msg == nil {
		return
	}
	if rq.size() >= releaseAbove {
		rq.c.srv.memory.used()
	}
	rq.msg.Release()
	rq.msg = nil
}

// respond answers with the result that encode appends. If the connection has
// ended, the answer is dropped.
func (rq *request) respond(encode func(b []byte) []byte) {
	rq.release()
	_ = rq.c.out.send(rq.c.ctx, func(b []byte) []byte {
		return append(encode(jsonrpc.AppendResultHeader(b, rq.id)), '}')
	})
}

// result answers with a result.
func (rq *request) result(r appender) { rq.respond(r.AppendJSON) }

// empty answers {}.
func (rq *request) empty() {
	rq.respond(func(b []byte) []byte { return append(b, '{', '}') })
}

// finish answers {} or with the error.
func (rq *request) finish(err error) {
	if err != nil {
		rq.fail(err)
		return
	}
	rq.empty()
}

// fail answers with an error.
func (rq *request) fail(err error) {
	e := toRPC(err)
	rq.c.log.Debug("request failed", "method", shorten(rq.method), "code", e.Code)
	rq.release()
	rq.c.replyError(rq.id, e)
}

// stream answers with the result head + base64 of the data of next + tail, sent
// in parts. An error of next closes the connection, because the answer has begun.
func (rq *request) stream(head string, next source, tail string) {
	rq.release()
	begin := append(jsonrpc.AppendResultHeader(nil, rq.id), head...)
	err := rq.c.out.sendLarge(rq.c.ctx, begin, next, append([]byte(tail), '}'))
	if err == nil || errors.Is(err, errEnded) || errors.Is(err, context.Canceled) {
		return
	}
	rq.c.log.Warn("connection ended in the middle of an answer", "method", rq.method, "error", err)
	_ = rq.c.t.Abort()
}

// bytesSource yields data that is in memory.
func bytesSource(data []byte) source {
	return func([]byte) ([]byte, error) {
		piece := data[:min(len(data), fileChunk)]
		data = data[len(piece):]
		if len(data) == 0 {
			return piece, io.EOF
		}
		return piece, nil
	}
}

// method is how requests of one method are handled.
type method struct {
	// family is the name of the method's group in the errors of the handshake;
	// a method without a family needs no handshake.
	family string
	// prepare decodes the params and returns the function that carries out the
	// request, on the connection's reader. An error is one of the params.
	prepare func(rq *request, params []byte) (run func(), err error)
}

// handle makes a method of a decoder and a handler.
func handle[P any](family string, decode func([]byte) (P, error), h func(rq *request, p *P)) method {
	return method{family: family, prepare: func(rq *request, params []byte) (func(), error) {
		rq.params = params
		p, err := decode(params)
		if err != nil {
			return nil, err
		}
		return func() { h(rq, &p) }, nil
	}}
}

// notification is how one notification of a client is handled.
type notification struct {
	// family is as in method.
	family string
	// handle decodes the params and carries out the notification. An error is
	// one of the params. It runs on the connection's reader and must not block.
	handle func(c *conn, params []byte) error
}

// notify makes a notification of a decoder and a handler.
func notify[P any](family string, decode func([]byte) (P, error), h func(c *conn, p *P)) notification {
	return notification{family: family, handle: func(c *conn, params []byte) error {
		p, err := decode(params)
		if err == nil {
			h(c, &p)
		}
		return err
	}}
}

// handleEmpty is handle for methods without params.
func handleEmpty(family string, h func(rq *request)) method {
	return method{family: family, prepare: func(rq *request, params []byte) (func(), error) {
		if err := execproto.DecodeEmpty(params); err != nil {
			return nil, err
		}
		return func() { h(rq) }, nil
	}}
}
