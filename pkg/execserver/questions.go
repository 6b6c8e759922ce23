package execserver

import (
	"context"
	"strconv"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/wire/jsonrpc"
)

// questions has the requests of the server to the client of one connection. Its methods may be
// called from any goroutine.
type questions struct {
	mu   sync.Mutex
	last int64 // id of the newest request; the first has 1
	// open has the unanswered requests. Each channel has space for the answer.
	open map[int64]chan *execproto.PolicyDecision
}

// ask sends a request and waits for its answer. ok is false if the answer
// cannot be decoded, if ctx or the connection ends first, or if maxQuestions
// are already open; then the client is not asked.
func (x *questions) ask(ctx context.Context, c *conn, params execproto.PolicyRequestParams) (d execproto.PolicyDecision, ok bool) {
	id, answer := x.begin()
	if answer == nil {
		c.srv.events.LimitReached.Tell(observe.LimitQuestions)
		return d, false
	}
	defer x.end(id)
	if c.out.send(ctx, func(b []byte) []byte { return params.AppendRequest(b, id) }) != nil {
		return d, false
	}
	select {
	case a := <-answer:
		if a == nil {
			return d, false
		}
		return *a, true
	case <-ctx.Done():
	case <-c.waits.Done():
	case <-c.out.ended:
	}
	return d, false
}

// begin registers a request; nil: there are too many.
func (x *questions) begin() (id int64, answer chan *execproto.PolicyDecision) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.open) >= maxQuestions {
		return 0, nil
	}
	if x.open == nil {
		x.open = make(map[int64]chan *execproto.PolicyDecision)
	}
	x.last++
	answer = make(chan *execproto.PolicyDecision, 1)
	x.open[x.last] = answer
	return x.last, answer
}

func (x *questions) end(id int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, id)
}

// answer handles a response of the client. It returns false if there was no
// request with that id. A second or late response is ignored.
func (x *questions) answer(m jsonrpc.Message) bool {
	id, err := strconv.ParseInt(m.ID.String(), 10, 64)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || id < 1 || id > x.last {
		return false
	}
	answer := x.open[id]
	delete(x.open, id)
	if answer == nil {
		return true
	}
	var d *execproto.PolicyDecision
	if m.Kind == jsonrpc.Response {
		if r, err := execproto.Decode[execproto.PolicyResult](m.Result); err == nil {
			d = &r.Decision
		}
	}
	answer <- d
	return true
}
