package leakcheck

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestGoroutines(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }() // was there before
	defer close(end)
	check := Goroutines(t)
	other := make(chan struct{})
	before := goleak.IgnoreCurrent()
	go func() { <-other }()
	if err := goleak.Find(before); err == nil || !strings.Contains(err.Error(), "TestGoroutines") {
		t.Errorf("a goroutine that is left is not found: %v", err)
	}
	close(other)
	check()
}
