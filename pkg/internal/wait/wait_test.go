package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestFor waits until the time is over, and until a context ends before that.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("it returned %v after %v, want nil after a minute", err, time.Since(begin))
		}
		cause := errors.New("the user has interrupted it")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		begin = time.Now()
		if err := For(ctx, time.Minute); err != cause || time.Since(begin) != time.Second {
			t.Errorf("it returned %v after %v, want the cause after a second", err, time.Since(begin))
		}
	})
}

// TestWake wakes twice, before anything waits.
func TestWake(t *testing.T) {
	c := make(chan struct{}, 1)
	Wake(c)
	Wake(c)
	<-c
	select {
	case <-c:
		t.Error("two wake-ups are not one")
	default:
	}
}
