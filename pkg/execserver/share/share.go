package share

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
)

// Shares divides the resources of a server. All methods of this package may be called from any
// goroutine.
type Shares struct {
	mu         sync.Mutex
	pools      map[observe.Limit]*pool
	principals map[string]*principal
}

// pool is one limited resource.
type pool struct {
	limit, used int64
	whole       int64 // see Undivided
	largest     int64 // see Undivided
	unlimited   bool  // see Unlimited
	grants      int64 // how many waiters got their amount
	// turns are the accounts with waiters, each once. They are in the order in which they were
	// last served, so that neither many waiters of one connection nor many busy connections
	// delay a connection that asks rarely.
	turns []*Account
}

// principal is the identity of clients. It exists while it has accounts.
type principal struct {
	name     string
	whole    bool // the principal is not restricted to a share: it may take everything that is free
	accounts map[*Account]struct{}
	used     map[observe.Limit]int64
	most     map[observe.Limit]*Account // which has most of a resource with a largest amount
}

// Account has the amounts that one connection, or one session, uses of its principal's share.
type Account struct {
	s       *Shares
	p       *principal
	used    map[observe.Limit]int64
	waiters map[observe.Limit][]*waiter
	served  map[observe.Limit]int64 // pool.grants when the account was last served
}

// waiter is a call of Wait that has not got its amount yet.
type waiter struct {
	n       int64
	granted chan struct{} // closed under the lock when the waiter has its amount
}

// New returns the shares of a server with these limits.
func New(limits map[observe.Limit]int64) *Shares {
	s := &Shares{pools: make(map[observe.Limit]*pool), principals: make(map[string]*principal)}
	for name, limit := range limits {
		s.pools[name] = &pool{limit: limit}
	}
	return s
}

// keptForHalves is the fraction of a principal's share that Undivided keeps back: 1/16. It
// leaves something to a third account if two accounts give nothing back.
const keptForHalves = 16

// Undivided permits a waiting account to use up to n of a resource from its principal's share.
// Without it, the account must leave half of the remaining share to the principal's other
// accounts. Undivided is for a resource that is taken in steps, of which the first steps are
// useless without the last: an account whose half is too small would wait for the last step for
// ever. largest is the sum of all steps. So much of it stays free that the account which has
// most of it can take its last step: otherwise the first steps of many accounts could take
// everything, and all of them would wait for each other. It must be called before Open.
func (s *Shares) Undivided(name observe.Limit, n, largest int64) {
	s.pools[name].whole, s.pools[name].largest = n, largest
}

// Unlimited permits a waiting account to exceed the limit while no other account uses the
// resource or waits for it. It must be called before Open.
func (s *Shares) Unlimited(name observe.Limit) { s.pools[name].unlimited = true }

// Open returns a new account of the principal with that name. The caller must close it. whole
// is for the user of the server's own machine, who needs no token and is not restricted to a
// share. It must be the same for all accounts of a name.
func (s *Shares) Open(name string, whole bool) *Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.principals[name]
	if p == nil {
		p = &principal{
			name: name, whole: whole, accounts: make(map[*Account]struct{}),
			used: make(map[observe.Limit]int64), most: make(map[observe.Limit]*Account),
		}
		s.principals[name] = p
	}
	a := &Account{
		s: s, p: p, used: make(map[observe.Limit]int64), waiters: make(map[observe.Limit][]*waiter), served: make(map[observe.Limit]int64),
	}
	p.accounts[a] = struct{}{}
	return a
}

// Close gives back all that the account has taken. No Wait may be in progress. Give may still
// be called afterwards, and then does nothing.
func (a *Account) Close() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for name, n := range a.used {
		a.give(name, n)
	}
	if delete(a.p.accounts, a); len(a.p.accounts) == 0 {
		delete(a.s.principals, a.p.name)
	}
}

