package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Join copies bytes between a stream and a connection in both directions. Each direction ends
// separately. When both have ended, Join closes the stream and the connection, and returns. The
// error is the reason for which the tunnel failed, nil if it ended normally.
func Join(s *Stream, conn net.Conn) error {
	var first error
	var once sync.Once
	fail := func(err error) {
		if err == nil {
			return
		}
		once.Do(func() { first = err })
		reset(conn)
		_ = s.Abort(Reason(err))
	}
	s.whenEnded(func() {
		_ = conn.SetReadDeadline(time.Now()) // the peer no longer reads
		linger := lingerTime
		if _, closed := s.Closed(); !closed {
			linger = 0 // the session has ended: do not wait until the bytes are sent
		}
		_ = conn.SetWriteDeadline(time.Now().Add(linger))
	})
	var out sync.WaitGroup
	out.Go(func() { fail(send(s, conn)) })
	fail(receive(s, conn))
	out.Wait()
	_ = conn.Close()
	_ = s.Close()
	return first
}

// receive writes the bytes from the peer to conn.
func receive(s *Stream, conn net.Conn) error {
	if _, err := s.WriteTo(conn); err != nil {
		return err
	}
	closeWrite(conn)
	return nil
}

// send sends the data of conn to the peer.
func send(s *Stream, conn net.Conn) error {
	b := make([]byte, smallRead)
	for {
		n, err := conn.Read(b)
		if n > 0 {
			if _, err := s.Write(b[:n]); err != nil {
				return orderly(s, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return orderly(s, s.CloseWrite())
		case err != nil:
			return orderly(s, err)
		case n == len(b) && n < MaxData:
			b = make([]byte, MaxData)
		}
	}
}

// orderly returns nil for an error that only results from a normal close by the peer, after all
// bytes of the peer have arrived.
func orderly(s *Stream, err error) error {
	if reason, closed := s.Closed(); closed && reason == "" {
		return nil
	}
	return err
}

// closeWrite ends the direction to conn.
func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// reset closes conn so that its other end gets an error, if possible.
func reset(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Reason returns the text of an error for the person at the other end, without
// addresses of the machine on which it happened.
func Reason(err error) string {
	var closed *ClosedError
	var dns *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &closed) && closed.Reason != "":
		return closed.Reason
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timed out"
	case errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	default:
		return err.Error()
	}
}
