package rendezvous

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// quota is a limit of an account; 0 means unlimited.
type quota struct {
	sockets, streams int
	bytes            int64
	frames, burst    int // of frames per second, in each direction
	calls, callBurst int // of the API per second
	opening          int // unanswered handshakes of an environment
}

var (
	tokenQuota = quota{
		sockets: tokenSockets, streams: tokenStreams, bytes: tokenBytes, frames: tokenFrames, burst: tokenFrameBurst,
		calls: tokenCalls, callBurst: tokenCallBurst,
	}
	environmentQuota = quota{
		sockets: environmentHarnesses, streams: environmentStreams, bytes: environmentBytes, frames: environmentFrames, burst: environmentFrameBurst,
		calls: environmentChecks, callBurst: environmentCheckBurst, opening: environmentOpening,
	}
)

// account counts the resources that the sockets of a token, or of an environment, currently use.
// Its methods may be called from any goroutine.
type account struct {
	quota quota
	calls *rate.Limiter
	// up is the direction from harnesses to executors, and down the other direction.
	up, down lane

	mu               sync.Mutex
	holders          int // executors that are connected
	sockets, streams int
	opening          int               // unanswered handshakes of an environment
	shares           map[string]*share // by token; of an environment
	// executors are the executors of an environment that are connected to this node, by
	// registration.
	executors map[string]*executor
}

// addExecutor records that an executor is connected. The caller must call removeExecutor.
func (a *account) addExecutor(registration string, x *executor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.executors == nil {
		a.executors = make(map[string]*executor)
	}
	a.executors[registration] = x
}

// removeExecutor records that an executor is no longer connected, unless a newer connection of its
// registration has replaced it.
func (a *account) removeExecutor(registration string, x *executor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.executors[registration] == x {
		delete(a.executors, registration)
	}
}

// lane is one direction of an account.
type lane struct {
	frames *rate.Limiter
	bytes  *semaphore.Weighted // on their way
	meter  meter
}

func newAccount(q quota) *account {
	newLane := func() lane {
		return lane{frames: rate.NewLimiter(rate.Limit(q.frames), q.burst), bytes: semaphore.NewWeighted(q.bytes)}
	}
	return &account{quota: q, calls: rate.NewLimiter(rate.Limit(q.calls), q.callBurst), up: newLane(), down: newLane()}
}

// hold keeps sweep from removing the account, until release.
func (a *account) hold() bool { return a.add(&a.holders, maxSockets) }
func (a *account) release()   { a.remove(&a.holders) }

// addSocket counts a socket, unless the limit is reached.
func (a *account) addSocket() bool { return a.add(&a.sockets, a.quota.sockets) }

// addStream counts a stream, unless the limit is reached.
func (a *account) addStream() bool { return a.add(&a.streams, a.quota.streams) }

func (a *account) removeSocket() { a.remove(&a.sockets) }
func (a *account) removeStream() { a.remove(&a.streams) }

func (a *account) add(n *int, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *n >= most {
		return false
	}
	*n++
	return true
}

func (a *account) remove(n *int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*n--
}

// idle reports whether the account is unused and none of its quotas is used up, so that removing
// the account refills no quota.
func (a *account) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holders == 0 && a.sockets == 0 && a.streams == 0 && len(a.shares) == 0 && a.calls.Tokens() >= float64(a.quota.callBurst)
}

// admit waits until the account permits another frame in flight. The caller calls done when the
// frame has been delivered. Frames are admitted in the order of the calls.
func (l *lane) admit(ctx context.Context, size int) (done func(), err error) {
	if err := l.frames.Wait(ctx); err != nil {
		return nil, err
	}
	held := int64(size + frameBytes)
	if err := l.bytes.Acquire(ctx, held); err != nil {
		return nil, err
	}
	return func() { l.bytes.Release(held) }, nil
}

// accounts are the accounts of all tokens, or of all environments, by id.
type accounts struct {
	quota quota

	mu sync.Mutex
	by map[string]*account
}

func newAccounts(q quota) *accounts { return &accounts{quota: q, by: make(map[string]*account)} }

// use calls f with the account of an id. The account is not removed meanwhile.
func (s *accounts) use(id string, f func(*account) bool) (*account, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.by[id]
	if a == nil {
		a = newAccount(s.quota)
		s.by[id] = a
	}
	return a, f(a)
}

// find returns the account of an id, or nil if it was not used recently.
func (s *accounts) find(id string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

// all returns all accounts by id, at the time of the call.
func (s *accounts) all() map[string]*account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.by)
}

// sweep removes the accounts that are idle.
func (s *accounts) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.by {
		a.sweepShares()
		if a.idle() {
			delete(s.by, id)
		}
	}
}

// meter counts frames and reports their throughput.
type meter struct {
	mu            sync.Mutex
	frames, bytes uint64
	began         time.Time // of the current window
	now, before   uint64    // bytes of the current window, and of the one before
}

func (m *meter) add(size int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	m.frames++
	m.bytes += uint64(size)
	m.now += uint64(size)
}

// turn begins a new window if the current one is over. The caller holds mu.
func (m *meter) turn(now time.Time) {
	passed := now.Sub(m.began)
	if passed < meterWindow {
		return
	}
	m.before = 0
	if passed < 2*meterWindow {
		m.before = m.now
	}
	m.now = 0
	m.began = now.Truncate(meterWindow)
}

// read returns the totals, and the bytes per second in the last full window.
func (m *meter) read(now time.Time) (frames, bytes, perSecond uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	return m.frames, m.bytes, m.before / uint64(meterWindow/time.Second)
}
