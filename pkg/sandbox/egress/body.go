package egress

import (
	"bufio"
	"errors"
	"io"
	"net/http/httputil"
	"sync"
	"sync/atomic"
)

// body is the body of a request, which is read from the connection to the process.
type body struct {
	// proceed, if set, is called before the body is read. It asks the process to send the body.
	proceed func()
	once    sync.Once
	reader  io.Reader
	lines   *bufio.Reader // of the connection, for the trailer; nil: not chunked
	ended   atomic.Bool   // all of it was read
}

// newBody returns the body of a request with the head h, or nil if the request has none.
func newBody(h *head, r *bufio.Reader) *body {
	chunked := len(h.TransferEncoding) > 0
	switch {
	case chunked:
		return &body{reader: httputil.NewChunkedReader(r), lines: r}
	case h.ContentLength > 0:
		return &body{reader: io.LimitReader(r, h.ContentLength)}
	default:
		return nil
	}
}

// Read reads the body. It drops the trailer of a chunked body.
func (b *body) Read(p []byte) (int, error) {
	b.once.Do(func() {
		if b.proceed != nil {
			b.proceed()
		}
	})
	if b.ended.Load() {
		return 0, io.EOF
	}
	n, err := b.reader.Read(p)
	if l, ok := b.reader.(*io.LimitedReader); ok {
		switch {
		case l.N == 0:
			b.ended.Store(true)
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
	} else if errors.Is(err, io.EOF) {
		if err = b.skipTrailer(); err == nil {
			b.ended.Store(true)
			err = io.EOF
		}
	}
	return n, err
}

// skipTrailer reads the lines after the last chunk.
func (b *body) skipTrailer() error {
	size := 0
	count := func(n int) error {
		if size += n; size > maxTrailer {
			return errLargeHead
		}
		return nil
	}
	for {
		line, err := readLine(b.lines, count)
		if err != nil || len(line) <= len("\r\n") {
			return err
		}
	}
}

// Close does nothing: either the connection is used for the next request, or its owner closes it.
func (b *body) Close() error { return nil }

// drained reports whether the rest of the body was read, so that the connection
// can be used for the next request.
func (b *body) drained() bool {
	switch {
	case b == nil:
		return true
	case b.ended.Load():
		return true
	case b.proceed != nil:
		return false // the process has not begun to send it, and may never
	}
	_, err := io.CopyN(io.Discard, b, maxDrain)
	return errors.Is(err, io.EOF) || b.ended.Load()
}