// Take takes n of a resource without waiting. Its error gives the limit and the amount in use,
// for example for the answer to a request.
func (a *Account) Take(name observe.Limit, n int64) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	pool := a.s.pools[name]
	if !Fits(pool.limit, pool.used, a.p.used[name], n, a.p.whole) {
		return &FullError{Limit: name, All: pool.limit, Used: pool.used, Own: a.p.used[name]}
	}
	a.take(pool, name, n)
	return nil
}

// Reserve is Take with an error that a client gets as the answer to its request.
func (a *Account) Reserve(name observe.Limit, n int64) error {
	if err := a.Take(name, n); err != nil {
		return observe.AtLimit(name, execproto.InvalidRequest(err.Error()))
	}
	return nil
}

// leastDivided is the smallest limit that is divided among principals. A user who sets
// --max-connections 4 wants four connections, even for a single token.
const leastDivided = 16

// Fits reports whether a principal may take n more of a resource. limit is the total amount,
// used is the amount in use, and own is the principal's part of used. The principal may have
// half of what the others leave, or with whole everything that they leave.
func Fits(limit, used, own, n int64, whole bool) bool {
	free := limit - used
	return n <= free && (whole || limit < leastDivided || own+n <= (free+own)/2)
}

// FullError is the error of Take: the principal has all that it may have at the moment.
type FullError struct {
	Limit          observe.Limit
	All, Used, Own int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the limit %s is reached: the server has %d for all clients, of which %d are in use, %d of them by this client's user or token; "+
		"close some, or try again later", e.Limit, e.All, e.Used, e.Own)
}

// Wait waits until n of a resource may be taken, and takes it. If n exceeds the limit of the
// resource, it takes the limit instead. Of the accounts that wait and may have their amount, the
// one is next that was served least recently: an account with many waiters delays another
// account by only one of them. Wait returns the taken amount, which the caller must give back,
// or the error of ctx.
func (a *Account) Wait(ctx context.Context, name observe.Limit, n int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	a.s.mu.Lock()
	pool := a.s.pools[name]
	n = min(n, pool.limit)
	if len(pool.turns) == 0 && a.mayHave(pool, name, n) {
		a.grant(pool, name, n)
		a.s.mu.Unlock()
		return n, nil
	}
	w := &waiter{n: n, granted: make(chan struct{})}
	if len(a.waiters[name]) == 0 {
		a.queue(pool, name)
	}
	a.waiters[name] = append(a.waiters[name], w)
	a.s.serve(pool, name)
	a.s.mu.Unlock()
	select {
	case <-w.granted:
		return n, nil
	case <-ctx.Done():
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	select {
	case <-w.granted:
		return n, nil // granted before ctx ended; the caller gives it back
	default:
	}
	a.forget(pool, name, w)
	return 0, ctx.Err()
}

// Awaited reports whether any account waits for a part of the resource.
func (a *Account) Awaited(name observe.Limit) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return len(a.s.pools[name].turns) > 0
}

// Add takes n without checking the limit, because that much is already in use.
func (a *Account) Add(name observe.Limit, n int64) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.take(a.s.pools[name], name, n)
}

// Give gives back n that was taken.
func (a *Account) Give(name observe.Limit, n int64) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.give(name, min(n, a.used[name]))
}

// accountKey is the key of an account in a context.
type accountKey struct{}

