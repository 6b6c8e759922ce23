package testutil

import (
	"errors"
	"testing"
)

// Need skips or fails a test that needs a feature of the machine, if err is not nil. lacks are the
// errors by which a machine reports that it lacks the feature. If err is one of them, Need skips
// the test and names the feature. Any other error fails the test: if a test were skipped for every
// error, a broken tool of the test would go unnoticed.
func Need(t testing.TB, what string, err error, lacks ...error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, lack := range lacks {
		if errors.Is(err, lack) {
			t.Skipf("this machine has no %s: %v", what, err)
		}
	}
	t.Fatalf("the test needs %s: %v", what, err)
}
