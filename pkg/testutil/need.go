package testutil

import (
	"errors"
	"testing"
)

// Need ends a test that needs something of the machine, if err is not nil. It skips the
// test if err is one of lacks, the errors by which a machine says that it lacks what is
// needed, and names that. Any other error fails the test: a test that skips for each
// error would hide that its own tool is broken.
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
