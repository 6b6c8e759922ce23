package testutil

import (
	"errors"
	"testing"
)

// Need skips or fails a test that needs a feature of the machine, if err is not nil. If
// err is one of lacks, the errors by which a machine reports that it lacks the feature,
// Need skips the test and names the feature. Any other error fails the test: a test
// that skips for each error would hide that its own tool is broken.
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
