package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// The phases of a soak, with their names in the CSV file.
const (
	phaseWarm  = "warm-up"
	phaseDrain = "drain"
	phaseRest  = "rest"
	phaseLoad  = "load"
)

const (
	// restTime is the time, after the lifetime of sessions, within which a server must be at rest.
	// Idle helpers end after 3 s, and closed processes are removed after 30 s.
	restTime = time.Minute
	// releaseFile is the size of a file after which the server returns memory to the system
	// (limits.go of pkg/execserver), and releaseTime the time until it does.
	releaseFile = 9 << 20
	releaseTime = 3 * time.Second
	// pollTime is the interval of the checks that the server is at rest.
	pollTime = 500 * time.Millisecond
)

// soak is one run of the test.
type soak struct {
	*harness.Testbed
	options
	server  *server
	outside *outside
	meter   *meter
	tally   tally
	began   time.Time
	loaded  time.Duration // duration of the load

	first, last sample // measurements at rest
	err         error  // the reason why the server is not at rest
}

// newSoak starts the server, and the services that its clients reach through it. All of them end
// with the test.
func newSoak(t *testing.T, o options) *soak {
	t.Helper()
	s := &soak{Testbed: harness.NewTestbed(t, o.user), options: o, began: time.Now()}
	harness.Must(t, os.MkdirAll(o.out, 0o755))
	for _, dir := range []string{"tmp", "home", "work", "beside"} {
		s.Directory(dir)
	}
	skills := s.Directory("capability/skills/one")
	skill := "---\nname: one\ndescription: a skill for the soak\n---\ntext\n"
	harness.Must(t, os.WriteFile(filepath.Join(skills, "SKILL.md"), []byte(skill), 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(s.Dir, "large"), make([]byte, releaseFile), 0o644))
	s.outside = startOutside(t)
	s.server = startServer(s)
	s.meter = startMeter(s)
	return s
}

// play loads the server and lets it come to rest. Then it loads the server for a long time, and lets it come to rest again.
func (s *soak) play(ctx context.Context) error {
	fmt.Printf("soak: %d connections, %.3g turns a second, %v, seed %d, server %d as user %d, backend %s\n",
		s.connections, s.rate, s.duration, s.seed, s.server.pid(), s.user, s.backend)
	s.load(ctx, phaseWarm, s.warmUp)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var err error
	if s.first, err = s.rest(ctx, nil); err != nil {
		return fmt.Errorf("the server did not come to rest after the first minute: %w", err)
	}
	fmt.Printf("soak: at rest after the first %v: %v\n", s.warmUp, s.first)
	began := time.Now()
	s.load(ctx, phaseLoad, s.duration)
	s.loaded = time.Since(began)
	// The results of an interrupted soak are judged, too.
	s.last, s.err = s.rest(context.WithoutCancel(ctx), &s.first)
	fmt.Printf("soak: at rest after %v: %v\n", s.loaded.Round(time.Second), s.last)
	return nil
}

// load makes all workers take turns for a while.
func (s *soak) load(ctx context.Context, phase string, d time.Duration) {
	s.meter.enter(phase)
	defer s.meter.enter(phaseDrain)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	turns := make(chan int)
	var wg sync.WaitGroup
	for n := range s.connections {
		wg.Go(func() { newWorker(s, n).routine(ctx, turns) })
	}
	s.pace(ctx, turns)
	wg.Wait()
}

// pace distributes turns at the rate until ctx ends. If no worker takes a turn in time, the turn
// counts as missed.
func (s *soak) pace(ctx context.Context, turns chan<- int) {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / s.rate))
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		select {
		case turns <- n:
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.tally.miss()
		}
	}
}

// rest waits until the server has no resources of its clients, and not more of any other resource
// than before. It returns the last measurement.
func (s *soak) rest(ctx context.Context, before *sample) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, s.ttl+2*restTime)
	defer cancel()
	if err := s.tidy(ctx); err != nil {
		return sample{}, err
	}
	now, err := s.until(ctx, sample.idle)
	// Collect garbage before the memory is measured.
	if err == nil {
		err = s.release(ctx)
	}
	if err == nil {
		now, err = s.until(ctx, func(now sample) error {
			if err := now.idle(); err != nil || before == nil {
				return err
			}
			return now.more(*before)
		})
	}
	return s.meter.keep(phaseRest, now), err
}

// until measures repeatedly until look returns nil. It returns the last measurement.
func (s *soak) until(ctx context.Context, look func(sample) error) (sample, error) {
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		now := s.meter.take()
		err := look(now)
		if err == nil {
			return now, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return now, err
		}
	}
}

// tidy ends and forgets detached processes that interrupted turns have left.
func (s *soak) tidy(ctx context.Context) error {
	client, err := execclient.DialWebSocket(ctx, s.server.url, execclient.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := client.ListDetached(ctx)
	for _, p := range left {
		d := client.Detached(p.ProcessID[len("detached/"):])
		if !p.Closed {
			_, failed := d.Terminate(ctx)
			err = errors.Join(err, failed)
			_, failed = d.Wait(ctx)
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, d.Forget(ctx))
	}
	return err
}

// release reads a large file. After that the server returns memory to the system.
func (s *soak) release(ctx context.Context) error {
	client, err := execclient.DialWebSocket(ctx, s.server.url, execclient.Options{})
	if err != nil {
		return err
	}
	_, err = client.FS().ReadFile(ctx, filepath.Join(s.Dir, "large"))
	_ = client.Close()
	if err != nil {
		return err
	}
	timer := time.NewTimer(releaseTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
