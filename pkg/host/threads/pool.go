package threads

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Pool bounds the goroutines that are in system calls at a time, to what there are threads for. While the machine
// has room for more threads it grows when calls wait, so that nobody waits long for the calls of others. The zero value
// bounds nothing. Its methods may be called from any goroutine.
//
// A goroutine that has a slot must not wait for another one that may need a slot of the same pool.
type Pool struct {
	slots atomic.Pointer[semaphore.Weighted] // nil: there is no bound
	first func()                             // makes the bound, once; nil: there will be none

	// grow makes up to n more threads, as many as the machine has room for, and returns how many. It is called by
	// one goroutine at a time.
	grow func(n int) int
	log  *slog.Logger

	mu      sync.Mutex
	size    int         // how many slots there are
	waiting int         // how many goroutines wait for one, or have not run since they got it
	granted int         // how many of them have got one by growth
	long    int         // how many of them have waited since the last look
	timer   *time.Timer // calls look; nil: none waits
	told    bool        // that there is no room
}

// bound gives the pool its slots. It must be called once, before the pool is used.
func (p *Pool) bound(size int, grow func(n int) int, log *slog.Logger) {
	s := semaphore.NewWeighted(mostSlots)
	s.TryAcquire(int64(mostSlots - size))
	p.size, p.grow, p.log = size, grow, log
	p.slots.Store(s)
}

// Acquire waits for a slot. The caller calls Release unless there is an error, which is that of ctx.
func (p *Pool) Acquire(ctx context.Context) error {
	s := p.slots.Load()
	if s == nil && p.first != nil {
		p.first()
		s = p.slots.Load()
	}
	if s == nil || s.TryAcquire(1) {
		return nil
	}
	p.waits(1)
	defer p.waits(-1)
	return s.Acquire(ctx, 1)
}

// Release frees a slot.
func (p *Pool) Release() {
	if s := p.slots.Load(); s != nil {
		s.Release(1)
	}
}

// Do calls f with a slot. If ctx ends before there is one, it returns the error of ctx.
func (p *Pool) Do(ctx context.Context, f func() error) error {
	if err := p.Acquire(ctx); err != nil {
		return err
	}
	defer p.Release()
	return f()
}

// waits counts a goroutine that waits for a slot, or no longer does.
func (p *Pool) waits(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
	if n < 0 {
		// Slots are given in the order in which they were asked for.
		p.granted, p.long = max(0, p.granted-1), max(0, p.long-1)
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(growTime/2, p.look)
	}
}

// look has the pool grow by what has waited since the last look, half of growTime ago: what has just begun to wait may be a burst of
// short calls. Threads are made without p.mu, which others need when they get a slot.
func (p *Pool) look() {
	p.mu.Lock()
	wanted := min(p.long-p.granted, mostSlots-p.size)
	p.long = p.waiting
	if p.waiting == 0 {
		p.timer = nil
	}
	timer := p.timer
	p.mu.Unlock()
	if timer == nil {
		return
	}
	made := 0
	if wanted > 0 {
		made = p.grow(wanted)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := growTime / 2
	switch {
	case made > 0:
		p.size += made
		p.granted += made
		p.slots.Load().Release(int64(made))
	case wanted > 0:
		next = retryTime
		if !p.told {
			p.told = true
			p.log.Warn("the machine has no room for more threads; calls wait for each other", "calls", p.size)
		}
	}
	timer.Reset(next)
}
