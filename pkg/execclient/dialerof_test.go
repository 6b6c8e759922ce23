package execclient

import (
	"context"
	"errors"
	"testing"
	"time"
)

// quiet is a type of transport.
type quiet struct{ closed bool }

func (q *quiet) Read() ([]byte, error) { return nil, errors.New("nothing comes") }
func (q *quiet) Write([]byte) error    { return nil }
func (q *quiet) Close() error          { q.closed = true; return nil }

// quietDialer returns a nil pointer with its error, as dialers do.
type quietDialer struct{ err error }

func (d quietDialer) Dial(context.Context) (*quiet, error) {
	if d.err != nil {
		return nil, d.err
	}
	return &quiet{}, nil
}

func (quietDialer) RetryPause(attempt int) time.Duration { return time.Duration(attempt) * time.Hour }

// TestDialerOf: Dial returns a nil transport with an error, even if the dialer returns a typed
// nil pointer. A dialer's RetryPause is used.
func TestDialerOf(t *testing.T) {
	refused := errors.New("refused")
	if c, err := DialerOf(quietDialer{refused}).Dial(t.Context()); c != nil || !errors.Is(err, refused) {
		t.Errorf("a refused connection is %v, %v", c, err)
	}
	d := DialerOf(quietDialer{})
	c, err := d.Dial(t.Context())
	if q, ok := c.(*quiet); !ok || err != nil || c.Close() != nil || !q.closed {
		t.Errorf("a connection is %v, %v", c, err)
	}
	if got := (&Client{dialer: d}).pauseBefore(2); got != 2*time.Hour {
		t.Errorf("the client waits for %v", got)
	}
}