// With returns a context for work on behalf of an account.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// From returns the account on whose behalf the work of a context is done. It is nil for the
// server's own work, which is not limited by shares.
func From(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// take adds n to the amounts in use. The caller holds the lock.
func (a *Account) take(pool *pool, name observe.Limit, n int64) {
	pool.used += n
	a.p.used[name] += n
	a.used[name] += n
	if pool.largest > 0 && (a.p.most[name] == nil || a.used[name] > a.p.most[name].used[name]) {
		a.p.most[name] = a
	}
}

// give is Give with the lock held.
func (a *Account) give(name observe.Limit, n int64) {
	pool := a.s.pools[name]
	pool.used -= n
	a.p.used[name] -= n
	a.used[name] -= n
	if a.p.most[name] == a {
		for other := range a.p.accounts {
			if other.used[name] > a.p.most[name].used[name] {
				a.p.most[name] = other
			}
		}
	}
	a.s.serve(pool, name)
}

// queue inserts an account that has a waiter into the turns.
func (a *Account) queue(pool *pool, name observe.Limit) {
	i := len(pool.turns)
	for i > 0 && pool.turns[i-1].served[name] > a.served[name] {
		i--
	}
	pool.turns = slices.Insert(pool.turns, i, a)
}

// grant takes n for a waiter. The account must not be in the turns.
func (a *Account) grant(pool *pool, name observe.Limit, n int64) {
	pool.grants++
	a.served[name] = pool.grants
	a.take(pool, name, n)
}

// serve grants waiting amounts, in the order of turns, until no waiter may have more.
func (s *Shares) serve(pool *pool, name observe.Limit) {
	for i := 0; i < len(pool.turns) && pool.used < pool.limit; {
		a := pool.turns[i]
		w := a.waiters[name][0]
		if !a.mayHave(pool, name, w.n) {
			i++
			continue
		}
		pool.turns = slices.Delete(pool.turns, i, i+1)
		a.grant(pool, name, w.n)
		close(w.granted)
		if a.waiters[name] = a.waiters[name][1:]; len(a.waiters[name]) > 0 {
			a.queue(pool, name)
		}
		i = 0
	}
}

// mayHave reports whether a waiter of the account may take n now. The principal may have half
// of what other principals leave. Of that share, the account may have half of what the
// principal's other accounts leave, or as much as Undivided permits. A principal that has
// nothing yet may have more than its half, and so may an account: otherwise a request that is
// larger than the half would wait for ever. Enough stays free for the last step of the account
// that has most (see Undivided).
func (a *Account) mayHave(pool *pool, name observe.Limit, n int64) bool {
	if pool.unlimited && pool.used == a.used[name] && len(pool.turns) == 0 {
		return true
	}
	all, others, own := pool.limit, pool.used-a.p.used[name], a.p.used[name]
	if n > all-pool.used {
		return false
	}
	share := all - others
	if !a.p.whole && own > 0 && all >= leastDivided {
		share /= 2
	}
	most, kept := a.used[name]+n, share/keptForHalves
	if m := a.p.most[name]; m == a {
		kept = 0
	} else if m != nil {
		most = max(most, m.used[name])
	}
	if share >= pool.largest && own+n+max(0, pool.largest-most) > share {
		return false
	}
	undivided := a.used[name]+n <= pool.whole && own+n <= share-kept
	if a.used[name] > 0 && !undivided {
		share = own - a.used[name] + (share-own+a.used[name])/2
	}
	return own+n <= share
}

// forget removes a waiter that has stopped waiting.
func (a *Account) forget(pool *pool, name observe.Limit, w *waiter) {
	list := a.waiters[name]
	for i := range list {
		if list[i] == w {
			a.waiters[name] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(a.waiters[name]) > 0 {
		return
	}
	for i := range pool.turns {
		if pool.turns[i] == a {
			pool.turns = append(pool.turns[:i:i], pool.turns[i+1:]...)
			break
		}
	}
}

// Usage is the use of one resource.
type Usage struct {
	Limit      observe.Limit
	All, Used  int64
	Waiting    int   // number of accounts that wait for it
	MostByUser int64 // the largest amount that one principal has
}

// EachUse calls used with the amounts that each principal has, but for zero.
func (s *Shares) EachUse(used func(principal string, limit observe.Limit, n int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.principals {
		for limit, n := range p.used {
			if n != 0 {
				used(name, limit, n)
			}
		}
	}
}

// Usage returns the use of each resource, in no particular order.
func (s *Shares) Usage() []Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Usage
	for name, pool := range s.pools {
		u := Usage{Limit: name, All: pool.limit, Used: pool.used, Waiting: len(pool.turns)}
		for _, p := range s.principals {
			u.MostByUser = max(u.MostByUser, p.used[name])
		}
		list = append(list, u)
	}
	return list
}
