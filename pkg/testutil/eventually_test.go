package testutil

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that records its failure.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// eventually calls Eventually in a goroutine, which a failure ends, and returns the
// failure.
func eventually(ctx context.Context, look func() (string, bool)) string {
	f := &failing{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(ctx, f, "three", look)
	}()
	<-done
	return f.message
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		look := func(enough int) func() (string, bool) {
			return func() (string, bool) { count++; return strconv.Itoa(count), count >= enough }
		}
		if got := eventually(t.Context(), look(3)); got != "" || count != 3 {
			t.Errorf("failed with %q after %d looks, want none after 3", got, count)
		}
		began := time.Now()
		got := eventually(t.Context(), func() (string, bool) { return "two", false })
		if want := "want three, got two: context deadline exceeded"; got != want || time.Since(began) != Timeout {
			t.Errorf("failed with %q after %v, want %q after %v", got, time.Since(began), want, Timeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, want := eventually(ctx, func() (string, bool) { return "two", false }), "want three, got two: context canceled"; got != want {
			t.Errorf("failed with %q, want %q", got, want)
		}
		if got := eventually(ctx, func() (string, bool) { return "three", true }); got != "" {
			t.Errorf("what is there already fails with %q", got)
		}
	})
}
