package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/wire/websocket"
)

// errText means that a message is text.
var errText = fmt.Errorf("%w: it is text", errFrame)

// socket is a websocket of either end. One goroutine reads its frames and one
// writes them. An idle one holds only the library's buffers.
type socket struct {
	ws    *websocket.Conn
	check time.Duration // how often it is asked whether the peer may stay
}

// closing is why a socket is closed by the service.
type closing struct {
	code   int
	reason string
}

func (c *closing) Error() string { return c.reason }

var (
	closeShutdown     = &closing{websocket.CloseGoingAway, "the service is shutting down"}
	closeReplaced     = &closing{websocket.ClosePolicyViolation, "a newer connection has taken its place"}
	closeExecutorGone = &closing{websocket.CloseServiceRestart, "the executor is not connected"}
	closeBusFails     = &closing{websocket.CloseServiceRestart, "the service cannot route frames"}
	closeTooLarge     = &closing{websocket.CloseTooLarge, "a frame is too large"}
	closeFailures     = &closing{websocket.ClosePolicyViolation, "too many handshakes of this connection failed"}
	closeSlow         = &closing{websocket.CloseServiceRestart, "the executor's data is read too slowly, and others wait"}
	// A peer that closes in order waits for the answer (RFC 6455, 5.5.1).
	closeAnswer  = &closing{websocket.CloseNormal, ""}
	closeRevoked = &closing{websocket.ClosePolicyViolation, "the token is not valid any more"}
)

// socketEnd is the handling of a socket by one end of the relay.
type socketEnd interface {
	// receive handles a frame that has arrived, in m. It may wait until ctx ends.
	receive(ctx context.Context, h header, m *websocket.Message) error
	// handle handles a message of the mailbox.
	handle(m Message) error
	// check returns an error if the peer may not stay.
	check() error
	// drop counts a message that is not a frame. It may wait until ctx ends,
	// because parsing costs time that must be charged.
	drop(ctx context.Context, why error) error
}

// run serves the socket until it breaks, e or the mailbox refuses to continue,
// or ctx ends. Then it tells the peer, closes the socket and returns the
// reason.
func (s *socket) run(ctx context.Context, box *Mailbox, e socketEnd) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interrupted := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(interrupted)
		s.ws.Interrupt()
	})
	var reading sync.WaitGroup
	reading.Go(func() { cancel(s.routineRead(ctx, e)) })
	cancel(s.routineWrite(ctx, box, e))
	reading.Wait()
	<-interrupted
	why := context.Cause(ctx)
	s.end(why)
	return why
}

// end closes the socket. If the service closes it, end first tells the peer the
// reason.
func (s *socket) end(why error) {
	var c *closing
	var large *websocket.TooLargeError
	switch {
	case errors.As(why, &c):
	case errors.Is(why, ErrReplaced):
		c = closeReplaced
	case errors.As(why, &large):
		c = closeTooLarge
	case errors.Is(why, websocket.ErrClosed):
		c = closeAnswer
	default:
		_ = s.ws.Abort()
		return
	}
	_ = s.ws.Close(c.code, c.reason)
}

// routineRead passes on the frames that arrive.
func (s *socket) routineRead(ctx context.Context, e socketEnd) error {
	for {
		m, err := s.ws.ReadMessage()
		if err != nil {
			return err
		}
		// In flight a frame is counted by its length, so its memory must not be much
		// larger.
		m.Fit()
		var h header
		bad := errText
		if !m.Text {
			h, bad = peek(m.Bytes())
		}
		if bad != nil {
			m.Release()
			err = e.drop(ctx, bad)
		} else {
			err = e.receive(ctx, h, m)
		}
		if err != nil {
			return err
		}
	}
}

// always is ready.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// send writes a frame, a small one at the latest with the next flush.
func (s *socket) send(frame []byte) error { return s.ws.Add(websocket.Binary, frame) }

// routineWrite handles the messages of the mailbox. Now and then it asks whether
// the peer may stay.
func (s *socket) routineWrite(ctx context.Context, box *Mailbox, e socketEnd) error {
	ticker := time.NewTicker(s.check)
	defer ticker.Stop()
	// Messages that were queued before the end are still sent. Errors are ignored
	// here, because the websocket is being closed.
	defer func() { _ = s.ws.Flush() }()
	for {
		m, ok, err := box.Take()
		if err != nil {
			return err
		}
		next := box.Ready()
		if ok {
			err = e.handle(m)
			next = always
		} else {
			err = s.ws.Flush()
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := e.check(); err != nil {
				return err
			}
		case <-next:
		}
	}
}
