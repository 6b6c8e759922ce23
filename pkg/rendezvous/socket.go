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

// socket is a websocket of either end. One goroutine reads its frames and one writes them. An idle
// socket holds only the library's buffers.
type socket struct {
	ws    *websocket.Conn
	check time.Duration // how often it is asked whether the peer may stay
}

// closing is the reason why the service closes a socket.
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
	closeUneven       = &closing{websocket.CloseServiceRestart, "other nodes have fewer executors; connect again"}
	// A peer that closes the websocket properly waits for the answer (RFC 6455, 5.5.1).
	closeAnswer  = &closing{websocket.CloseNormal, ""}
	closeRevoked = &closing{websocket.ClosePolicyViolation, "the token is not valid any more"}
)

// socketEnd handles the frames and messages of a socket for one end of the relay.
type socketEnd interface {
	// receive handles a frame that has arrived. m contains the frame. It may wait until ctx ends.
	receive(ctx context.Context, h header, m *websocket.Message) error
	// handle handles a message of the mailbox.
	handle(m Message) error
	// check returns an error if the peer must be disconnected.
	check() error
	// drop counts a message that is not a frame. It may wait until ctx ends, because parsing takes
	// time that must be charged.
	drop(ctx context.Context, why error) error
}

// run serves the socket until it breaks, until e or the mailbox returns an error, or until ctx
// ends. Then it notifies the peer, closes the socket and returns the reason.
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

// end closes the socket. If the service is the one that closes it, end first sends the peer the
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
		// A frame in flight is counted by its length, so its memory must not be much larger.
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

// always is a channel that is always ready.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// send writes a frame. A small frame is written at the latest with the next flush.
func (s *socket) send(frame []byte) error { return s.ws.Add(websocket.Binary, frame) }

// routineWrite handles the messages of the mailbox. From time to time it checks whether the peer
// must be disconnected.
func (s *socket) routineWrite(ctx context.Context, box *Mailbox, e socketEnd) error {
	ticker := time.NewTicker(s.check)
	defer ticker.Stop()
	// Messages that were queued before the end are still sent. Errors are ignored here, because the
	// websocket is being closed.
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
