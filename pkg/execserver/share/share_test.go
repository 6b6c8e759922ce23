package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execserver/observe"
)

const thing = observe.LimitWatches

// fill takes single units until Take returns an error, and returns the number of taken units.
func fill(a *Account) (n int64) {
	for a.Take(thing, 1) == nil {
		n++
	}
	return n
}

func TestEachPrincipalGetsHalfOfWhatIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name       string
		principals []string // an account of each takes all that it may, one after the other
		want       []int64
	}{
		{"alone", []string{"a"}, []int64{50}},
		{"one after the other", []string{"a", "b", "c"}, []int64{50, 25, 12}},
		{"two accounts are one principal", []string{"a", "a", "b"}, []int64{50, 0, 25}},
		{"the machine's user has what is free", []string{"a", "me", "b"}, []int64{50, 50, 0}},
		{"nobody gets the last one but the machine's user", []string{"a", "b", "c", "d", "e", "f", "g", "h", "me"}, []int64{50, 25, 12, 6, 3, 2, 1, 0, 1}},
		{"few are not divided", []string{"few"}, []int64{15}},
	} {
		s := New(map[observe.Limit]int64{thing: 100})
		if tt.principals[0] == "few" {
			s = New(map[observe.Limit]int64{thing: 15})
		}
		for i, name := range tt.principals {
			if got := fill(s.Open(name, name == "me")); got != tt.want[i] {
				t.Errorf("%s: got %d for %s, the account %d; want %d", tt.name, got, name, i, tt.want[i])
			}
		}
	}
}

func TestTheErrorNamesTheLimit(t *testing.T) {
	s := New(map[observe.Limit]int64{thing: 40})
	a := s.Open("a", false)
	fill(a)
	err := a.Take(thing, 1)
	full, ok := errors.AsType[*FullError](err)
	if want := (FullError{Limit: thing, All: 40, Used: 20, Own: 20}); !ok || *full != want {
		t.Errorf("got error %v; want %+v", err, want)
	}
}

func TestCloseGivesBackWhatIsHeld(t *testing.T) {
	s := New(map[observe.Limit]int64{thing: 100})
	a := s.Open("a", false)
	fill(a)
	a.Close()
	a.Give(thing, 1) // after a part was given back
	if got := fill(s.Open("b", true)); got != 100 {
		t.Errorf("after the close got %d, want all 100", got)
	}
	if got := len(s.principals); got != 1 {
		t.Errorf("got %d principals, want the one that has an account", got)
	}
}

// TestAccountsAreServedInTurn: one connection has sent many requests, and another sends a
// single one. The single request waits for only one of the many.
func TestAccountsAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(map[observe.Limit]int64{thing: 2})
		flood, quiet := s.Open("me", true), s.Open("me", true)
		var order []string
		wait := func(a *Account, name string) {
			go func() {
				if _, err := a.Wait(t.Context(), thing, 1); err == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		for range 10 {
			wait(flood, "flood")
		}
		if len(order) != 1 {
			t.Fatalf("got %d turns of one account, want 1: the other one is for others", len(order))
		}
		wait(quiet, "quiet")
		wait(quiet, "quiet")
		flood.Give(thing, 1)
		synctest.Wait()
		quiet.Give(thing, 1)
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[flood quiet flood quiet]"; got != want {
			t.Errorf("got the turns %s, want %s", got, want)
		}
	})
}

// TestARareRequestIsNext: ten connections ask again and again. Another connection, which was
// served before all of them, asks once. It is the next, although all others asked earlier.
func TestARareRequestIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(map[observe.Limit]int64{thing: 1})
		var order []string
		wait := func(a *Account, name string) {
			go func() {
				if _, err := a.Wait(t.Context(), thing, 1); err == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		rare := s.Open("rare", false)
		var busy []*Account
		for i := range 10 {
			busy = append(busy, s.Open(fmt.Sprint("busy ", i), false))
		}
		for _, a := range append([]*Account{rare}, busy...) {
			wait(a, "before")
			a.Give(thing, 1)
		}
		wait(busy[0], "holder")
		order = nil
		for i, a := range busy {
			wait(a, fmt.Sprint(i))
		}
		wait(rare, "rare")
		for _, a := range []*Account{busy[0], rare, busy[1], busy[2]} {
			a.Give(thing, 1)
			synctest.Wait()
		}
		if got, want := fmt.Sprint(order), "[rare 1 2 3]"; got != want {
			t.Errorf("got the order %s, want %s", got, want)
		}
	})
}

// TestTheOnlyUserOfWhatIsUnlimited: an account takes as much as it wants until another one waits,
// which then gets its part when the first has given back enough.
func TestTheOnlyUserOfWhatIsUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(map[observe.Limit]int64{thing: 1})
		s.Unlimited(thing)
		first, second := s.Open("a", false), s.Open("a", false)
		granted := 0
		wait := func(a *Account) {
			go func() {
				if _, err := a.Wait(t.Context(), thing, 1); err == nil {
					granted++
				}
			}()
			synctest.Wait()
		}
		for i, step := range []struct {
			do   func()
			want int
		}{
			{func() { wait(first) }, 1},
			{func() { wait(first) }, 2},
			{func() { wait(second) }, 2},
			{func() { wait(first) }, 2},
			{func() { first.Give(thing, 1) }, 2},
			{func() { first.Give(thing, 1) }, 3}, // the second
			{func() { second.Give(thing, 1) }, 4},
		} {
			step.do()
			synctest.Wait()
			if granted != step.want {
				t.Errorf("step %d: got %d granted, want %d", i, granted, step.want)
			}
		}
	})
}

