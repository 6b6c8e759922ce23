package execserver

import (
	"context"
	"sync"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
)

// laneID names the place where a request runs, and the queue in which it waits for a slot
// (docs/spec/wire.md §9.2).
type laneID int

const (
	// laneReader runs requests on the connection's reader, without the cost of another
	// goroutine. These requests never block. If a request must wait for its turn, it waits in a
	// goroutine.
	laneReader laneID = iota
	// laneWaiting is for requests that only wait, for an event or another
	// server: each runs in its own goroutine without a slot. Its context ends
	// when the client sends no more.
	laneWaiting
	// laneOrdinary runs at most Options.ConcurrentRequests at a time (see lanes).
	laneOrdinary
	// laneControl runs requests that must never wait behind ordinary ones.
	laneControl
	laneCount
)

// lanes runs a connection's requests. In each lane, requests start in the order of arrival and
// finish in any order. One goroutine submits requests. Each running request has a goroutine of
// its own, and wait waits for all of them.
//
// Quick requests of a lane run one after the other: many goroutines would not be faster, and
// would delay other connections. A request that has run for quickTime counts as slow. It
// probably waits for a disk, a helper or a child. Each slow request increases the number of
// requests that a lane runs in their first quickTime, and each quick one reduces it again.
//
// The start of a process counts as slow from its beginning, and so does a request that arrives
// while its lane runs nothing: its client waits for answers, and delays no one. A turn and a
// timer would take a fifth of its time.
//
// Until a request is slow, it needs one of the server's turns (observe.LimitTurns), which are
// fewer than its processors: the others receive the requests of other connections. If another
// connection waits for a turn, a request sends its answer before it gives back its own, because
// that takes longer than a quick request.
type lanes struct {
	ctx     context.Context // of the connection
	account *share.Account  // of the connection
	flush   func()          // sends answers that wait in a queue
	wg      sync.WaitGroup

	mu      sync.Mutex
	lane    [laneCount]lane
	backlog int           // requests in all queues
	bytes   int           // their messages' sizes
	shrunk  chan struct{} // closed and replaced when the backlog shrinks

	waiting      int // requests that only wait, and their messages' sizes
	waitingBytes int
	stuck        bool          // no request that only waits has ended for stuckTime
	ended        chan struct{} // closed and replaced when such a request ends
}

type lane struct {
	limit  int // bounds active
	width  int // bounds fresh; between 1 and limit
	active int // running requests
	fresh  int // running requests that are not slow, each of which has or wants a turn
	queue  []job
}

// begin reports whether j may run now, and counts it.
func (ln *lane) begin(j job) bool {
	if ln.active == ln.limit || !j.slow && ln.fresh >= ln.width {
		return false
	}
	ln.active++
	if !j.slow {
		ln.fresh++
	}
	return true
}

type job struct {
	run   func()
	bytes int
	slow  bool // counts as slow from its beginning
}

// newLanes returns the lanes of a connection that ends with ctx and has the account.
func newLanes(ctx context.Context, concurrent int, account *share.Account, flush func()) *lanes {
	l := &lanes{ctx: ctx, account: account, flush: flush, shrunk: make(chan struct{}), ended: make(chan struct{})}
	l.lane[laneOrdinary] = lane{limit: concurrent, width: 1}
	l.lane[laneControl] = lane{limit: controlRequests, width: 1}
	return l
}

