package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// Conn is a harness's end of a stream. It carries whole messages. One goroutine may call Read and
// one Write; any goroutine may call Close.
//
// If the websocket is lost, the stream continues over another websocket under three conditions: the
// executor acknowledges records, it is still the same process, and it still has the stream. No
// message is then lost or duplicated. Otherwise Read and Write fail, and the caller makes a new
// stream with Harness.Dial.
//
// A Conn has two goroutines, which end with the stream. Close waits for them.
type Conn struct {
	h      *Harness
	bundle Bundle // of the first websocket
	s      *stream
	ctx    context.Context // ends with the stream
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newConn(h *Harness, b Bundle, l *link, id string, session *noise.Session) *Conn {
	c := &Conn{h: h, bundle: b}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.s = newStream(id, session, frame.Options{Harness: true, Plain: h.opts.Plain}, l, c.ended)
	if _, err := c.s.advance(); err != nil { // sends the empty record, which must be the first
		c.s.end(err)
	}
	c.wg.Go(c.s.routineTimer)
	c.wg.Go(func() { c.routineLinks(l) })
	return c
}

// ended sends the executor the end of the stream, and ends the stream's goroutines.
func (c *Conn) ended(s *stream, l *link, why error) {
	c.h.log.Debug("stream ended", "stream", streamID(s.id), "reason", why)
	farewell(s, l, why, reasonHarness)
	c.cancel()
}

// Read returns the next message. The caller owns its memory. Read first returns all messages that
// arrived before the end of the stream, and then the reason for the end: ErrClosed after Close, and
// frame.ErrReset if the executor ended the stream.
func (c *Conn) Read() ([]byte, error) { return c.s.read() }

// Write sends a message of 1 byte to 64 MiB. It returns when all records of the message are queued
// or sent. It waits while the executor has too many unacknowledged records. A message that is too
// long ends the stream, and so does any error of the stream.
func (c *Conn) Write(message []byte) error {
	chunks, err := noise.Chunks(message)
	if err != nil {
		err = fmt.Errorf("message of %d bytes: %w", len(message), err)
		c.s.end(err)
		return err
	}
	for chunk := range chunks {
		if err := c.s.send(chunk); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the stream. Messages that were written before are sent first, if the
// relay accepts them within a few seconds.
func (c *Conn) Close() error {
	c.s.end(ErrClosed)
	c.wg.Wait()
	return nil
}

// routineLinks reads the stream's link, and later the links that replace it,
// until the stream has ended.
func (c *Conn) routineLinks(l *link) {
	for l != nil {
		since := time.Now()
		stop := context.AfterFunc(c.ctx, l.shut)
		err := c.receive(l)
		c.h.log.Debug("relay websocket ended", "url", l.url, "reason", err)
		stop()
		l.close()
		c.s.detach()
		l = c.redial(time.Since(since) >= calmTime)
	}
}

// receive reads a link until the link or the stream ends.
func (c *Conn) receive(l *link) error {
	for {
		f, err := l.read()
		switch {
		case errors.Is(err, frame.ErrInvalid):
			if f.StreamID != c.s.id {
				continue
			}
			err = errInvalid
			c.s.end(err)
		case errors.Is(err, frame.ErrUndecodable):
			err = fmt.Errorf("failed to parse Noise relay frame: %w", err)
			c.s.end(err)
		case errors.Is(err, errNotBinary):
			c.s.end(err)
		case err == nil && f.StreamID != c.s.id:
			continue
		case err == nil:
			c.s.waitRoom()
			if err = c.s.receive(f); err == nil {
				continue
			}
			c.s.end(err)
		}
		return err
	}
}

// redial dials another link and attaches the stream to it. If the last link lasted for calmTime, it
// dials at once. It retries until it succeeds or the stream has ended. The stream ends after 30 s
// without a link; redial then returns nil.
func (c *Conn) redial(calm bool) *link {
	told := false
	for attempt := 0; ; attempt++ {
		if attempt > 0 || !calm {
			_ = wait.For(c.ctx, c.h.RetryPause(attempt))
		}
		if c.ctx.Err() != nil {
			return nil
		}
		b, l, err := c.h.dial(c.ctx)
		switch {
		case err == nil && c.sameExecutor(b):
			c.s.attach(l)
			if told {
				c.h.opts.OnLink(nil)
			}
			return l
		case err == nil:
			c.s.end(errOther)
			l.close()
		case !retryable(err):
			c.s.end(err)
		default:
			c.h.log.Debug("the relay cannot be reached yet", "error", err)
			if !told && c.ctx.Err() == nil && c.h.opts.OnLink != nil {
				told = true
				c.h.opts.OnLink(err)
			}
		}
	}
}

// sameExecutor reports whether a bundle is for the executor process with which the stream was made.
func (c *Conn) sameExecutor(b Bundle) bool {
	return b.RegistrationID == c.bundle.RegistrationID && b.EnvironmentID == c.bundle.EnvironmentID && b.ExecutorKey == c.bundle.ExecutorKey
}

// retryable reports whether another attempt may succeed.
func retryable(err error) bool {
	var r interface{ Retryable() bool }
	return errors.As(err, &r) && r.Retryable()
}

// waitRoom waits until the stream has space for the next frame. Before a peer has seen the first
// acknowledgement, it may send any number of records; without the wait, receive would then fail
// with errInboxFull. It is for a link that carries only this stream.
func (s *stream) waitRoom() {
	for {
		s.mu.Lock()
		heldFull := len(s.held) >= heldRecords || s.heldSize > heldBytes-maxRecord
		wait := s.err == nil && (heldFull || s.full() && !s.frames.Acking())
		s.mu.Unlock()
		if !wait {
			return
		}
		select {
		case <-s.taken:
		case <-s.ended:
		}
	}
}
