package egress

import (
	"bufio"
	"io"
	"net"
	"time"
)

// tunnel copies bytes both ways until both directions have ended, and closes outer.
// The end of one direction is passed on separately; an error ends both. early and
// inEarly, if not nil, hold bytes that were read from either side already.
func (x *Proxy) tunnel(in net.Conn, inEarly *bufio.Reader, out *outside, early *bufio.Reader) {
	defer out.Close()
	_ = in.SetDeadline(time.Time{})
	inner, outer := in.(*net.TCPConn), out.Conn
	ended := make(chan struct{})
	x.wg.Go(func() {
		defer close(ended)
		pipe(outer, inner, inEarly)
	})
	pipe(inner, outer, early)
	<-ended
}

// pipe copies bytes from one connection to the other and then ends its
// direction. If that fails, it closes both.
func pipe(to, from *net.TCPConn, early *bufio.Reader) {
	var err error
	if early != nil && early.Buffered() > 0 {
		_, err = io.CopyN(to, early, int64(early.Buffered()))
	}
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

// finish ends a connection after its last answer. It reads the data that the
// process still sends for lingerTime: see there.
func finish(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok { // TCP, or TLS in a tunnel
		_ = c.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxDrain))
}
