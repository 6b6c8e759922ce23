// Package wait implements two kinds of waiting: for a time that a context can shorten, and for a
// wake-up that is never lost and never blocks the sender.
package wait

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, it returns the context's cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wake puts a value into c, a channel with a buffer of one, unless there is one
// already. It never blocks.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
