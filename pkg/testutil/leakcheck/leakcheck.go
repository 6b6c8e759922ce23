// Package leakcheck finds goroutines that a test leaves behind.
package leakcheck

import (
	"context"
	"testing"

	"codex.internal/pkg/testutil"
	"go.uber.org/goleak"
)

// Goroutines returns a function that fails the test if goroutines exist that did not exist when
// Goroutines was called. The function waits for goroutines that are ending, and fails with the
// stacks of the others. Tests that run in parallel to this test must not start goroutines.
func Goroutines(t testing.TB) (check func()) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		testutil.Eventually(context.Background(), t, "no goroutines left", func() (string, bool) {
			if err := goleak.Find(before); err != nil {
				return err.Error(), false
			}
			return "", true
		})
	}
}
