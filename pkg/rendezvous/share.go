package rendezvous

import (
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// share is the use of an environment by one token. An environment may have several tokens, whose
// holders need not trust each other: none of them may keep the others out. The account's mutex
// guards the numbers.
type share struct {
	sockets, streams, opening int

	opens    *rate.Limiter       // handshakes that begin
	failures *rate.Limiter       // handshakes that fail
	down     *semaphore.Weighted // bytes that wait for the token's harnesses
	stalls   *rate.Limiter       // milliseconds for which others waited for this token's harnesses
}

func newShare() *share {
	return &share{
		opens: rate.NewLimiter(shareOpens, shareOpenBurst), failures: rate.NewLimiter(shareFailures, shareFailureBurst),
		down: semaphore.NewWeighted(shareDown), stalls: rate.NewLimiter(shareStalls, shareStallBurst),
	}
}

// idle reports whether the share can be removed without refilling a quota.
func (s *share) idle() bool {
	return s.sockets == 0 && s.streams == 0 && s.opening == 0 &&
		s.opens.Tokens() >= shareOpenBurst && s.failures.Tokens() >= shareFailureBurst && s.stalls.Tokens() >= shareStallBurst
}

// of returns the share of a token. The caller holds mu.
func (a *account) of(token string) *share {
	s := a.shares[token]
	if s == nil {
		if a.shares == nil {
			a.shares = make(map[string]*share)
		}
		s = newShare()
		a.shares[token] = s
	}
	return s
}

// sweepShares removes the shares that are not used.
func (a *account) sweepShares() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for token, s := range a.shares {
		if s.idle() {
			delete(a.shares, token)
		}
	}
}

// more adds one to a token's count, unless the token would then have more than is left free.
func more(own, all *int, most int) bool {
	if *own+*all >= most {
		return false
	}
	*own++
	*all++
	return true
}

// takeSocket counts a socket of a token, unless the token has used up its share.
func (a *account) takeSocket(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return more(&a.of(token).sockets, &a.sockets, a.quota.sockets)
}

func (a *account) returnSocket(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(token).sockets--
	a.sockets--
}

// takeStream counts a stream of a token, unless the token has used up its share.
func (a *account) takeStream(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return more(&a.of(token).streams, &a.streams, a.quota.streams)
}

func (a *account) returnStream(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(token).streams--
	a.streams--
}

// beginHandshake counts a handshake that waits for its answer. It returns false if the token has
// used up its share, begins too many handshakes, or has had too many failures. After true the
// caller must call endHandshake.
func (a *account) beginHandshake(token string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(token)
	if s.failures.Tokens() < 1 || !more(&s.opening, &a.opening, a.quota.opening) {
		return false
	}
	if !s.opens.Allow() {
		s.opening--
		a.opening--
		return false
	}
	return true
}

// endHandshake records that a handshake was answered or has failed.
func (a *account) endHandshake(token string, failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of(token)
	s.opening--
	a.opening--
	if failed {
		s.failures.Allow() // without one left, the next handshake is refused
	}
}

// share returns the share of a token.
func (a *account) share(token string) *share {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(token)
}
