package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// These are the constants of SOCKS5 (RFC 1928) that are used here.
const (
	socksVersion = 5

	socksNoAuth   = 0
	socksNoMethod = 0xff

	socksConnect = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksDone        = 0
	socksRefused     = 2
	socksUnreachable = 5
	socksUnsupported = 7
)

// errSOCKS is the error of a client that does not speak SOCKS5: its connection
// is closed without an answer.
var errSOCKS = errors.New("not a SOCKS5 request")

// socksHello reads a client's greeting and reports whether it offers to continue
// without authentication.
func socksHello(r *bufio.Reader) (bool, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return false, err
	}
	if head[0] != socksVersion {
		return false, errSOCKS
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return false, err
	}
	for _, m := range methods {
		if m == socksNoAuth {
			return true, nil
		}
	}
	return false, nil
}

// socksRequest reads a request.
func socksRequest(r *bufio.Reader) (command byte, host string, port uint16, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, "", 0, err
	}
	if head[0] != socksVersion {
		return 0, "", 0, errSOCKS
	}
	size := 0
	switch head[3] {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		n, err := r.ReadByte()
		if err != nil {
			return 0, "", 0, err
		}
		size = int(n)
	default:
		return 0, "", 0, errSOCKS
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(r, rest); err != nil {
		return 0, "", 0, err
	}
	if head[3] == socksName {
		host = string(rest[:size])
	} else {
		address, _ := netip.AddrFromSlice(rest[:size])
		host = address.String()
	}
	host, ok := normalHost(host)
	if !ok {
		return 0, "", 0, errSOCKS
	}
	return head[1], host, binary.BigEndian.Uint16(rest[size:]), nil
}

// socksReply encodes a reply with an IPv4 address. It is the local address of the connection to the
// host, or 0.0.0.0 if there is no connection or if it uses IPv6. The port is always 0: the process
// does not need it, and it could only help others to find the connection.
func socksReply(code byte, local net.Addr) []byte {
	reply := []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
	if tcp, ok := local.(*net.TCPAddr); ok {
		if a := tcp.AddrPort(); a.Addr().Unmap().Is4() {
			copy(reply[4:], a.Addr().Unmap().AsSlice())
		}
	}
	return reply
}

// socksBegin reads the greeting and the request of a client.
func socksBegin(conn net.Conn, r *bufio.Reader) (command byte, host string, port uint16, err error) {
	_ = conn.SetDeadline(time.Now().Add(headTime))
	plain, err := socksHello(r)
	if err != nil {
		return 0, "", 0, err
	}
	answer := []byte{socksVersion, socksNoAuth}
	if !plain {
		answer[1] = socksNoMethod
	}
	if _, err := conn.Write(answer); err != nil || !plain {
		return 0, "", 0, errors.Join(err, errSOCKS)
	}
	command, host, port, err = socksRequest(r)
	if err != nil {
		return 0, "", 0, err
	}
	return command, host, port, conn.SetDeadline(time.Time{})
}

// SOCKSOutcome is the answer to a SOCKS5 client.
type SOCKSOutcome byte

// The outcomes of a CONNECT.
const (
	SOCKSConnected SOCKSOutcome = socksDone
	SOCKSFailed    SOCKSOutcome = 1
	SOCKSDenied    SOCKSOutcome = socksRefused
	SOCKSNoNetwork SOCKSOutcome = 3
	SOCKSNoHost    SOCKSOutcome = 4
	SOCKSNoService SOCKSOutcome = socksUnreachable
)

// AcceptSOCKS reads the request of a SOCKS5 client from conn, for a proxy without a policy. It
// returns the host and port of a CONNECT. r returns the bytes that the client sends after the
// request. The caller must call reply once. AcceptSOCKS answers any other request itself, and
// returns an error for the log.
func AcceptSOCKS(conn net.Conn, r *bufio.Reader) (host string, port uint16, reply func(SOCKSOutcome) error, err error) {
	command, host, port, err := socksBegin(conn, r)
	if err != nil {
		return "", 0, nil, err
	}
	reply = func(outcome SOCKSOutcome) error {
		_, err := conn.Write(socksReply(byte(outcome), nil))
		return err
	}
	if command != socksConnect {
		return "", 0, nil, errors.Join(errors.New("SOCKS5: only CONNECT is supported"), reply(socksUnsupported))
	}
	return host, port, reply, nil
}

