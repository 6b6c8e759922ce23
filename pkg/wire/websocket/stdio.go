package websocket

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// Stdio carries one message per line over a pair of streams
// (docs/spec/wire.md §1.3). Blank lines are skipped.
type Stdio struct {
	in    *bufio.Reader
	inEnd io.Closer // nil: reads cannot be interrupted
	out   io.Writer
	limit int

	mu     sync.Mutex
	closed bool
}

// NewStdio returns a connection that reads lines of up to limit bytes (0: DefaultMaxLine) from
// in, and writes to out. If in is an io.Closer, Close and Abort close it to end a blocked read.
// out stays open.
func NewStdio(in io.Reader, out io.Writer, limit int) *Stdio {
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	closer, _ := in.(io.Closer)
	return &Stdio{in: bufio.NewReaderSize(in, 64<<10), inEnd: closer, out: out, limit: limit}
}

// Peer implements Transport.
func (c *Stdio) Peer() string { return "stdio" }

// ReadMessage implements Transport. The last line is a message even if it has no newline.
func (c *Stdio) ReadMessage() (*Message, error) {
	for {
		m := newMessage(0)
		err := c.readLine(m)
		if err != nil && !errors.Is(err, io.EOF) {
			m.Release()
			return nil, err
		}
		if len(bytes.TrimSpace(m.buf)) > 0 {
			return m, nil
		}
		m.Release()
		if err != nil {
			return nil, io.EOF
		}
	}
}

func (c *Stdio) readLine(m *Message) error {
	for {
		part, err := c.in.ReadSlice('\n')
		for len(part) > 0 {
			if len(m.buf) == cap(m.buf) {
				m.grow(c.limit)
			}
			n := copy(m.buf[len(m.buf):cap(m.buf)], part)
			m.buf = m.buf[:len(m.buf)+n]
			part = part[n:]
			if len(m.buf) > c.limit {
				return &TooLargeError{Limit: c.limit}
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// Open implements Transport.
func (c *Stdio) Open(b []byte) []byte { return b }

// Seal implements Transport. The encoders of this project never write a newline inside a
// message.
func (c *Stdio) Seal(b []byte, _ int) []byte { return append(b, '\n') }

// WriteFrames implements Transport.
func (c *Stdio) WriteFrames(frames []byte) error {
	_, err := c.out.Write(frames)
	return err
}

// Fragment implements Transport.
func (c *Stdio) Fragment(part []byte, _, last bool) error {
	part = part[FragmentRoom:]
	if last {
		part = append(part, '\n')
	}
	_, err := c.out.Write(part)
	return err
}

// Close implements Transport.
func (c *Stdio) Close(int, string) error { return c.Abort() }

// Abort implements Transport.
func (c *Stdio) Abort() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.inEnd == nil {
		return nil
	}
	c.closed = true
	return c.inEnd.Close()
}
