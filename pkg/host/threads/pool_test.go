package threads

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newPool(size int, grow func(int) int, log *slog.Logger) *Pool {
	p := &Pool{}
	p.bound(size, grow, log)
	return p
}

// TestPool: no more calls run at a time than there are slots; one that waits ends with its context.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, calls = 3, 20
		p := newPool(slots, func(int) int { return 0 }, slog.New(slog.DiscardHandler))
		var running, most, ended atomic.Int64
		for range calls {
			go func() {
				_ = p.Do(t.Context(), func() error {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second)
					running.Add(-1)
					return nil
				})
				ended.Add(1)
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := p.Acquire(ctx); err != context.Canceled {
			t.Errorf("it waits for a slot, and then: %v", err)
		}
		time.Sleep(calls * time.Second)
		if most.Load() != slots || ended.Load() != calls {
			t.Errorf("%d ran at a time, want %d; %d of %d have ended", most.Load(), slots, ended.Load(), calls)
		}
	})
}

// TestUnbounded: a program that has made no threads is not held back.
func TestUnbounded(t *testing.T) {
	var p Pool
	for range 2 * mostSlots {
		if err := p.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.Release()
}

// TestGrow: calls that take long hold up others for no longer than growTime if the machine has room, and until one
// ends if it has none. Bursts of short calls make no pool larger.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var room, made atomic.Int64
		p := newPool(2, func(n int) int {
			n = min(n, int(room.Load()))
			room.Add(int64(-n))
			made.Add(int64(n))
			return n
		}, slog.New(slog.NewTextHandler(&log, nil)))
		// One hangs, and others take long, one after the other.
		busy, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		defer func() { stop(); calls.Wait() }()
		calls.Go(func() { _ = p.Do(busy, func() error { <-busy.Done(); return nil }) })
		synctest.Wait() // it has a slot
		for range 20 {
			calls.Go(func() {
				for busy.Err() == nil {
					_ = p.Do(busy, func() error { time.Sleep(90 * time.Millisecond); return nil })
				}
			})
		}
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*retryTime)
		defer cancel()
		if err := p.Acquire(ctx); err != context.DeadlineExceeded || made.Load() != 0 {
			t.Errorf("without room: %v, and %d threads", err, made.Load())
		}
		if n := strings.Count(log.String(), "no room"); n != 1 {
			t.Errorf("the log says %d times that there is no room: %s", n, &log)
		}
		room.Store(100)
		time.Sleep(retryTime)
		for range 100 {
			began := time.Now()
			if err := p.Acquire(t.Context()); err != nil || time.Since(began) > growTime {
				t.Fatalf("with room: %v after %v, and %d threads", err, time.Since(began), made.Load())
			}
			p.Release()
			time.Sleep(time.Millisecond)
		}
		if n := made.Load(); n > 21 {
			t.Errorf("22 calls have made %d threads", n)
		}

		before := made.Load()
		for range 100 {
			var calls sync.WaitGroup
			for range 1000 {
				calls.Go(func() { _ = p.Do(t.Context(), func() error { return nil }) })
			}
			calls.Wait()
			time.Sleep(time.Millisecond)
		}
		if n := made.Load() - before; n != 0 {
			t.Errorf("short calls have made %d threads", n)
		}
	})
}

// TestMostSlots: a pool has an end.
func TestMostSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		p := newPool(1, func(n int) int { made += n; return n }, slog.New(slog.DiscardHandler))
		for range 2 * mostSlots {
			go func() { _ = p.Do(context.Background(), func() error { <-t.Context().Done(); return nil }) }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			time.Sleep(growTime)
		}
		if made != mostSlots-1 {
			t.Errorf("it has grown by %d, want %d", made, mostSlots-1)
		}
	})
}
