package execserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// row describes how the requests of one method are carried out: a line of the table of methods
// (methods.go). The constructors of rows are plain, bySequence, byProcess and, for a method of
// which a part runs on the reader, admitted.
type row struct {
	// family is the name of the method's group in the errors of the handshake. A method without
	// a family needs no handshake.
	family string
	// lane is where the request runs.
	lane laneID
	// decode decodes the params. Its error is one of the params.
	decode func(params []byte) (admission, error)
}

// admission accepts a decoded request: it gives the request its turn, and registers names that
// later requests may use. It runs on the connection's reader and must not block. If it returns
// an error, the error is the answer.
type admission func(c *conn) (call, error)

// call is an accepted request.
type call struct {
	// turn is the request's position among the requests about the same object; nil: the request
	// has no sequence.
	turn *turn
	// run carries out the request, in its lane and after its turn has come.
	run func(ctx context.Context) (reply.Result, error)
	// waits makes the request run in laneWaiting, even if its row has another lane.
	waits bool
	// slow makes the request count as slow from its beginning (see lanes).
	slow bool
	// drop, if set, is called instead of run if the request never runs.
	drop func()
}

// admitted returns the row of a method whose requests are accepted on the reader by admit.
func admitted[P any](family string, lane laneID, decode func([]byte) (P, error), admit func(c *conn, p *P) (call, error)) row {
	return row{family: family, lane: lane, decode: func(params []byte) (admission, error) {
		p, err := decode(params)
		if err != nil {
			return nil, err
		}
		return func(c *conn) (call, error) { return admit(c, &p) }, nil
	}}
}

// plain returns the row of a method whose requests have no order. The params of handle may
// alias the request's message. They are valid until handle returns or, with a pending result,
// until that result is complete. The result must not refer to them.
func plain[P any](
	family string, lane laneID, decode func([]byte) (P, error), handle func(ctx context.Context, c *conn, p *P) (reply.Result, error),
) row {
	return admitted(family, lane, decode, func(c *conn, p *P) (call, error) {
		return call{run: func(ctx context.Context) (reply.Result, error) { return handle(ctx, c, p) }}, nil
	})
}

// bySequence is plain for a method about a file handle or a watch: requests about the same
// object run one after the other. id returns the id of the object.
func bySequence[P any](
	lane laneID, sequence func(*conn) *sequence, decode func([]byte) (P, error), id func(*P) string,
	answer func(f *files.Files, ctx context.Context, p *P) (reply.Result, error),
) row {
	return admitted(familyFilesystem, lane, decode, func(c *conn, p *P) (call, error) {
		return call{
			turn: sequence(c).enter(id(p)),
			run:  func(ctx context.Context) (reply.Result, error) { return answer(c.files, ctx, p) },
		}, nil
	})
}

// byProcess is plain for a method about a process. A request takes effect after the earlier
// requests about the same process, including its start. handle gets the running process, or nil
// if no process has that id or the process did not start. handle must not block, because it
// usually runs on the reader. detached makes the call for a detached process.
func byProcess[P any](
	decode func([]byte) (P, error), id func(*P) string,
	handle func(p *proc, params *P) (reply.Result, error), detached func(c *conn, params *P) (call, error),
) row {
	return admitted(familyExec, laneReader, decode, func(c *conn, params *P) (call, error) {
		if c.isDetached(id(params)) {
			return detached(c, params)
		}
		return orderedCall(c, id(params), func(p *proc) (reply.Result, error) { return handle(p, params) }), nil
	})
}

// orderedCall returns a call that runs handle after the earlier requests about
// the process with that id. handle gets nil if the process does not exist or
// did not start.
func orderedCall(c *conn, id string, handle func(p *proc) (reply.Result, error)) call {
	p := c.session.find(id)
	if p == nil {
		return call{run: func(context.Context) (reply.Result, error) { return handle(nil) }}
	}
	return call{
		turn: c.session.sequence.enter(p.id),
		run: func(context.Context) (reply.Result, error) {
			// The start holds its turn until it has ended.
			if <-p.started; p.running == nil {
				return handle(nil)
			}
			return handle(p)
		},
	}
}