func TestWhatIsLargerThanEverythingWaitsForAll(t *testing.T) {
	s := New(map[observe.Limit]int64{thing: 10})
	a := s.Open("a", false)
	if n, err := a.Wait(t.Context(), thing, 100); n != 10 || err != nil {
		t.Errorf("got %d, error %v; want all 10", n, err)
	}
}

// TestWhatIsUndividedIsTakenInSteps: a large message's buffer grows in steps, while two other
// connections of the same token take all that they may. The third connection must still get a
// share.
func TestWhatIsUndividedIsTakenInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(map[observe.Limit]int64{thing: 256})
		s.Undivided(thing, 96, 64)
		a, b, c := s.Open("a", false), s.Open("a", false), s.Open("a", false)
		for i, tt := range []struct {
			a    *Account
			n    int64
			want bool
		}{{a, 16, true}, {a, 49, true}, {a, 31, true}, {a, 1, false}, {b, 16, true}, {b, 48, false}, {b, 8, true}, {b, 1, false},
			{c, 1, true}, {c, 3, true}, {c, 1, false}} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := tt.a.Wait(ctx, thing, tt.n)
				done <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-done; (err == nil) != tt.want {
				t.Errorf("step %d: got error %v, want %d taken: %v", i, err, tt.n, tt.want)
			}
		}
	})
}

// TestLargeAmountsInStepsAllComplete: many connections of a token send large messages at the same
// time. Each has a part of its message's buffer while it waits for the next step. In an earlier
// version, five such connections took so much with their first steps that no one could take its
// last step.
func TestLargeAmountsInStepsAllComplete(t *testing.T) {
	for _, tt := range []struct {
		accounts int
		whole    bool
		steps    []int64
	}{
		{5, false, []int64{2, 14, 28, 20}}, {5, false, []int64{2, 14}}, {5, false, []int64{2, 14, 28}}, {5, false, []int64{32, 32}},
		{100, false, []int64{2, 14, 28, 20}}, {300, false, []int64{1, 1, 14, 28, 20}}, {5, true, []int64{2, 14, 28, 20}}, {100, true, []int64{32, 32}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(map[observe.Limit]int64{thing: 256})
			s.Undivided(thing, 96, 64)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var wg sync.WaitGroup
			for range tt.accounts {
				wg.Go(func() {
					a := s.Open("a", tt.whole)
					defer a.Close()
					for _, n := range tt.steps {
						if _, err := a.Wait(ctx, thing, n); err != nil {
							t.Errorf("%+v: got error %v, want %d taken", tt, err, n)
							return
						}
						<-time.After(time.Second) // of the bubble: the bytes arrive, and the others take as much as they may
					}
				})
			}
			wg.Wait()
			if got := len(s.principals); got != 0 {
				t.Errorf("%+v: in the end got %d principals, want none", tt, got)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(map[observe.Limit]int64{thing: 1})
		a, b := s.Open("a", true), s.Open("b", true)
		if err := a.Take(thing, 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := b.Wait(ctx, thing, 1)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want that of the context", err)
		}
		a.Give(thing, 1)
		if u := s.Usage(); u[0].Used != 0 || u[0].Waiting != 0 {
			t.Errorf("after the end got %+v, want nothing used and nobody waiting", u)
		}
	})
}

// TestNothingIsLost: random users take and give back. The amount in use equals the sum of what
// the accounts have and never exceeds the total. No user waits for an amount that it may have.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			s := New(map[observe.Limit]int64{thing: 20})
			if seed%2 == 1 {
				s.Undivided(thing, 8, 6)
			}
			type user struct {
				a      *Account
				held   []int64
				cancel context.CancelFunc
				ctx    context.Context
			}
			var mu sync.Mutex // of held, which several waiters of a user may change at a time
			var users []*user
			hold := func(u *user, n int64) {
				mu.Lock()
				defer mu.Unlock()
				u.held = append(u.held, n)
			}
			for i := range 5 {
				u := &user{a: s.Open(fmt.Sprint("p", i/2), i == 4)}
				u.ctx, u.cancel = context.WithCancel(t.Context())
				users = append(users, u)
			}
			for range 100 {
				u := users[rnd.IntN(len(users))]
				switch n := 1 + rnd.Int64N(25); rnd.IntN(5) {
				case 0:
					if u.a.Take(thing, n) == nil {
						hold(u, n)
					}
				case 1:
					ctx := u.ctx
					go func() {
						if got, err := u.a.Wait(ctx, thing, n); err == nil {
							hold(u, got)
						}
					}()
				case 2, 3:
					mu.Lock()
					if len(u.held) > 0 {
						n, u.held = u.held[0], u.held[1:]
						mu.Unlock()
						u.a.Give(thing, n)
					} else {
						mu.Unlock()
					}
				case 4:
					u.cancel()
					synctest.Wait()
					u.ctx, u.cancel = context.WithCancel(t.Context())
				}
				synctest.Wait()
				var sum int64
				mu.Lock()
				for _, u := range users {
					for _, n := range u.held {
						sum += n
					}
					if list := u.a.waiters[thing]; len(list) > 0 && u.a.mayHave(s.pools[thing], thing, list[0].n) {
						t.Fatalf("seed %d: %d of an account wait, of which the first may have its %d", seed, len(list), list[0].n)
					}
				}
				mu.Unlock()
				if used := s.pools[thing].used; used != sum || used > 20 {
					t.Fatalf("seed %d: got %d used, want the %d that are held, and at most 20", seed, used, sum)
				}
			}
			for _, u := range users {
				u.cancel()
				synctest.Wait()
				u.a.Close()
			}
			if used, turns := s.pools[thing].used, len(s.pools[thing].turns); used != 0 || turns != 0 || len(s.principals) != 0 {
				t.Errorf("seed %d: in the end got %d used, %d waiting, %d principals; want none", seed, used, turns, len(s.principals))
			}
		})
	}
}
