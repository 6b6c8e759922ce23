package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

const (
	// blockPause is the pause between two blocks of a stream. blockSize is the size of the largest
	// block, in bytes.
	blockPause = 200 * time.Millisecond
	blockSize  = 8 << 10
)

// clusterStream is a client that sends blocks to a process and receives them back, one at a time.
type clusterStream struct {
	name      string
	seed      uint64
	client    *execclient.Client
	recovered atomic.Int64 // number of times that the session was resumed

	mu      sync.Mutex
	back    int // blocks received since the last mark
	last    time.Time
	longest time.Duration // longest time without a block, since the last mark
}

// connect connects the client. It retries after errors that may be temporary.
func (s *clusterStream) connect(ctx context.Context, d execclient.Dialer) error {
	o := execclient.Options{ClientName: s.name, OnStateChange: func(c execclient.StateChange) {
		if c.State == execclient.Recovering {
			s.recovered.Add(1)
		}
	}}
	for {
		var err error
		if s.client, err = execclient.Dial(ctx, d, o); err == nil {
			return nil
		}
		var passing interface{ Retryable() bool }
		if !errors.As(err, &passing) || !passing.Retryable() || !harness.Pause(ctx, blockPause) {
			return fmt.Errorf("%s: connect: %w", s.name, err)
		}
	}
}

// run sends blocks until stop is closed, and checks every byte that it receives.
func (s *clusterStream) run(ctx context.Context, stop <-chan struct{}) error {
	p, err := s.client.Start(ctx, execproto.StartParams{
		ProcessID: s.name, Argv: []string{"cat"}, Cwd: "file:///", PipeStdin: true,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	})
	if err != nil {
		return fmt.Errorf("%s: start: %w", s.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := harness.Expect(s.name, s.seed, 1, 0)
	arrived := make(chan struct{}, 1)
	var sending sync.WaitGroup
	var sendErr error
	sending.Go(func() {
		if sendErr = s.send(ctx, p, out, arrived, stop); sendErr != nil {
			cancel() // otherwise the process would not end
		}
	})
	state, err := p.Stream(ctx, &harness.Signalling{Written: arrived, To: out}, io.Discard)
	cancel()
	sending.Wait()
	switch {
	case sendErr != nil && !errors.Is(sendErr, context.Canceled):
		return fmt.Errorf("%s: %w", s.name, sendErr)
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	case state.Code != 0:
		return fmt.Errorf("%s: exit code %d", s.name, state.Code)
	}
	return out.Complete()
}

// send sends blocks. It waits for the return of each block before it sends the next.
func (s *clusterStream) send(ctx context.Context, p *execclient.Process, out *harness.Checked, arrived, stop <-chan struct{}) error {
	data := harness.RandomBytes(s.seed, 1)
	random := rand.New(rand.NewPCG(s.seed, 7))
	ticker := time.NewTicker(blockPause)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-stop:
			return p.CloseStdin(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		block := make([]byte, 1+random.IntN(blockSize))
		_, _ = data.Read(block) // it never fails
		out.Extend(int64(len(block)))
		status, err := p.Write(ctx, block)
		if err != nil || status != execproto.WriteAccepted {
			return fmt.Errorf("block %d: %s %w", n, status, err)
		}
		for out.Complete() != nil {
			select {
			case <-arrived:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.beat()
	}
}

// beat records that a block has returned.
func (s *clusterStream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
	s.back++
}

// mark begins a new measurement.
func (s *clusterStream) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back, s.longest = 0, 0
}

// measured returns the number of blocks since the mark, and the longest time without one. That time
// includes the time since the last block.
func (s *clusterStream) measured() (back int, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back, max(s.longest, time.Since(s.last))
}
