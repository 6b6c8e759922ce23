package threads

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Pool bounds the goroutines that are in system calls at a time, to what there are threads for. The zero value
// bounds nothing. Its methods may be called from any goroutine.
//
// A goroutine that has a slot must not wait for another one that may need a slot of the same pool.
type Pool struct {
	slots    atomic.Pointer[semaphore.Weighted] // nil: there is no bound
	released atomic.Uint64                      // counts the calls of Release

	// grow makes n more threads, and returns false if the machine has no room for them; nil: the pool does not grow.
	grow func(n int) bool
	log  *slog.Logger

	mu      sync.Mutex
	size    int         // how many slots there are
	waiting int         // how many goroutines wait for one
	timer   *time.Timer // calls look; nil: none waits
	seen    uint64      // released, at the last look
	told    bool        // that there is no room
}

// bound gives the pool its slots. It must be called once, before the pool is used.
func (p *Pool) bound(size int, grow func(n int) bool, log *slog.Logger) {
	s := semaphore.NewWeighted(mostSlots)
	s.TryAcquire(int64(mostSlots - size))
	p.size, p.grow, p.log = size, grow, log
	p.slots.Store(s)
}

// Acquire waits for a slot. The caller calls Release unless there is an error, which is that of ctx.
func (p *Pool) Acquire(ctx context.Context) error {
	s := p.slots.Load()
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
		p.released.Add(1)
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
	if p.timer == nil && p.grow != nil {
		p.seen, p.timer = p.released.Load(), time.AfterFunc(stuckTime, p.look)
	}
}

// look has the pool grow if no slot has become free since the last look.
func (p *Pool) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 {
		p.timer = nil
		return
	}
	if released := p.released.Load(); released != p.seen {
		p.seen = released
	} else {
		p.add()
	}
	p.timer.Reset(stuckTime)
}

// add makes the pool twice as large if it may be. p.mu must be held.
func (p *Pool) add() {
	more := min(p.size, mostSlots-p.size)
	switch {
	case more == 0:
	case p.grow(more):
		p.size += more
		p.slots.Load().Release(int64(more))
		p.log.Warn("system calls about files hang; the server has made more threads for others", "calls", p.size)
	case !p.told:
		p.told = true
		p.log.Warn("system calls about files hang, and the machine has no room for more threads; requests wait", "calls", p.size)
	}
}
