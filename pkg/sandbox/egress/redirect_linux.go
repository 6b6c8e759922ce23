package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/sandbox/transparent"
)

// These ports of captured connections have special rules.
const (
	portSSH   = 22
	portNames = 53
	portHTTP  = 80
	portTLS   = 443
)

// Redirect serves the descriptors that the launcher of the process sends over a socket. They are
// the DNS queries of the process, and its connections that bypass the proxy (docs/spec/network.md
// §5). Redirect takes ownership of the socket and returns at once. Close ends everything that
// arrived over the socket.
func (x *Proxy) Redirect(socket *os.File) error {
	conn, err := net.FileConn(socket)
	_ = socket.Close()
	if err != nil {
		return fmt.Errorf("take connections of a process: %w", err)
	}
	from, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return errors.New("take connections of a process: not a Unix socket")
	}
	if err := x.keep(from); err != nil {
		return err
	}
	x.names.used.Store(true)
	if !x.begin() {
		_ = from.Close()
		return net.ErrClosed
	}
	go func() {
		defer x.wg.Done()
		defer x.discard(from)
		x.routineRedirect(from)
	}()
	return nil
}

// discard closes a connection that was registered by keep.
func (x *Proxy) discard(conn net.Conn) {
	x.forget(conn)
	_ = conn.Close()
}

// routineRedirect receives descriptors from the launcher, until the launcher ends or Close
// is called.
func (x *Proxy) routineRedirect(from *net.UnixConn) {
	text, oob := make([]byte, transparent.Size+1), make([]byte, syscall.CmsgSpace(4))
	for {
		n, size, _, _, err := from.ReadMsgUnix(text, oob)
		if err != nil || n == 0 {
			return
		}
		file := fileIn(oob[:size])
		if file == nil {
			continue
		}
		m, err := transparent.Decode(text[:n])
		if err == nil {
			err = x.take(m, file)
		}
		if err != nil {
			x.log.Warn("network proxy: take a connection", "error", err)
		}
		_ = file.Close()
	}
}

// fileIn returns the descriptor in the control data of a message, or nil.
func fileIn(oob []byte) *os.File {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil
	}
	return os.NewFile(uintptr(fds[0]), "connection")
}

// take begins to serve a copy of the descriptor of file.
func (x *Proxy) take(m transparent.Message, file *os.File) error {
	if m.Kind == transparent.Names {
		packets, err := net.FilePacketConn(file)
		if err != nil {
			return err
		}
		conn, ok := packets.(*net.UDPConn)
		if !ok {
			return errors.Join(errors.New("the socket for names is not a UDP socket"), packets.Close())
		}
		if err := x.keep(conn); err != nil {
			return err
		}
		x.names.ipv6.Store(conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Is6())
		x.wg.Go(func() {
			defer x.discard(conn)
			x.routineNames(conn)
		})
		return nil
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return err
	}
	// If the process has already reset a connection, it has no peer address.
	if _, ok := conn.(*net.TCPConn); !ok || conn.RemoteAddr() == nil || !x.enter(conn) {
		reset(conn)
		return nil
	}
	x.wg.Go(func() {
		defer x.leave(conn)
		x.serveRedirected(conn.(*net.TCPConn), netip.AddrPortFrom(netip.AddrFrom16(m.Address).Unmap(), m.Port))
	})
	return nil
}

