package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// perToken is how many idle environments share a token: it may ask for no more
// at once.
const perToken = 50

// idle measures what a service needs for each environment whose executor is
// connected and does nothing. The executors are in this process.
func (q *relayed) idle(ctx context.Context) error {
	if q.service == nil || !q.b.wants(environmentRow.name) {
		return nil
	}
	s, err := startService(q.direct)
	if err != nil {
		return err
	}
	defer s.stop()
	ctx, cancel := context.WithCancel(ctx)
	var executors sync.WaitGroup
	defer executors.Wait()
	defer cancel()
	// What comes with the first does not count.
	if err := s.join(ctx, 0, 1, &executors); err != nil {
		return err
	}
	before := resident(s.cmd)
	for n := 1; n <= q.b.z.environments; n += perToken {
		if err := s.join(ctx, n, min(perToken, q.b.z.environments+1-n), &executors); err != nil {
			return err
		}
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	q.b.add(environmentRow, "ours", (resident(s.cmd)-before)/float64(q.b.z.environments))
	return nil
}

// join connects n executors, and waits until all are. They end with ctx.
func (s *service) join(ctx context.Context, first, n int, executors *sync.WaitGroup) error {
	e, err := s.environment(ctx)
	if err != nil {
		return err
	}
	connected := make(chan error, 2*n)
	for i := range n {
		x, err := e.idleExecutor(fmt.Sprintf("idle-%d", first+i), func() { connected <- nil })
		if err != nil {
			return err
		}
		executors.Go(func() {
			if err := x.Run(ctx); err != nil {
				connected <- err
			}
		})
	}
	late := time.After(patience)
	for range n {
		select {
		case err := <-connected:
			if err != nil {
				return fmt.Errorf("an idle executor: %w", err)
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("not all of %d executors are connected after %v", n, patience)
		}
	}
	return nil
}

// idleExecutor returns an executor of another environment, with the tokens of e,
// that lets nobody in.
func (e *environment) idleExecutor(id string, connected func()) (*relay.Executor, error) {
	identity, client, err := e.s.registry(e.executor)
	if err != nil {
		return nil, err
	}
	return relay.NewExecutor(relay.ExecutorOptions{
		Identity: identity, Connected: connected,
		Register: func(ctx context.Context) (relay.Registration, error) {
			r, err := client.Register(ctx, id, identity.PublicKey())
			return relay.Registration{URL: r.URL, EnvironmentID: id, RegistrationID: r.ID}, err
		},
		Validate: func(context.Context, string, noise.PublicKey, string) error { return errors.New("nobody is let in") },
		Serve:    func(websocket.Transport) {},
	}), nil
}
