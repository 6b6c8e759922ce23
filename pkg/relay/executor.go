package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// Registration is the relay's URL for an executor and the names under which harnesses
// find it.
type Registration struct {
	URL            string // ws or wss; its query is secret
	EnvironmentID  string
	RegistrationID string // may be empty
	// Header is added to the request for the websocket. If it is nil, the request is like Codex
	// CLI's, which contains no description. The caller must not change it afterwards.
	Header http.Header
}

// ExecutorOptions configure an Executor. Its functions are called from several goroutines, and must
// return when their context ends. Run waits for them.
type ExecutorOptions struct {
	// Identity is the key pair of the executor for the life of the process.
	Identity *noise.Identity
	// Register registers the executor's public key and returns the relay's URL. It is called before
	// the first connection, and again whenever the relay refuses the last URL with HTTP 4xx. See
	// Run for its errors. It must return within 30 s.
	Register func(context.Context) (Registration, error)
	// Validate returns an error unless a harness may connect. Its arguments are the registration id
	// of the connection, the key of the harness, and the authorization that the harness has sent,
	// which has at most 4096 bytes of UTF-8. It also returns the registry's grant for the harness,
	// which applies only to the stream of this handshake; nil: there is no grant. It must return
	// within 10 s.
	Validate func(ctx context.Context, registrationID string, harness noise.PublicKey, authorization string) (*tokens.Grant, error)
	// Serve serves one stream. It must return when the stream ends; if it returns earlier, the
	// stream ends.
	Serve func(websocket.Transport)
	// Connected is called each time the executor has connected and harnesses can reach it. It may
	// be nil.
	Connected func()
	// Disconnected is called when a connection that was reported by Connected has ended. It may be
	// nil.
	Disconnected func()
	// Plain makes streams behave like Codex CLI's: they acknowledge nothing and end
	// with their websocket.
	Plain bool
	// DialContext makes the network connection of a websocket, and ends with its context.
	// nil: a net.Dialer is used.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	TLS         *tls.Config  // of the websockets; nil: the system's authorities are trusted
	Logger      *slog.Logger // nil: no log
}

// Executor is the end of a relayed stream that serves it. It has one websocket at a time, for up to
// 128 streams.
//
// Run owns all its goroutines: a writer and a reader per websocket, one per request to the
// registry, and two per stream (its timer and Serve).
type Executor struct {
	opts  ExecutorOptions
	log   *slog.Logger
	pause func(context.Context, time.Duration) error // wait.For, but in tests
	wg    sync.WaitGroup

	mu      sync.Mutex
	streams map[string]*stream
	// registration is the registration under which the streams were made.
	registration Registration
}

// NewExecutor returns an executor. Call Run to connect it.
func NewExecutor(o ExecutorOptions) *Executor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{opts: o, log: o.Logger, pause: wait.For, streams: make(map[string]*stream)}
}

