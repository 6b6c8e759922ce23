package execserver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/peercred"
	"codex.internal/pkg/wire/websocket"
)

// Listener is a listener for clients. It has its own rules for which clients may connect.
type Listener struct {
	net.Listener
	// TLS encrypts connections; nil: they are not encrypted. TLS.ClientAuth may require a
	// certificate. A client with a verified certificate needs no token, unless Options.Auth is
	// set: then it needs both.
	TLS *tls.Config
	// AnyPeer is Options.AnyPeer for this listener.
	AnyPeer bool
}

// Serve accepts connections on l until ctx ends or the server is shut down. It closes l and
// returns ErrServerClosed, or the listener's error. It does not shut the server down: open
// connections continue.
//
// Unauthenticated clients must send their request within seconds, and may take
// 1/waitingShare of the descriptors, so that other clients can always connect.
func (srv *Server) Serve(ctx context.Context, l net.Listener) error {
	return srv.serve(ctx, Listener{Listener: l}, waitingLimit())
}

// ServeTLS is Serve with TLS: see Listener.
func (srv *Server) ServeTLS(ctx context.Context, l net.Listener, config *tls.Config) error {
	return srv.serve(ctx, Listener{Listener: l, TLS: config}, waitingLimit())
}

// ServeListeners is Serve for several listeners, which share the limit of unauthenticated
// clients. If one fails, the others end too, and the error names its address.
func (srv *Server) ServeListeners(ctx context.Context, list []Listener) error {
	if len(list) == 1 {
		return srv.serve(ctx, list[0], waitingLimit())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(list))
	for _, l := range list {
		go func() {
			err := srv.serve(ctx, l, max(1, waitingLimit()/len(list)))
			if !errors.Is(err, ErrServerClosed) {
				err = fmt.Errorf("%s: %w", l.Addr(), err)
			}
			ends <- err
			cancel()
		}()
	}
	first := <-ends // the first error is the reason why the others end
	for range len(list) - 1 {
		<-ends
	}
	return first
}

// certificateEnd returns when the certificate that clients get expires; zero: there is none.
func (srv *Server) certificateEnd() time.Time {
	config := srv.certified.Load()
	if config == nil {
		return time.Time{}
	}
	if config.GetConfigForClient != nil { // it reads files that have changed
		if now, err := config.GetConfigForClient(nil); err == nil && now != nil {
			config = now
		}
	}
	if len(config.Certificates) == 0 || config.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return config.Certificates[0].Leaf.NotAfter
}

// serve is Serve with a limit of unauthenticated clients.
func (srv *Server) serve(ctx context.Context, from Listener, waiting int) error {
	srv.listening(from.Addr())
	l := websocket.LimitWaiting(from.Listener, waiting, sourceOf)
	if from.TLS != nil {
		l = tls.NewListener(l, from.TLS)
		srv.certified.Store(from.TLS)
	}
	h := websocket.NewHTTPServer(http.HandlerFunc(srv.servePort))
	// Only an HTTP/1.1 connection can be upgraded to a websocket.
	h.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	h.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, arrival{conn, from.AnyPeer})
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
		_ = h.Close() // it does not close upgraded connections
	}()
	err := h.Serve(l)
	close(stop)
	<-done
	if errors.Is(err, http.ErrServerClosed) {
		return ErrServerClosed
	}
	return err
}

// connKey is the key of a request's arrival in its context.
type connKey struct{}

// arrival is the connection of a request, and the rules of its listener.
type arrival struct {
	conn    net.Conn
	anyPeer bool
}

// arrivalOf returns how a request arrived. ok is false for a request from the HTTP server of
// another program.
func arrivalOf(r *http.Request) (a arrival, ok bool) {
	a, ok = r.Context().Value(connKey{}).(arrival)
	return a, ok
}

// waitingLimit returns the limit of open unauthenticated connections.
func waitingLimit() int {
	return int(max(1, min(maxWaiting, descriptorLimit()/waitingShare)))
}

