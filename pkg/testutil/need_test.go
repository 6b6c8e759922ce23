package testutil

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"testing"
)

// ending records how a test would end.
type ending struct {
	testing.TB
	skipped, failed string
}

func (e *ending) Helper() {}

func (e *ending) Skipf(format string, args ...any) {
	e.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (e *ending) Fatalf(format string, args ...any) {
	e.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestNeed: a test is skipped only if the machine lacks the feature.
func TestNeed(t *testing.T) {
	for name, tt := range map[string]struct {
		err             error
		skipped, failed string
	}{
		"it is there":     {nil, "", ""},
		"it is not there": {fmt.Errorf("open: %w", fs.ErrNotExist), "this machine has no terminals: open: file does not exist", ""},
		"it is broken":    {errors.New("broken"), "", "the test needs terminals: broken"},
	} {
		e, done := &ending{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			Need(e, "terminals", tt.err, fs.ErrPermission, fs.ErrNotExist)
		}()
		<-done
		if e.skipped != tt.skipped || e.failed != tt.failed {
			t.Errorf("%s: skipped %q, failed %q", name, e.skipped, e.failed)
		}
	}
}