// Run registers the executor and keeps it connected until ctx ends or a registration fails. It
// returns nil, or the registration's error, unwrapped. A registration after the first is retried if
// its error has a method Retryable() bool that returns true. At its end Run resets all streams and
// waits for its goroutines. It may be called once.
func (e *Executor) Run(ctx context.Context) error {
	defer e.wg.Wait()
	defer e.endStreams(errAborted)
	registration, err := e.register(ctx)
	pause := firstPause
	for err == nil && ctx.Err() == nil {
		l, dialErr := dialLink(ctx, registration.URL, linkOptions{
			header: registration.Header, tls: e.opts.TLS, timeout: executorDialTime, ping: pingInterval, connect: e.opts.DialContext, log: e.log,
		})
		switch {
		case dialErr == nil:
			pause = firstPause
			e.serve(ctx, l, registration)
		case ctx.Err() != nil:
		case refused(dialErr):
			e.log.Info("the relay refused the connection: registering again", "error", dialErr)
			registration, err = e.registerAgain(ctx, registration)
		default:
			e.log.Warn("no connection to the relay", "error", dialErr, "pause", pause)
		}
		if err == nil {
			_ = e.pause(ctx, pause) // the loop ends with ctx
			pause = min(2*pause, lastPause)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// refused reports whether the relay refused this registration.
func refused(err error) bool {
	var e *websocket.DialError
	return errors.Is(err, errURL) || errors.As(err, &e) && e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError
}

func (e *Executor) register(ctx context.Context) (Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	return e.opts.Register(ctx)
}

// registerAgain replaces a registration that the relay refuses. If the registry's error may be
// temporary, it returns the old registration, for another attempt.
func (e *Executor) registerAgain(ctx context.Context, old Registration) (Registration, error) {
	registration, err := e.register(ctx)
	var passing interface{ Retryable() bool }
	if errors.As(err, &passing) && passing.Retryable() {
		e.log.Warn("registering failed; trying again", "error", err)
		return old, nil
	}
	return registration, err
}

// serve serves a link until the link or ctx ends, and closes it.
func (e *Executor) serve(ctx context.Context, l *link, r Registration) {
	v := newExecutorConn(ctx, e, l, r)
	e.log.Info("connected to the relay", "url", l.url)
	e.resume(l, r)
	if e.opts.Connected != nil {
		e.opts.Connected()
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		e.endStreams(errAborted)
		l.shut()
	})
	err := v.read()
	if !stop() {
		<-interrupted
		err = errStopped // regardless of the error that ended the reading
	}
	v.end()
	if e.opts.Disconnected != nil {
		e.opts.Disconnected()
	}
	l.close()
	for _, s := range e.all() {
		s.detach()
	}
	v.wg.Wait()
	e.log.Info("disconnected from the relay", "url", l.url, "reason", err)
}

// resume attaches the retained streams to the new link. It ends the streams of another
// registration, because their harnesses look for them under that registration.
func (e *Executor) resume(l *link, r Registration) {
	e.mu.Lock()
	same := e.registration.RegistrationID == r.RegistrationID && e.registration.EnvironmentID == r.EnvironmentID
	e.registration = r
	e.mu.Unlock()
	if !same {
		e.endStreams(errReplaced)
	}
	for _, s := range e.all() {
		s.attach(l)
	}
}

// endStreams ends all streams.
func (e *Executor) endStreams(why error) {
	for _, s := range e.all() {
		s.end(why)
	}
}

func (e *Executor) all() []*stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*stream, 0, len(e.streams))
	for _, s := range e.streams {
		all = append(all, s)
	}
	return all
}

// stream returns the active stream of an id, or nil.
func (e *Executor) stream(id string) *stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[id]
}

// ended frees the slot of a stream that has ended. It notifies the peer, unless the peer has ended
// the stream.
func (e *Executor) ended(s *stream, l *link, why error) {
	e.mu.Lock()
	if e.streams[s.id] == s { // the id may belong to a new stream
		delete(e.streams, s.id)
	}
	e.mu.Unlock()
	e.log.Debug("stream ended", "stream", streamID(s.id), "reason", why)
	farewell(s, l, why, reasonExecutor)
}

// farewell notifies the peer that a stream has ended, unless the peer knows that already. After a
// Close, the stream's remaining records are sent first.
func farewell(s *stream, l *link, why error, reason string) {
	switch reset := s.reset(reason); {
	case l == nil, errors.Is(why, frame.ErrReset):
	case why == ErrClosed:
		l.pushLast(reset)
	default:
		l.push(reset)
	}
}

// These are the reasons that are sent to peers. To a peer, all failures must look alike.
const (
	reasonExecutor = "noise_relay_protocol_error"
	reasonHarness  = "harness_closed"
)

func resetOf(id, reason string) frame.Frame {
	return frame.Frame{StreamID: id, Kind: frame.Reset, Reason: reason}
}