// serveSOCKS serves one connection of the SOCKS5 proxy. net/http has a SOCKS5 client but no server.
func (x *Proxy) serveSOCKS(conn net.Conn) {
	r := bufio.NewReader(conn)
	command, host, port, err := socksBegin(conn, r)
	if err != nil {
		return
	}
	code := byte(socksUnsupported)
	if command == socksConnect {
		a := attempt{Question: Question{SOCKS, x.names.meant(host), port}, client: conn.RemoteAddr().String()}
		code = x.socksConnect(conn, r, a)
	}
	if code != socksDone {
		_, _ = conn.Write(socksReply(code, nil))
		finish(conn)
	}
}

// socksConnect makes the tunnel of a CONNECT, and returns when the tunnel has ended. If there is no
// tunnel, it returns the code of the reply.
func (x *Proxy) socksConnect(conn net.Conn, r *bufio.Reader, a attempt) byte {
	gone := func() bool { return x.gone(conn, r) }
	d, to := x.permit(a, gone, false)
	if d.verdict != Pass {
		return socksRefused
	}
	if o := x.secrets.origin(a.Question); o != nil {
		if _, err := conn.Write(socksReply(socksDone, nil)); err == nil {
			x.intercept(conn, r, o, a, to)
		}
		return socksDone
	}
	out, early, err := x.tunnelTo(x.ctx, a.Question, to)
	if err != nil {
		x.log.Debug("network proxy: connect", "host", a.Host, "port", a.Port, "error", err)
		return socksUnreachable
	}
	local := out.LocalAddr()
	if to.upstream != nil {
		local = nil // it is one of this machine, and the host sees the proxy's
	}
	if _, err := conn.Write(socksReply(socksDone, local)); err != nil {
		_ = out.Close()
		return socksDone
	}
	x.tunnel(conn, r, out, early)
	return socksDone
}

// permit decides about an attempt to make a tunnel, reports the decision and returns the route.
// gone reports whether the process has hung up while a question was open; permit then refuses the
// attempt. upstream allows the tunnel to go through the upstream proxy of tunnels.
func (x *Proxy) permit(a attempt, gone func() bool, upstream bool) (decision, route) {
	const tls = 443
	limited, to := x.policy.config.Limited, route{port: a.Port}
	if limited && a.Port != tls {
		d := guarded(ReasonMethod)
		x.report(a, d, false)
		return d, to
	}
	byName := false
	if via := x.host.opts.TCPUpstream; via != nil {
		to.upstream, to.unreachable = via, x.unreachable(a.Host)
	} else if upstream {
		to.upstream = x.upstream(Question{Connect, a.Host, a.Port})
		byName = to.upstream != nil
	}
	d := x.decide(x.ctx, a.Question, byName)
	if d.asked && gone() {
		return decision{verdict: Block}, to
	}
	x.report(a, d, true)
	if limited && d.verdict == Pass {
		d = guarded(ReasonMITM)
		x.report(a, d, false)
	}
	to.addresses = d.addresses
	return d, to
}

// guarded returns the decision by which the limited mode refuses an allowed host.
func guarded(reason string) decision {
	return decision{verdict: Block, source: ModeGuard, by: RuleLimited, reason: reason, rule: "limited mode"}
}

// gone reports whether the process has closed the connection while a question was open. Then the
// request is dropped without a report. A process that has closed only its sending direction still
// waits for the answer, and the kernel still has its socket.
func (x *Proxy) gone(conn net.Conn, r *bufio.Reader) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.Peek(1)
	_ = conn.SetReadDeadline(time.Time{})
	var timeout net.Error
	switch {
	case err == nil, errors.As(err, &timeout) && timeout.Timeout():
		return false
	case errors.Is(err, io.EOF):
		_, err := x.host.opts.UserOf(conn)
		return err != nil
	}
	return true
}
