package rendezvous

import (
	"testing"
	"time"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

// eventually polls for what has no event.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}