// reset closes a connection with a reset, so that the process gets an error and not an end of file.
func reset(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// serveRedirected serves a connection that the process has made to an address. If the address comes
// from a DNS answer of this proxy, the host is the name for which it stands. For any other address,
// the host is the name that an HTTP or TLS client sends. The proxy does not connect to such an
// address itself, because it may come from a file or another program.
func (x *Proxy) serveRedirected(conn *net.TCPConn, to netip.AddrPort) {
	if to.Port() == portNames {
		x.serveNames(conn, bufio.NewReaderSize(conn, readBuffer))
		return
	}
	host, named := x.names.of(to.Addr())
	if !named {
		host = to.Addr().String()
	}
	// The HTTP proxy does not use TCPUpstream, through which these connections must go.
	if to.Port() == portHTTP && x.host.opts.TCPUpstream == nil && (x.secrets != nil || x.judgesRequests(host, named)) {
		x.serveHTTP(conn)
		return
	}
	r := bufio.NewReaderSize(conn, readBuffer)
	if !named && to.Port() == portTLS && !x.policy.allow.exact[host] {
		_ = conn.SetReadDeadline(time.Now().Add(helloTime))
		if name := serverName(r); name != "" {
			host, named = name, true
		}
		_ = conn.SetReadDeadline(time.Time{})
	}
	a := attempt{Question: Question{SOCKS, host, to.Port()}, client: conn.RemoteAddr().String()}
	if !named && isMadeUp(to.Addr()) {
		// The address belongs to the networks that stand for names, but stands for no name. A real
		// host with that address must not be reached.
		d := blocked(RuleStandIn, ReasonLocal, untold)
		x.report(a, d, true)
		x.refuse(conn, a, d)
		return
	}
	x.join(conn, r, a)
}

// judgesRequests reports whether the HTTP proxy serves a connection to port 80 and judges each
// request by its host. It does so in three cases: in the limited mode; if the address stands for no
// name and no entry names exactly this address; and if an upstream proxy serves the name.
func (x *Proxy) judgesRequests(host string, named bool) bool {
	return x.policy.config.Limited || !named && !x.policy.allow.exact[host] ||
		named && x.upstream(Question{HTTP, host, portHTTP}) != nil
}

// join connects the process to a host, or refuses the connection. It returns when the connection
// has ended.
func (x *Proxy) join(conn *net.TCPConn, r *bufio.Reader, a attempt) {
	// Only the process writes to the connection, so a read reports when the process ends it.
	d, to := x.permit(a, func() bool { return hungUp(conn, r) }, true)
	if d.verdict != Pass {
		x.refuse(conn, a, d)
		return
	}
	if o := x.secrets.origin(a.Question); o != nil {
		x.intercept(conn, r, o, a, to)
		return
	}
	out, early, err := x.tunnelTo(x.ctx, a.Question, to)
	if err != nil {
		x.log.Debug("network proxy: connect", "host", a.Host, "port", a.Port, "error", err)
		reset(conn)
		return
	}
	x.tunnel(conn, r, out, early)
}

// hungUp reports whether the process has closed its connection.
func hungUp(conn net.Conn, r *bufio.Reader) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.Peek(1)
	_ = conn.SetReadDeadline(time.Time{})
	return errors.Is(err, syscall.ECONNRESET)
}

// refuse ends a refused connection with an error message in the protocol of its port: HTTP, TLS or
// SSH. On any other port it resets the connection.
func (x *Proxy) refuse(conn *net.TCPConn, a attempt, d decision) {
	refusal := refusalOf(d.reason)
	var words []byte
	switch a.Port {
	case portHTTP:
		words = fmt.Appendf(nil, "HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nx-proxy-error: %s\r\nconnection: close\r\n"+
			"content-length: %d\r\n\r\n%s", refusal.code, len(refusal.message), refusal.message)
	case portTLS:
		words = []byte{21, 3, 3, 0, 2, 2, 49} // an alert: fatal, access_denied (RFC 8446, section 6)
	case portSSH:
		words = disconnectSSH(refusal.message)
	default:
		reset(conn)
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(lingerTime))
	_, _ = conn.Write(words)
	finish(conn)
}

// disconnectSSH is the message of an SSH server that refuses a client: its version
// and SSH_MSG_DISCONNECT, which is not encrypted yet (RFC 4253, sections 4.2, 6 and
// 11.1). Clients show the text.
func disconnectSSH(text string) []byte {
	const disconnect, notAllowed, block = 1, 1, 8
	payload := binary.BigEndian.AppendUint32([]byte{disconnect}, notAllowed)
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(text))), text...)
	payload = binary.BigEndian.AppendUint32(payload, 0) // no language
	padding := block - (4+1+len(payload))%block
	if padding < 4 {
		padding += block
	}
	b := binary.BigEndian.AppendUint32([]byte("SSH-2.0-codex\r\n"), uint32(1+len(payload)+padding))
	b = append(append(b, byte(padding)), payload...)
	return append(b, make([]byte, padding)...)
}
