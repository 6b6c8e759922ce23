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

	// interval is the time between two looks at what has no event to wait for.
	interval = time.Millisecond
)

// Eventually calls look until ok is true, for what gives no event to wait for: other
// processes, files, sockets. It fails the test if ctx ends before, or after Timeout,
// with what was wanted and what was seen last. In a cleanup the test's own context
// has ended already: give another one. It must be called by the test's goroutine.
func Eventually(ctx context.Context, t testing.TB, want string, look func() (got string, ok bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		got, ok := look()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("want %s, got %s: %v", want, got, ctx.Err())
		case <-ticker.C:
		}
	}
}
