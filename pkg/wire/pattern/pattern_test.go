package pattern

import (
	"sync"
	"testing"
)

// TestNew uses an expression from many goroutines: it is compiled once.
func TestNew(t *testing.T) {
	digits := New(`^[0-9]+$`)
	first := digits()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if digits() != first {
				t.Error("compiled twice")
			}
		})
	}
	wg.Wait()
	if !first.MatchString("12") || first.MatchString("1a") {
		t.Error("matches something else")
	}
}

// TestMalformed panics at the first use and at no other place.
func TestMalformed(t *testing.T) {
	malformed := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("taken")
		}
	}()
	malformed()
}
