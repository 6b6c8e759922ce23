package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/faultproxy"
)

const (
	// turnTime is longer than any turn, including a recovery, takes. A turn that takes longer
	// hangs.
	turnTime = 90 * time.Second
	// leastTurns and mostTurns bound the turns of one session.
	leastTurns, mostTurns = 15, 60
	// cutShare is the share of turns during which the connection is cut at a random time, in
	// addition to the proxy's planned faults.
	cutShare = 0.1
	// cutDelay bounds the time from the start of the turn to that cut.
	cutDelay = 200 * time.Millisecond
	// dials is the number of attempts to open a session. Several are needed, because the proxy also
	// cuts handshakes.
	dials = 20
)

// shape bounds the faults of the first connections of a session. Later connections are only cut at
// set times.
var shape = faultproxy.Shape{Cuts: 3, Refusals: 2, First: 4096, Up: 1 << 20, Down: 16 << 20, Pause: 100 * time.Millisecond}

// worker has one connection at a time, and takes turns.
type worker struct {
	*soak
	n      int
	rng    *rand.Rand
	ws     string // the directory that is writable in its sandboxes
	proxy  *faultproxy.Proxy
	client *execclient.Client
	left   int          // turns that are left in this session
	count  uint64       // numbers unique names
	losses atomic.Int64 // lost connections
}

func newWorker(s *soak, n int) *worker {
	return &worker{soak: s, n: n, rng: rand.New(rand.NewPCG(s.seed, uint64(n))), ws: filepath.Join(s.Dir, "work", strconv.Itoa(n))}
}

// routine takes turns until ctx ends. It finishes a turn that it has begun.
func (k *worker) routine(ctx context.Context, turns <-chan int) {
	if err := k.MakeDirectory(k.ws); err != nil {
		k.tally.fail("set-up", err)
		return
	}
	defer k.leave()
	// Connect first, so that connections exist from the start.
	if err := k.join(ctx); err != nil {
		k.tally.fail("connect", err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case number := <-turns:
			k.turn(context.WithoutCancel(ctx), dealt(k.seed, number))
		}
	}
}

// join opens the worker's session if it has none.
func (k *worker) join(ctx context.Context) error {
	if k.client != nil && k.client.Err() == nil && k.left > 0 {
		return nil
	}
	k.leave()
	var err error
	k.proxy, err = faultproxy.New(context.WithoutCancel(ctx), k.server.address, faultproxy.Random(k.rng.Uint64(), shape))
	if err != nil {
		return err
	}
	for range dials {
		k.client, err = execclient.DialWebSocket(ctx, "ws://"+k.proxy.Addr(), execclient.Options{
			ClientName: "soak", KeepAlive: 10 * time.Second,
			OnStateChange: func(c execclient.StateChange) {
				if c.State == execclient.Recovering {
					k.losses.Add(1)
				}
			},
		})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	k.left = leastTurns + k.rng.IntN(mostTurns-leastTurns)
	return err
}

// leave ends the session. The server then ends the session's processes.
func (k *worker) leave() {
	if k.client != nil {
		_ = k.client.Close()
		k.client = nil
	}
	if k.proxy != nil {
		k.tally.proxy(k.proxy.Stats())
		k.proxy.Close()
		k.proxy = nil
	}
}

// turn takes a turn, and counts how it ended.
func (k *worker) turn(ctx context.Context, t turn) {
	if err := k.join(ctx); err != nil {
		k.tally.fail("connect", err)
		return
	}
	k.left--
	before := k.losses.Load()
	if k.rng.Float64() < cutShare {
		proxy := k.proxy
		timer := time.AfterFunc(time.Duration(k.rng.Int64N(int64(cutDelay))), func() { k.cut(proxy) })
		defer timer.Stop()
	}
	began := time.Now()
	err := k.take(ctx, t)
	switch {
	case err == nil:
		k.tally.done(t.name, time.Since(began))
	case isLoss(err):
		k.tally.lose(t.name)
		if k.verbose {
			fmt.Printf("lost: %s: %v\n", t.name, err)
		}
	default:
		k.tally.fail(t.name, fmt.Errorf("worker %d, after %v and %d lost connections: %w",
			k.n, time.Since(began).Round(time.Millisecond), k.losses.Load()-before, err))
	}
	if k.client == nil {
		return // the turn has ended the session
	}
	if err := k.client.Err(); err != nil {
		k.tally.fail("session", fmt.Errorf("worker %d: the session could not be resumed: %w", k.n, err))
	}
}

// take runs a turn in its own directory.
func (k *worker) take(ctx context.Context, t turn) error {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	k.count++
	dir := filepath.Join(k.ws, strconv.FormatUint(k.count, 10))
	if err := k.MakeDirectory(dir); err != nil {
		return err
	}
	err := t.do(ctx, &visit{worker: k, dir: dir})
	// Files that a turn leaves are not a leak of the server.
	return errors.Join(err, os.RemoveAll(dir))
}

// cut resets the connections of a proxy.
func (k *worker) cut(proxy *faultproxy.Proxy) {
	k.tally.cut()
	proxy.Cut()
}

// isLoss reports whether a lost connection explains an error. Operations that cannot be repeated
// safely return such errors. judge checks that they are not more than the cuts.
func isLoss(err error) bool {
	return errors.Is(err, execclient.ErrClosed) || errors.Is(err, net.ErrClosed)
}
