package testutil

import (
	"context"
	"testing"
	"time"
)

const (
	// Timeout is how long tests wait for an event that must come. A busy machine
	// needs seconds for work that takes milliseconds on an idle one.
	Timeout = 30 * time.Second

	// firstPause is the pause after the first poll. Each pause is twice as long as the previous
	// one, up to longestPause, because a poll may be a request to a service that limits how many it
	// answers.
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// Eventually calls look until ok is true. It is for conditions that no event reports, such as those
// of other processes, files and sockets. If ctx ends first, or after Timeout, it fails the test
// with the wanted and the last seen state. In a cleanup the test's own context has already ended,
// so pass another one. It must be called from the test's goroutine.
func Eventually(ctx context.Context, t testing.TB, want string, look func() (got string, ok bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		got, ok := look()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("want %s, got %s: %v", want, got, ctx.Err())
		case <-time.After(pause):
		}
	}
}