// sourceOf returns the source of a connection before its first byte: the user of a client on
// this machine, or the address of another client.
func sourceOf(conn net.Conn) string {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		return websocket.Source(conn)
	}
	uid, err := peercred.UserOf(conn)
	if err != nil {
		return websocket.Source(conn)
	}
	return userPrincipal(uid)
}

// anybody is the principal of all clients that are not identified.
const anybody = "anybody"

// userPrefix begins the principals of processes on this machine, which need no token.
const userPrefix = "user "

func userPrincipal(uid int) string { return userPrefix + strconv.Itoa(uid) }

// isCertified reports whether a client of ServeTLS has presented a verified
// certificate. A certificate that another program's HTTP server verified may be
// meant for other purposes.
func isCertified(r *http.Request) bool {
	_, own := arrivalOf(r)
	return own && r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// certified returns the principal of a client with a certificate. Certificates with the same
// name are the same principal, so that a renewed certificate keeps its sessions.
func certified(cert *x509.Certificate) string {
	if name := cert.Subject.String(); name != "" {
		return "certificate of " + name
	}
	return fmt.Sprintf("certificate with the key %x", sha256.Sum256(cert.RawSubjectPublicKeyInfo))
}

// authenticate returns what a client may do, or the reason to refuse it. Without Options.Auth,
// the client must have a verified certificate, or be a process of this user or of root that no
// sandbox confines.
func (srv *Server) authenticate(r *http.Request) (wsauth.Grant, *observe.Refused) {
	switch {
	case srv.keeper != nil:
		grant := wsauth.Unlimited(srv.keeper.Record.Owner)
		grant.Ceiling = srv.keeper.Record.Ceiling
		return grant, srv.keeper.admits(srv, r)
	case srv.opts.Auth != nil:
		grant, err := srv.opts.Auth.Authenticate(r)
		if err != nil {
			return grant, &observe.Refused{Status: http.StatusUnauthorized, Principal: grant.Principal, Err: err}
		}
		return grant, nil
	case isCertified(r):
		return wsauth.Unlimited(certified(r.TLS.PeerCertificates[0])), nil
	case srv.admitsAnybody(r):
		return wsauth.Unlimited(anybody), nil
	}
	if !statuspage.IsLiteralHost(r.Host) {
		// The client may be a browser that runs a web page, and the name of the page may
		// resolve to this machine (DNS rebinding).
		return wsauth.Grant{}, &observe.Refused{
			Status: http.StatusForbidden, Err: errors.New("the client is refused: without a token the URL must have an IP address or localhost, and not another name"),
		}
	}
	uid, err := srv.identify(r)
	if err != nil {
		const hint = "to accept other clients, start codex exec-server with --ws-auth and give them the token"
		return wsauth.Grant{}, &observe.Refused{Status: http.StatusForbidden, Err: fmt.Errorf("%w; %s", err, hint)}
	}
	return wsauth.Unlimited(userPrincipal(uid)), nil
}

// admitsAnybody reports whether a request came to a listener that accepts every client.
func (srv *Server) admitsAnybody(r *http.Request) bool {
	a, _ := arrivalOf(r)
	return srv.opts.AnyPeer || a.anyPeer
}

// authorize is authenticate for a request that needs a role.
func (srv *Server) authorize(r *http.Request, role wsauth.Role) *observe.Refused {
	grant, refused := srv.authenticate(r)
	if refused == nil && !grant.Role.Allows(role) {
		refused = &observe.Refused{Status: http.StatusForbidden, Principal: grant.Principal, Err: fmt.Errorf("%s needs a token with the role %s, and this one has %s", r.URL.Path, role, grant.Role)}
	}
	return refused
}

// identify returns the user of the process that has sent a request.
func (srv *Server) identify(r *http.Request) (uid int, err error) {
	if a, ok := arrivalOf(r); ok {
		return peercred.Identify(a.conn)
	}
	// The request came through the HTTP server of a program that embeds this one.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if !ok || err != nil {
		return 0, errors.New("the client is refused: its address is unknown")
	}
	return peercred.IdentifyTCP(local.AddrPort(), remote)
}