// empty makes a decoder for a method without params.
func empty(params []byte) (struct{}, error) { return struct{}{}, execproto.DecodeEmpty(params) }

// request is one request from its arrival to its answer.
type request struct {
	c      *conn
	id     jsonrpc.ID
	method string
	msg    *websocket.Message // has the params; released with the answer
	parked int                // the size of the message, if the request is one that only waits
	seen   observe.Request
}

// request carries out a request or refuses it.
func (c *conn) request(msg *websocket.Message, m jsonrpc.Message) {
	rq := &request{c: c, id: m.ID, method: m.Method, msg: msg, seen: observe.Request{Principal: c.grant.Name(), Method: m.Method, Arrived: time.Now(), Trace: m.Trace}}
	if c.session != nil {
		c.session.requests.Add(1)
	}
	if _, ok := methods[m.Method]; !ok {
		rq.seen.Method = observe.UnknownMethod
	}
	c.srv.events.RequestArrived.Tell(&rq.seen)
	lane, cl, err := rq.admit(m.Params)
	if err != nil {
		rq.fail(err)
		return
	}
	switch {
	case lane == laneReader && cl.turn == nil:
		rq.run(c.ctx, cl)
	case lane == laneReader || lane == laneWaiting:
		c.wait(rq, lane, cl)
	case !c.lanes.submit(c.ctx, lane, job{bytes: rq.size(), slow: cl.slow, run: func() { rq.run(c.ctx, cl) }}):
		c.drop(cl)
		rq.abandon()
	}
}

// wait carries out a request that only waits, and therefore takes no slot. It refuses the
// request if too many are waiting.
func (c *conn) wait(rq *request, lane laneID, cl call) {
	if !rq.park() {
		c.drop(cl)
		c.srv.events.LimitReached.Tell(observe.LimitWaiting)
		rq.fail(execproto.InvalidRequest("too many requests of this connection are waiting; wait for answers before sending more"))
		return
	}
	switch {
	case lane == laneWaiting:
		c.lanes.wg.Go(func() { rq.run(c.waits, cl) })
	case cl.turn.ready():
		rq.run(c.ctx, cl)
	default:
		c.lanes.wg.Go(func() { rq.run(c.ctx, cl) })
	}
}

// admit finds the row of the request, decodes the params, checks the handshake and calls the
// admission.
func (rq *request) admit(params []byte) (laneID, call, error) {
	row, ok := methods[rq.method]
	if !ok {
		return 0, call{}, &jsonrpc.Error{
			Code:    execproto.CodeMethodNotFound,
			Message: fmt.Sprintf("exec-server does not implement `%s`", shorten(rq.method)),
		}
	}
	if err := rq.c.permit(rq.method); err != nil {
		return 0, call{}, err
	}
	admit, err := row.decode(params)
	if err != nil {
		return 0, call{}, execproto.InvalidParams(err.Error())
	}
	if text := rq.c.tooEarly(row.family); text != "" {
		return 0, call{}, execproto.InvalidRequest(text)
	}
	cl, err := admit(rq.c)
	if cl.waits {
		return laneWaiting, cl, err
	}
	return row.lane, cl, err
}

// run waits for the request's turn, carries out the request and answers it. The turn ends with
// the answer; with a pending result, it ends before the answer.
func (rq *request) run(ctx context.Context, cl call) {
	cl.turn.wait()
	rq.c.srv.events.RequestRuns.Tell(&rq.seen)
	r, err := cl.run(rq.seen.Context(ctx))
	if later, ok := r.(reply.Pending); ok {
		later(rq.answer)
	} else {
		rq.answer(r, err)
	}
	cl.turn.leave()
}

