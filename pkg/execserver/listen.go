//go:build linux || darwin

package execserver

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"codex.internal/pkg/transport"
)

const (
	// headerTime bounds how long a client may take to send its request.
	headerTime = 10 * time.Second
	// headerBytes bounds a request's head: a websocket upgrade with a token.
	headerBytes = 64 << 10
)

// discardLog swallows what net/http says about clients that break off.
var discardLog = log.New(io.Discard, "", 0)

// Serve accepts connections on l until ctx ends or the server is shut down.
// It closes l and returns ErrServerClosed, or the listener's error. The
// server is not shut down by it: connections that are open go on.
func (srv *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           srv,
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          discardLog,
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-srv.stopped:
		case <-stop:
		}
		_ = h.Close() // connections that were upgraded are no longer its own
	}()
	err := h.Serve(l)
	close(stop)
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return ErrServerClosed
	}
	return err
}

// ServeHTTP is the listening port's HTTP side (section 1): websockets at /,
// readiness at /readyz, /livez and /healthz. Requests with an Origin come from
// web pages and are refused. It can stand in any mux, at the root.
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.Header.Values("Origin")) > 0 {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/":
		srv.serveRoot(w, r)
	case "/readyz", "/livez", "/healthz":
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.WriteHeader(http.StatusOK)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// serveRoot turns a request into a connection.
func (srv *Server) serveRoot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if srv.opts.Auth != nil {
		if err := srv.opts.Auth.Check(r); err != nil {
			srv.log.Warn("connection refused", "peer", r.RemoteAddr, "reason", err)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
	}
	if err := srv.admit(); err != nil {
		srv.log.Warn("connection refused", "peer", r.RemoteAddr, "reason", err)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	t, err := transport.Upgrade(w, r, srv.opts.MaxMessage)
	if err != nil {
		srv.leave()
		srv.log.Debug("upgrade failed", "peer", r.RemoteAddr, "error", err)
		return
	}
	// The HTTP server's goroutine ends here, so that its request and buffers
	// do not live as long as the connection.
	go func() {
		defer srv.leave()
		newConn(srv.ctx, srv, t).serve()
	}()
}