// ServeHTTP serves clients in the mux of another program. It accepts a request for a websocket
// at any path. It answers other requests like the port of Serve.
func (srv *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	srv.listening(r.Context().Value(http.LocalAddrContextKey))
	if websocket.IsUpgrade(r) && len(r.Header.Values("Origin")) == 0 {
		srv.serveRoot(w, r)
		return
	}
	srv.servePort(w, r)
}

// servePort handles HTTP requests on the listening port (docs/spec/wire.md §1.2): websockets at
// /, readiness at /readyz, /livez and /healthz, metrics at /metrics, the status page at
// /status. It refuses requests with an Origin, which come from web pages. The only exception is
// the form of the status page.
func (srv *Server) servePort(w http.ResponseWriter, r *http.Request) {
	if len(r.Header.Values("Origin")) > 0 && !statuspage.IsOwnForm(r) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/":
		srv.serveRoot(w, r)
	case "/readyz", "/livez", "/healthz":
		srv.serveHealth(w, r)
	case statuspage.Path:
		if srv.keeper != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		srv.statusPage.ServeHTTP(w, r)
	case observe.MetricsPath:
		srv.serveMetrics(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// serveHealth answers whether the server lives, and at /readyz whether it accepts new work.
func (srv *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/readyz" {
		if reason := srv.unready(); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// unready returns the reason why the server accepts no new work; empty: it does.
func (srv *Server) unready() string {
	switch {
	case srv.opts.Audit != nil && srv.opts.Audit.Log.Health().Refuses:
		return "the audit log cannot be written: the server accepts no new work"
	case srv.opts.RequireSandbox && srv.CheckSandbox() != nil:
		return "commands cannot be confined here; the log has the reason"
	case srv.opts.RequireRelay && !srv.Remote().IsConnected():
		return "the server is not connected to the relay; the log has the reason"
	default:
		return ""
	}
}

// serveMetrics serves the metrics on the listening port. The client needs the role admin.
func (srv *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if refused := srv.authorize(r, wsauth.RoleAdmin); refused != nil {
		srv.refuse(w, r, refused)
		return
	}
	srv.metrics.ServeHTTP(w, r)
}

// refuse answers a client that may not connect.
func (srv *Server) refuse(w http.ResponseWriter, r *http.Request, why *observe.Refused) {
	why.Peer = r.RemoteAddr
	srv.events.ConnectionRefused.Tell(*why)
	http.Error(w, why.Err.Error(), why.Status)
}

// serveRoot upgrades a request to a websocket connection.
func (srv *Server) serveRoot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	grant, refused := srv.authenticate(r)
	if refused != nil {
		srv.refuse(w, r, refused)
		return
	}
	account, err := srv.admit(grant)
	if err != nil {
		srv.refuse(w, r, &observe.Refused{Status: http.StatusServiceUnavailable, Principal: grant.Principal, Err: err})
		return
	}
	t, err := websocket.Upgrade(w, r, websocket.Options{
		Limit: srv.opts.MaxMessage, ExplainLimit: true, Ping: pingInterval, CountWrites: true,
		Memory: &messageMemory{srv.ctx, account},
	}, nil)
	if err != nil {
		srv.leave(account)
		srv.log.Debug("upgrade failed", "peer", r.RemoteAddr, "error", err)
		return
	}
	// The HTTP server's goroutine ends here, so that its request and buffers are released
	// before the connection ends.
	go func() {
		defer srv.leave(account)
		srv.serveTransport(t, observe.Websocket, r.UserAgent(), grant, account)
	}()
}
