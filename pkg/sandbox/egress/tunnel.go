package egress

import (
	"bufio"
	"io"
	"net"
	"time"
)

// tunnel copies bytes both ways until both directions have ended, and closes out. It passes the end
// of one direction on without ending the other; an error ends both. early and inEarly, if not nil,
// hold bytes that were already read from either side.
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

// pipe copies bytes from one connection to the other until the end of from, and then ends that
// direction of to. If that fails, it closes both.
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

// finish ends a connection after its last answer. It first reads what the process still sends, for
// up to lingerTime; the comment there gives the reason.
func finish(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok { // TCP, or TLS in a tunnel
		_ = c.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxDrain))
}
