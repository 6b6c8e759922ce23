package rendezvous

import (
	"context"
	"errors"
	"time"

	"codex.internal/pkg/wire/websocket"

	"codex.internal/pkg/relay/frame"
)

// receive handles the executor's frames.
func (x *executor) receive(ctx context.Context, h header, in *websocket.Message) error {
	x.mu.Lock()
	harness, token := "", ""
	var share *share
	if s := x.streams[h.stream]; s != nil {
		harness, token, share = s.harness, s.token, s.share
		s.executorAcks = s.executorAcks || h.kind == frame.Ack
		if h.kind != frame.Reset {
			x.answer(s)
		} else {
			x.failed(s)
		}
	} else if h.kind == frame.Reset {
		x.refusedLate(h.stream)
	}
	if h.kind == frame.Reset {
		// Do this before the harness gets the frame, because it may then reuse the id.
		x.free(h.stream)
	}
	x.mu.Unlock()
	if harness == "" {
		// The harness has disconnected, or has not reconnected yet.
		x.srv.metrics.drop(dropUnknownStream)
		return nil
	}
	size := len(in.Bytes())
	held := int64(size + frameBytes)
	if !share.down.TryAcquire(held) {
		err := x.stall(ctx, harness, token, share, func(ctx context.Context) error { return share.down.Acquire(ctx, held) })
		switch {
		case errors.Is(err, errCut):
			in.Release()
			x.srv.metrics.drop(dropHarnessGone)
			return nil
		case err != nil:
			return err
		}
	}
	admitted, err := x.account.down.admit(ctx, size)
	if err != nil {
		share.down.Release(held)
		return err
	}
	done := func() { admitted(); share.down.Release(held); in.Release() }
	m := Message{Kind: Frame, From: x.address, Stream: h.stream, Frame: h.kind, Data: in.Bytes(), Done: done}
	send := func(ctx context.Context) error {
		_, err := x.srv.bus.Send(ctx, harness, m)
		return err
	}
	// Most harnesses have space, so try without waiting first.
	if err = send(ended); err != nil {
		err = x.stall(ctx, harness, token, share, send)
	}
	switch {
	case errors.Is(err, ErrNobody), errors.Is(err, errCut):
		done()
		x.srv.metrics.drop(dropHarnessGone)
	case err != nil:
		done()
		return err
	default:
		x.account.down.meter.add(size, x.srv.now())
		x.srv.metrics.framesDown.Inc()
		x.srv.metrics.bytesDown.Add(size)
	}
	return nil
}

// errCut means that a harness was disconnected because the executor's output waited for the harness
// for too long.
var errCut = errors.New("the harness was disconnected")

// ended is a context that has already ended, for calls that must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// stall calls f to wait for a harness that does not read. f must return when its context ends. The
// executor has one connection for all its harnesses, so the others wait too. If a harness of
// another token is connected, the waiting time is charged to the token of the slow harness. When
// that token has no time left, the slow harness is disconnected, and the error is errCut.
func (x *executor) stall(ctx context.Context, harness, token string, share *share, f func(context.Context) error) error {
	for {
		began := time.Now()
		bound, cancel := context.WithTimeout(ctx, stallSlice)
		err := f(bound)
		cancel()
		waited := time.Since(began)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			if x.disturbs(token) {
				share.stalls.AllowN(began, int(waited.Milliseconds()))
			}
			return err
		}
		if x.disturbs(token) && !share.stalls.AllowN(time.Now(), int(waited.Milliseconds())) {
			x.log.Warn("harness disconnected", "token", token, "reason", closeSlow)
			x.cut(harness, closeSlow)
			return errCut
		}
	}
}

// disturbs reports whether harnesses of other tokens are connected.
func (x *executor) disturbs(token string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.tokens) > 1 || len(x.tokens) == 1 && x.tokens[token] == 0
}

// cut disconnects a harness. The executor gets the same message as if the harness had disconnected
// itself.
func (x *executor) cut(harness string, why *closing) {
	_, _ = x.srv.bus.Send(context.Background(), x.address, Message{Kind: Left, From: harness})
	_, _ = x.srv.bus.Send(context.Background(), harness, Message{Kind: Gone, From: x.address, Data: []byte(why.reason)})
}