// drop ends a call that never runs.
func (c *conn) drop(cl call) {
	if cl.drop != nil {
		cl.drop()
	}
	if cl.turn != nil {
		// The turn must not end before the earlier requests have ended.
		c.lanes.wg.Go(func() {
			cl.turn.wait()
			cl.turn.leave()
		})
	}
}

// park counts the request as one that only waits, until its answer. It returns false if there
// are too many of them.
func (rq *request) park() bool {
	size := rq.size()
	if !rq.c.lanes.park(rq.c.waits, size) {
		return false
	}
	rq.parked = size
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
	rq.c.srv.movesBytes(int64(rq.size()))
	rq.msg.Release()
	rq.msg = nil
}

// answer sends a result, or an error if err is not nil. If the connection has ended, it drops
// the answer.
//
// A request that was cancelled because the connection ends gets no answer, even if the connection could still send
// one. Scenario: the server shuts down while codex remote logs -f waits for output. An error would be
// the end of the request for the client; without an answer the client connects again and repeats the request.
func (rq *request) answer(r reply.Result, err error) {
	switch {
	case errors.Is(err, context.Canceled) && rq.c.ctx.Err() != nil:
		rq.abandon()
	case err != nil:
		rq.fail(err)
	default:
		rq.release()
		rq.c.srv.events.RequestDone.Tell(observe.RequestEnd{Request: &rq.seen})
		rq.send(r)
	}
	if rq.parked > 0 {
		rq.c.lanes.unpark(rq.parked)
	}
}

// abandon ends the request without an answer.
func (rq *request) abandon() {
	rq.release()
	rq.c.srv.events.RequestDone.Tell(observe.RequestEnd{Request: &rq.seen, Err: errEnded, Unanswered: true})
}

// send sends a result.
func (rq *request) send(r reply.Result) {
	switch r := r.(type) {
	case reply.Followed:
		rq.send(r.Result)
		if r.Sent {
			rq.c.out.drain(rq.c.ctx)
		}
		r.Then()
	case reply.Large:
		rq.stream(r)
	default:
		_ = rq.c.out.send(rq.c.ctx, func(b []byte) []byte {
			return append(r.AppendJSON(jsonrpc.AppendResultHeader(b, rq.id)), '}')
		})
	}
}

// stream sends a result in parts. If its source returns an error, stream closes the connection,
// because a part of the answer was already sent.
func (rq *request) stream(r reply.Large) {
	begin := append(jsonrpc.AppendResultHeader(nil, rq.id), r.Head...)
	err := rq.c.out.sendLarge(rq.c.ctx, begin, r.Data, append([]byte(r.Tail), '}'))
	if err == nil || errors.Is(err, errEnded) || errors.Is(err, context.Canceled) {
		return
	}
	rq.c.log.Warn("connection ended in the middle of an answer", "method", rq.method, "error", err)
	_ = rq.c.t.Abort()
}

// fail answers with an error.
func (rq *request) fail(err error) {
	e := toRPC(err)
	if at, ok := errors.AsType[*observe.LimitError](err); ok {
		rq.c.srv.events.LimitReached.Tell(at.Limit)
	}
	rq.c.forbidden(rq.method, err)
	rq.c.log.Debug("request failed", "method", shorten(rq.method), "code", e.Code)
	rq.release()
	rq.c.srv.events.RequestDone.Tell(observe.RequestEnd{Request: &rq.seen, Err: e})
	rq.c.replyError(rq.id, e)
}

// notification describes how a notification of a client is handled.
type notification struct {
	// family is as in row.
	family string
	// handle decodes the params and carries out the notification. Its error is one of the
	// params. It runs on the connection's reader and must not block.
	handle func(c *conn, params []byte) error
}

// notify makes a notification from a decoder and a handler.
func notify[P any](family string, decode func([]byte) (P, error), h func(c *conn, p *P)) notification {
	return notification{family: family, handle: func(c *conn, params []byte) error {
		p, err := decode(params)
		if err == nil {
			h(c, &p)
		}
		return err
	}}
}
