package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"codex.internal/pkg/host/peercred"
)

// route is the destination of an allowed request.
type route struct {
	addresses []netip.Addr
	port      uint16
	upstream  *url.URL // nil: none
	// unreachable is why an allowed host cannot be connected to; nil: it can.
	unreachable error
}

// errOwnPort means that this program itself listens on the port.
var errOwnPort = errors.New("the port belongs to the server itself")

// dial connects to one of the addresses of a route, which decide has judged, or to the upstream
// proxy of the route. Proxy.Close closes the connection.
func (x *Proxy) dial(ctx context.Context, r route) (net.Conn, error) {
	if r.unreachable != nil {
		return nil, r.unreachable
	}
	if !x.begin() {
		return nil, net.ErrClosed
	}
	defer x.wg.Done()
	ctx, done := context.WithTimeout(ctx, connectTime)
	defer done()
	stop := context.AfterFunc(x.ctx, done)
	defer stop()
	var conn net.Conn
	var err error
	if r.upstream != nil {
		// The operator has chosen the upstream proxy, so its address is not judged.
		dialer := net.Dialer{Resolver: &net.Resolver{PreferGo: true}}
		conn, err = dialer.DialContext(ctx, "tcp", r.upstream.Host)
	} else {
		conn, err = x.dialAddresses(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if err := x.keep(conn); err != nil {
		return nil, err
	}
	return &outside{Conn: conn.(*net.TCPConn), proxy: x}, nil
}

// outside is a connection to a host. It keeps TCPConn's methods, so that the kernel can move bytes
// from one connection to the other.
type outside struct {
	Conn
	proxy *Proxy
}

// Conn is the part of a TCP connection that tunnels need.
type Conn = *net.TCPConn

// Close closes the connection.
func (o *outside) Close() error {
	o.proxy.forget(o.Conn)
	return o.Conn.Close()
}

// dialAddresses connects to the first address that answers. After nextAddressTime it also tries the
// next address. Otherwise an address of a family that does not work here would use up the whole
// time limit.
func (x *Proxy) dialAddresses(ctx context.Context, r route) (net.Conn, error) {
	if len(r.addresses) == 0 {
		return nil, errors.New("the name does not resolve")
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	type outcome struct {
		conn net.Conn
		err  error
	}
	outcomes := make(chan outcome, len(r.addresses))
	next, running := 0, 0
	start := func() {
		to := netip.AddrPortFrom(r.addresses[next].Unmap(), r.port)
		next++
		running++
		x.wg.Go(func() {
			conn, err := x.dialOne(ctx, to)
			outcomes <- outcome{conn, err}
		})
	}
	defer func() {
		// Attempts that are still running when another one succeeds are cancelled, and end by
		// themselves.
		for range running {
			x.wg.Go(func() {
				if o := <-outcomes; o.conn != nil {
					_ = o.conn.Close()
				}
			})
		}
	}()
	var first error
	for start(); ; {
		timer, stop := context.WithTimeout(ctx, nextAddressTime)
		waiting := timer.Done()
		if next == len(r.addresses) || running >= maxAttempts || ctx.Err() != nil {
			waiting = nil
		}
		select {
		case o := <-outcomes:
			running--
			if o.err == nil {
				stop()
				return o.conn, nil
			}
			if first == nil {
				first = o.err
			}
		case <-waiting:
		}
		stop()
		switch {
		case ctx.Err() == nil && next < len(r.addresses):
			start()
		case running == 0:
			return nil, first
		}
	}
}

// dialOne connects to an address, unless this program itself listens there. It also checks the
// address that it has actually connected to.
func (x *Proxy) dialOne(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	own := x.host.ownPort(to.Port())
	if own && peercred.IsOwnAddress(to.Addr()) {
		return nil, errOwnPort
	}
	dialer := net.Dialer{Timeout: attemptTime, Control: peercred.Carried}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err == nil && own && peercred.IsOwnAddress(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()) {
		_ = conn.Close()
		return nil, errOwnPort
	}
	return conn, err
}

// ownPort reports whether this program listens on a port of this machine.
func (h *Host) ownPort(port uint16) bool {
	_, proxy := h.ports.Load(port)
	return proxy || h.opts.OwnPort(port)
}

// tunnelTo connects to the host of a tunnel, through the route's upstream proxy if there is one.
// The reader, if not nil, holds bytes that the other side has already sent.
func (x *Proxy) tunnelTo(ctx context.Context, q Question, r route) (*outside, *bufio.Reader, error) {
	conn, err := x.dial(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	out := conn.(*outside)
	if r.upstream == nil {
		return out, nil, nil
	}
	early, err := connectThrough(ctx, out, r.upstream, net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))))
	if err != nil {
		_ = out.Close()
		return nil, nil, err
	}
	return out, early, nil
}

// connectThrough asks an upstream proxy for a tunnel.
func connectThrough(ctx context.Context, conn net.Conn, upstream *url.URL, target string) (*bufio.Reader, error) {
	ctx, done := context.WithTimeout(ctx, connectTime)
	defer done()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	text := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if user := upstream.User; user != nil {
		password, _ := user.Password()
		text += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return nil, fmt.Errorf("ask the upstream proxy: %w", err)
	}
	head := &io.LimitedReader{R: conn, N: maxAnswerHead}
	reader := bufio.NewReader(head)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("read the upstream proxy's answer: %w", err)
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("the upstream proxy answered %d", answer.StatusCode)
	}
	if !stop() {
		return nil, ctx.Err()
	}
	// The reader is still needed for bytes that were read together with the head.
	head.N = 0
	return reader, nil
}
