package websocket

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// TestSplice sends messages of all sizes through a splice, in both directions at
// once, and ends it from either side.
func TestSplice(t *testing.T) {
	for name, tt := range map[string]struct {
		end     func(left, right *Conn) error
		orderly bool
	}{
		"left closes":  {func(left, _ *Conn) error { return left.Close(CloseNormal, "") }, true},
		"right closes": {func(_, right *Conn) error { return right.Close(CloseGoingAway, "bye") }, true},
		"left breaks":  {func(left, _ *Conn) error { return left.Abort() }, false},
		"right breaks": {func(_, right *Conn) error { return right.Abort() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, left := ends(t, Options{}, Options{})
				right, b := ends(t, Options{}, Options{})
				spliced := make(chan error, 1)
				go func() { spliced <- Splice(a, b) }()
				lefts, rights := echoAll(t, left, "from left "), echoAll(t, right, "from right ")
				<-lefts
				<-rights
				gone := make(chan error, 2)
				for _, c := range []*Conn{left, right} {
					go func() {
						_, err := c.ReadMessage()
						gone <- err
					}()
				}
				_ = tt.end(left, right)
				if err := <-spliced; (err == nil) != tt.orderly {
					t.Errorf("the splice ended with %v", err)
				}
				for range 2 {
					if err := <-gone; err == nil || tt.orderly && !errors.Is(err, ErrClosed) && !strings.Contains(err.Error(), "closed") {
						t.Errorf("an end read %v", err)
					}
				}
				_, _ = left.Abort(), right.Abort()
			})
		})
	}
}

// echoAll sends messages of several sizes at one end, and checks that they arrive
// at the other end whole and in order.
func echoAll(t *testing.T, c *Conn, own string) (done chan struct{}) {
	other := map[string]string{"from left ": "from right ", "from right ": "from left "}[own]
	sizes := []int{0, 1, 125, 126, 1 << 16, keptSplice + 1, 3}
	text := func(who string, i int) string { return who + strings.Repeat(string(rune('a'+i)), sizes[i]) }
	done = make(chan struct{})
	go func() {
		for i := range sizes {
			if err := c.WriteText([]byte(text(own, i))); err != nil {
				t.Error(err)
			}
		}
	}()
	go func() {
		defer close(done)
		for i := range sizes {
			m, err := c.ReadMessage()
			if err != nil {
				t.Error(err)
				return
			}
			if got := string(m.Bytes()); got != text(other, i) {
				t.Errorf("message %d has %d bytes, want %d", i, len(got), len(text(other, i)))
			}
			m.Release()
		}
	}()
	return done
}
