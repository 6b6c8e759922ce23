package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// errHello ends a handshake once the client's first message has been read.
var errHello = errors.New("the first message was read")

// serverName returns the name of the server in a TLS client's first message, as a host in
// normal form, or "" if the first bytes are not such a message with a name. It reads the
// message without consuming it from the reader, whose buffer bounds its size. The
// connection of the reader needs a deadline.
func serverName(r *bufio.Reader) string {
	name := ""
	server := tls.Server(&peeked{r: r}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errHello
	}})
	_ = server.Handshake() // which fails with errHello or before
	host, ok := normalHost(name)
	if !ok {
		return ""
	}
	return host
}

// peeked is a connection for a TLS server that only peeks at the incoming bytes. Writes to it are
// discarded.
type peeked struct {
	r  *bufio.Reader
	at int // how many bytes of the buffer were read
}

// Read returns the next bytes of the reader's buffer.
func (p *peeked) Read(b []byte) (int, error) {
	if _, err := p.r.Peek(p.at + 1); err != nil {
		return 0, err
	}
	ahead, err := p.r.Peek(p.r.Buffered())
	n := copy(b, ahead[p.at:])
	p.at += n
	return n, err
}

// Write discards the alert with which the handshake ends.
func (*peeked) Write(b []byte) (int, error) { return io.Discard.Write(b) }

// Close does nothing: the owner of the reader closes its connection.
func (*peeked) Close() error { return nil }

// LocalAddr and RemoteAddr return no address.
func (*peeked) LocalAddr() net.Addr  { return nil }
func (*peeked) RemoteAddr() net.Addr { return nil }

// SetDeadline, SetReadDeadline and SetWriteDeadline do nothing.
func (*peeked) SetDeadline(time.Time) error      { return nil }
func (*peeked) SetReadDeadline(time.Time) error  { return nil }
func (*peeked) SetWriteDeadline(time.Time) error { return nil }
