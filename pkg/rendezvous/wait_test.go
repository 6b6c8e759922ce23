package rendezvous

import (
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

// patience is how long tests wait for an event that must come.
const patience = 30 * time.Second

// eventually polls for a condition that no event reports.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	testutil.Eventually(t.Context(), t, "it to happen", func() (string, bool) { return "not yet", done() })
}
