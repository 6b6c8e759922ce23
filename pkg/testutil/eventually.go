package testutil

import (
	"context"
	"testing"
	"time"
)

const (
	// Timeout is how long tests wait for what must come. A busy machine needs seconds
	// for what takes milliseconds alone.
	Timeout = 30 * time.Second

	// firstPause is the time between the first two looks at what has no event to wait
	// for. Each pause is twice as long as the one before, and at most longestPause:
	// a look may be a request to a service that limits how many it answers.
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// Eventually calls look until ok is true, for what gives no event to wait for: other
// processes, files, sockets. It fails the test if ctx ends before, or after Timeout,
// with what was wanted and what was seen last. In a cleanup the test's own context
// has ended already: give another one. It must be called by the test's goroutine.
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
