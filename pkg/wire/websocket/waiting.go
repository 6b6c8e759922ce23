package websocket

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// LimitWaiting returns a listener that bounds unauthenticated connections: those for which
// Admit was not called yet. At most total of them are open. For a further connection, it closes
// the oldest connection of the source that has the most. So a client that sends its request at
// once is served, however many silent connections other clients open, and a source with many
// connections does not displace those of a source with few.
//
// source returns the source of a connection; nil: Source.
func LimitWaiting(l net.Listener, total int, source func(net.Conn) string) net.Listener {
	if source == nil {
		source = Source
	}
	return &waitingListener{Listener: l, total: total, source: source, waiting: make(map[string][]*waitingConn)}
}

// Admit marks a connection of LimitWaiting as authenticated: it no longer counts, and no newer
// connection displaces it. For other connections it does nothing.
func Admit(conn net.Conn) {
	for conn != nil {
		if w, ok := conn.(*waitingConn); ok {
			w.l.forget(w)
			return
		}
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = outer.NetConn()
	}
}

// Source returns the address of a connection's peer without its port; for IPv6,
// the /64 network.
func Source(conn net.Conn) string {
	a, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	if a.IP.To4() == nil {
		// One machine may use every address of its /64 network.
		return a.IP.Mask(net.CIDRMask(64, 128)).String()
	}
	return a.IP.String()
}

type waitingListener struct {
	net.Listener
	total  int
	source func(net.Conn) string

	mu      sync.Mutex
	count   int
	waiting map[string][]*waitingConn // connections by source, the oldest first
}

// Accept implements net.Listener.
func (l *waitingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, retryShortage(err)
	}
	w := &waitingConn{Conn: conn, l: l, source: l.source(conn)}
	if surplus := l.add(w); surplus != nil {
		_ = surplus.Conn.Close()
	}
	return w, nil
}

// retryShortage converts an error about a temporary shortage, so that net/http calls Accept
// again, after pauses of up to a second. For a shortage of descriptors net/http does that
// itself, but a shortage of memory would end the server.
func retryShortage(err error) error {
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS) {
		return shortage{err}
	}
	return err
}

// shortage is a temporary error. It implements net.Error.
type shortage struct{ error }

func (shortage) Temporary() bool { return true }
func (shortage) Timeout() bool   { return false }
func (e shortage) Unwrap() error { return e.error }

// add counts a connection. It returns the connection that must be closed in exchange, or nil.
func (l *waitingListener) add(w *waitingConn) (surplus *waitingConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[w.source] = append(l.waiting[w.source], w)
	l.count++
	if l.count <= l.total {
		return nil
	}
	var most []*waitingConn
	for _, of := range l.waiting {
		if len(of) > len(most) {
			most = of
		}
	}
	surplus = most[0]
	l.drop(surplus)
	return surplus
}

func (l *waitingListener) forget(w *waitingConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(w)
}

// drop stops counting a connection. Further calls for it do nothing. The caller holds the lock.
func (l *waitingListener) drop(w *waitingConn) {
	of := l.waiting[w.source]
	for i, other := range of {
		if other != w {
			continue
		}
		l.count--
		if of = append(of[:i:i], of[i+1:]...); len(of) == 0 {
			delete(l.waiting, w.source)
		} else {
			l.waiting[w.source] = of
		}
		return
	}
}

// waitingConn is a connection of a waitingListener.
type waitingConn struct {
	net.Conn
	l      *waitingListener
	source string
}

// NetConn returns the underlying connection.
func (w *waitingConn) NetConn() net.Conn { return w.Conn }

// Close implements net.Conn.
func (w *waitingConn) Close() error {
	w.l.forget(w)
	return w.Conn.Close()
}

// CloseWrite closes the sending side, if the connection supports that.
func (w *waitingConn) CloseWrite() error { return closeWrite(w.Conn) }

// NewHTTPServer returns a server for unauthenticated requests, one per connection. It ends a
// connection after every answer except an upgrade. It has deadlines for a request's head and
// body, and for reading the answer. Upgraded connections have none of these deadlines.
func NewHTTPServer(h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: requestTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      requestTime + answerTime, // the time begins at the end of the head
		IdleTimeout:       requestTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          log.New(io.Discard, "", 0), // otherwise net/http logs clients that disconnect
	}
	s.SetKeepAlivesEnabled(false)
	return s
}
