package execserver

import (
	"context"
	"sync"
	"time"
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
	// laneOrdinary runs at most Options.ConcurrentRequests at a time.
	laneOrdinary
	// laneControl runs requests that must never wait behind ordinary ones.
	laneControl
	laneCount
)

// lanes runs a connection's requests. In each lane, requests start in the order of arrival and
// finish in any order. One goroutine submits requests. Each running request has a goroutine of
// its own, and wait waits for all of them.
type lanes struct {
	wg sync.WaitGroup

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
	limit, active int
	queue         []job
}

type job struct {
	run   func()
	bytes int
}

func newLanes(concurrent int) *lanes {
	l := &lanes{shrunk: make(chan struct{}), ended: make(chan struct{})}
	l.lane[laneOrdinary].limit = concurrent
	l.lane[laneControl].limit = controlRequests
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
	if ln.active < ln.limit {
		ln.active++
		l.wg.Go(func() { l.routineRequests(id, j) })
		return true
	}
	ln.queue = append(ln.queue, j)
	l.backlog++
	l.bytes += j.bytes
	return true
}

// routineRequests runs j and then the queued jobs of its lane.
func (l *lanes) routineRequests(id laneID, j job) {
	for ok := true; ok; j, ok = l.next(id) {
		j.run()
	}
}

// next returns the next queued job of a lane. If the queue is empty, it frees
// the slot and returns false.
func (l *lanes) next(id laneID) (job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := &l.lane[id]
	if len(ln.queue) == 0 {
		ln.active--
		return job{}, false
	}
	j := ln.queue[0]
	ln.queue[0] = job{}
	ln.queue = ln.queue[1:]
	l.backlog--
	l.bytes -= j.bytes
	close(l.shrunk)
	l.shrunk = make(chan struct{})
	return j, true
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
