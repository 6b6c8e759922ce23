//go:build linux || darwin

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

func newPool(size int, grow func(int) bool, log *slog.Logger) *Pool {
	p := &Pool{}
	p.bound(size, grow, log)
	return p
}

// TestPool: no more calls run at a time than there are slots; one that waits ends with its context.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, calls = 3, 20
		p := newPool(slots, nil, nil)
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

// TestGrow: calls that hang hold up others for no longer than stuckTime if the machine has room. Calls that
// end make no pool larger.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		room, made := false, 0
		p := newPool(1, func(n int) bool {
			if room {
				made += n
			}
			return room
		}, slog.New(slog.NewTextHandler(&log, nil)))
		hang := func() { _ = p.Do(context.Background(), func() error { <-t.Context().Done(); return nil }) }
		go hang()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*stuckTime)
		defer cancel()
		if err := p.Acquire(ctx); err != context.DeadlineExceeded || made != 0 {
			t.Errorf("without room: %v, and %d threads", err, made)
		}
		if n := strings.Count(log.String(), "no room"); n != 1 {
			t.Errorf("the log says %d times that there is no room: %s", n, &log)
		}
		room = true
		began := time.Now()
		if err := p.Acquire(t.Context()); err != nil || made != 1 || time.Since(began) > 2*stuckTime {
			t.Errorf("with room: %v, and %d threads after %v", err, made, time.Since(began))
		}
		p.Release()

		made = 0
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() { _ = p.Do(t.Context(), func() error { time.Sleep(stuckTime / 2); return nil }) })
		}
		calls.Wait()
		if made != 0 {
			t.Errorf("calls that end have made %d threads", made)
		}
	})
}

// TestMostSlots: a pool has an end.
func TestMostSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		p := newPool(1, func(n int) bool { made += n; return true }, slog.New(slog.DiscardHandler))
		for range 2 * mostSlots {
			go func() { _ = p.Do(context.Background(), func() error { <-t.Context().Done(); return nil }) }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			time.Sleep(stuckTime)
		}
		if made != mostSlots-1 {
			t.Errorf("it has grown by %d, want %d", made, mostSlots-1)
		}
	})
}