// submit runs j when its lane has a free slot. It blocks while the backlog is
// full. It returns false if ctx ends meanwhile; then j never runs.
func (l *lanes) submit(ctx context.Context, id laneID, j job) bool {
	l.mu.Lock()
	for l.backlog >= backlogRequests || l.bytes >= backlogBytes {
		shrunk := l.shrunk
		l.mu.Unlock()
		select {
		case <-shrunk:
		case <-ctx.Done():
			return false
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	ln := &l.lane[id]
	j.slow = j.slow || ln.active == 0
	if len(ln.queue) == 0 && ln.begin(j) {
		l.wg.Go(func() { l.routineRequests(ln, j) })
		return true
	}
	ln.queue = append(ln.queue, j)
	l.backlog++
	l.bytes += j.bytes
	return true
}

// routineRequests runs j and then queued jobs of its lane.
func (l *lanes) routineRequests(ln *lane, j job) {
	t := turnHolder{l: l, ln: ln}
	for ok := true; ok; {
		slow := j.slow
		if slow {
			t.give()
			j.run()
		} else {
			slow = t.run(j)
		}
		j, ok = l.next(ln, slow)
	}
	t.give()
}

// turnHolder runs jobs of a lane that are not slow from their beginning. It keeps its turn
// between them while no other connection waits for one. One goroutine uses it.
type turnHolder struct {
	l     *lanes
	ln    *lane
	held  bool
	timer *time.Timer // of the running job
}

// run runs j, which has a turn until it is slow. It reports whether j was slow.
func (t *turnHolder) run(j job) (slow bool) {
	if !t.held {
		// Each turn ends after quickTime. Therefore this needs no end of its own.
		_, _ = t.l.account.Wait(context.WithoutCancel(t.l.ctx), observe.LimitTurns, 1)
	}
	t.l.wg.Add(1) // for becomesSlow
	if t.timer == nil {
		t.timer = time.AfterFunc(quickTime, func() { t.l.becomesSlow(t.ln) })
	} else {
		t.timer.Reset(quickTime)
	}
	j.run()
	awaited := t.l.account.Awaited(observe.LimitTurns)
	if awaited {
		t.l.flush()
	}
	if t.held = t.timer.Stop(); !t.held {
		return true
	}
	t.l.wg.Done()
	if awaited {
		t.give()
	}
	return false
}

// give gives the turn back.
func (t *turnHolder) give() {
	if t.held {
		t.l.account.Give(observe.LimitTurns, 1)
		t.held = false
	}
}

// becomesSlow counts a running request as slow, and ends its turn.
func (l *lanes) becomesSlow(ln *lane) {
	defer l.wg.Done()
	l.account.Give(observe.LimitTurns, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.fresh--
	ln.width = min(ln.width+1, ln.limit)
	l.startQueued(ln)
}

// next ends a running request, and returns the next queued job of its lane, or false if none
// may run.
func (l *lanes) next(ln *lane, slow bool) (job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.active--
	if !slow {
		ln.fresh--
		ln.width = max(ln.width-1, 1)
	}
	if len(ln.queue) == 0 || !ln.begin(ln.queue[0]) {
		return job{}, false
	}
	j := l.takeQueued(ln)
	l.startQueued(ln)
	return j, true
}

// startQueued starts queued jobs of a lane in goroutines of their own, as far as they may run.
// The caller holds mu.
func (l *lanes) startQueued(ln *lane) {
	for len(ln.queue) > 0 && ln.begin(ln.queue[0]) {
		j := l.takeQueued(ln)
		l.wg.Go(func() { l.routineRequests(ln, j) })
	}
}

// takeQueued removes the first job of a lane's queue, which must not be empty. The caller holds
// mu.
func (l *lanes) takeQueued(ln *lane) job {
	j := ln.queue[0]
	ln.queue[0] = job{}
	ln.queue = ln.queue[1:]
	l.backlog--
	l.bytes -= j.bytes
	close(l.shrunk)
	l.shrunk = make(chan struct{})
	return j
}

// park admits a request that only waits, and whose message has n bytes. It blocks while too
// many such requests wait. It returns false if none of them ends for stuckTime or if ctx ends.
// The caller must then refuse the request.
func (l *lanes) park(ctx context.Context, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.waiting >= waitingRequests || l.waiting > 0 && l.waitingBytes+n > waitingBytes {
		if l.stuck {
			return false
		}
		ended := l.ended
		l.mu.Unlock()
		timer := time.NewTimer(stuckTime)
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
		}
		timedOut := !timer.Stop()
		l.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
		if timedOut && l.ended == ended {
			l.stuck = true
		}
	}
	l.waiting++
	l.waitingBytes += n
	return true
}

// unpark must be called when a request that park has admitted is answered.
func (l *lanes) unpark(n int) {
	l.mu.Lock()
	l.waiting--
	l.waitingBytes -= n
	l.stuck = false
	close(l.ended)
	l.ended = make(chan struct{})
	l.mu.Unlock()
}

// wait returns when every request has ended, or ctx ends.
func (l *lanes) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// sequence makes requests about the same object run one after the other, in the order in which
// enter was called (docs/spec/wire.md §9.1). A session has a sequence for its processes, and a
// connection has one for its file handles.
type sequence struct {
	mu   sync.Mutex
	last map[string]*turn
}

// turn is the position of one request in a sequence. A nil turn waits for nothing.
type turn struct {
	o      *sequence
	key    string
	before *turn
	ended  chan struct{}
}

// enter queues a request behind the earlier ones of key. The caller must call leave when the
// request has ended, even if it never ran.
func (o *sequence) enter(key string) *turn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = make(map[string]*turn)
	}
	t := &turn{o: o, key: key, before: o.last[key], ended: make(chan struct{})}
	o.last[key] = t
	return t
}

// wait returns when the earlier requests have ended. An earlier request also got its slot
// earlier, so it never waits for this one.
func (t *turn) wait() {
	if t != nil && t.before != nil {
		<-t.before.ended
		t.before = nil
	}
}

// ready reports whether the earlier requests have ended.
func (t *turn) ready() bool {
	if t.before == nil {
		return true
	}
	select {
	case <-t.before.ended:
		return true
	default:
		return false
	}
}

// leave ends the turn.
func (t *turn) leave() {
	if t == nil {
		return
	}
	t.o.mu.Lock()
	if t.o.last[t.key] == t {
		delete(t.o.last, t.key)
	}
	t.o.mu.Unlock()
	close(t.ended)
}
