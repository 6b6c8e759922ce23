package rendezvous

import (
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

// eventually polls for what has no event.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	testutil.Eventually(t.Context(), t, "it to happen", func() (string, bool) { return "not yet", done() })
}
