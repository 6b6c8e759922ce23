package websocket

import (
	"io"
	"strings"
	"time"
)

// Interrupt ends reading at once, and gives pending writes closeTime. The caller must then call
// Close or Abort.
func (c *Conn) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	_ = c.net.SetReadDeadline(time.Now())
}

// end makes the deadlines final: they are not extended any more. The caller holds mu.
func (c *Conn) end() {
	if c.ended {
		return
	}
	c.ended = true
	if c.pinger != nil {
		c.pinger.Stop()
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(closeTime))
}

// Close implements Transport. The current write and the close frame after it may together take
// closeTime. A server's connection then reads on for a limited time.
func (c *Conn) Close(code int, reason string) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.end()
	told := c.told
	c.mu.Unlock()
	c.turn <- struct{}{}
	_ = c.net.SetWriteDeadline(time.Now().Add(closeTime))
	if !told {
		told = c.write(closeFrame(code, reason, c.client), nil) == nil
	}
	<-c.turn
	if told && !c.client {
		c.linger()
	}
	err := c.net.Close()
	c.control.Wait()
	return err
}

// linger closes the sending side, if the connection supports that, and reads until the peer has
// closed its sending side. A socket that is closed with unread data resets the connection, and
// the peer may then not receive the close frame.
func (c *Conn) linger() {
	_ = closeWrite(c.net)
	_ = c.net.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.net, lingerBytes)
}

// Abort implements Transport.
func (c *Conn) Abort() error {
	c.mu.Lock()
	c.closed = true
	c.end()
	c.mu.Unlock()
	err := c.net.Close()
	c.control.Wait()
	return err
}

// cutReason clips a reason to the size that fits into a close frame.
func cutReason(reason string) string {
	if len(reason) > closeReasonLimit {
		reason = strings.ToValidUTF8(reason[:closeReasonLimit], "")
	}
	return reason
}
