package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// Bundle is what a harness needs for one websocket. The values of two bundles must not be mixed.
type Bundle struct {
	Registration
	ExecutorKey noise.PublicKey
	// Authorization is checked by the executor's registry. It has at most 4096 bytes of UTF-8, and
	// can be used once.
	Authorization string
}

// HarnessOptions configure a Harness.
type HarnessOptions struct {
	// Identity is the key pair of the harness for the life of the environment.
	Identity *noise.Identity
	// Connect requests a bundle from the registry. It must return within 10 s. Its errors are
	// returned unchanged.
	Connect func(context.Context) (Bundle, error)
	// Plain makes streams behave like Codex CLI's: they acknowledge nothing and
	// end with their websocket.
	Plain bool
	// OnLink is called with the reason when a stream has lost its websocket and the first attempt
	// to replace it has failed. It is called with nil when there is a new websocket. It is not
	// called for the end of a stream. It must not block. It may be nil.
	OnLink func(lost error)
	// DialContext makes the network connection of a websocket, and ends with its context.
	// nil: a net.Dialer is used.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Jitter returns the random part of a pause before another attempt. It is at least 0 and less
	// than most. Several goroutines call it. nil: all durations are equally likely. A simulation
	// derives it from its seed.
	Jitter func(most time.Duration) time.Duration
	TLS    *tls.Config  // for the websockets; nil: the system's authorities are trusted
	Logger *slog.Logger // nil: no log
}

// Harness is the end of the relay that opens streams to one executor. It may be used from any
// goroutine.
type Harness struct {
	opts     HarnessOptions
	log      *slog.Logger
	dialed   atomic.Bool
	patience time.Duration // with an executor's answer
}

// NewHarness returns a harness that is not connected.
func NewHarness(o HarnessOptions) *Harness {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	return &Harness{opts: o, log: o.Logger, patience: handshakeTime}
}

// RetryPause returns the pause before an attempt to Dial after a stream was lost. attempt counts
// from 0.
func (h *Harness) RetryPause(attempt int) time.Duration {
	base := min(firstRetry<<min(max(attempt, 0), 4), lastRetry)
	return base + h.opts.Jitter(base/2+1)
}

// Dial makes a stream on its own websocket. It requests a bundle, connects, and makes the
// handshake, each within 10 s. If the first connection is refused with HTTP 401, it requests
// another bundle and tries once more. The error is the registry's, a *websocket.DialError, a
// *HandshakeError or the context's.
func (h *Harness) Dial(ctx context.Context) (*Conn, error) {
	first := !h.dialed.Swap(true)
	b, l, err := h.dial(ctx)
	var refused *websocket.DialError
	if first && errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		b, l, err = h.dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	c, err := h.open(ctx, b, l)
	if err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

// dial asks for a bundle and makes the websocket that it is for.
func (h *Harness) dial(ctx context.Context) (Bundle, *link, error) {
	bound, cancel := context.WithTimeout(ctx, connectTime)
	b, err := h.opts.Connect(bound)
	cancel()
	if err != nil {
		return Bundle{}, nil, err
	}
	l, err := dialLink(ctx, b.URL, linkOptions{header: b.Header, tls: h.opts.TLS, timeout: dialTime, connect: h.opts.DialContext, log: h.log})
	return b, l, err
}

// open makes a stream on a link. After an error the caller closes the link.
func (h *Harness) open(ctx context.Context, b Bundle, l *link) (*Conn, error) {
	id := uuid.NewString()
	channel := noise.Channel{EnvironmentID: b.EnvironmentID, ExecutorRegistrationID: b.RegistrationID, StreamID: id}
	initiator, message1, err := noise.NewInitiator(h.opts.Identity, b.ExecutorKey, channel, []byte(b.Authorization))
	if err != nil {
		return nil, handshakeFailed(err)
	}
	bound, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	reset := resetOf(id, reasonHarness)
	interrupt := context.AfterFunc(bound, func() {
		l.push(reset)
		l.shut()
	})
	l.push(frame.Frame{StreamID: id, Kind: frame.Resume})
	l.push(frame.Frame{StreamID: id, Kind: frame.Handshake, Payload: message1})
	message2, err := l.answer(id)
	if !interrupt() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// Codex CLI treats the handshake as a part of initialize, and so does the text of this
		// error.
		return nil, &HandshakeError{text: fmt.Sprintf("timed out waiting for exec-server initialize handshake after %v", h.patience)}
	}
	if err != nil {
		l.push(reset)
		return nil, err
	}
	session, err := initiator.Finish(message2)
	if err != nil {
		l.push(reset)
		return nil, handshakeFailed(err)
	}
	return newConn(h, b, l, id, session), nil
}

func handshakeFailed(err error) error {
	return &HandshakeError{text: fmt.Sprintf("Noise relay handshake failed: %v", err), err: err}
}

// answer returns message 2 of a stream's handshake.
func (l *link) answer(id string) ([]byte, error) {
	fail := func(text string, err error) ([]byte, error) { return nil, &HandshakeError{text: text, err: err} }
	const early = "Noise relay received data before handshake completion"
	for {
		f, err := l.read()
		switch {
		case errors.Is(err, frame.ErrInvalid):
			if f.StreamID == id {
				return fail(early, err)
			}
		case errors.Is(err, errNotBinary):
			return fail(err.Error(), err)
		case errors.Is(err, frame.ErrUndecodable):
			return fail(fmt.Sprintf("failed to parse Noise relay frame: %v", err), err)
		case isCloseFrame(err):
			return fail("Noise relay websocket received close frame during handshake", err)
		case err != nil:
			return fail("Noise relay websocket ended during handshake", err)
		case f.StreamID != id:
		case f.Kind == frame.Handshake:
			return f.Payload, nil
		case f.Kind == frame.Reset:
			return fail(frame.ErrReset.Error(), frame.ErrReset)
		case f.Kind == frame.Data:
			return fail(early, nil)
		}
	}
}
