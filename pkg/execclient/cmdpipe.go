package execclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"codex.internal/pkg/execproto"
)

// StdinPipe returns a pipe to the command's standard input. Writes before
// Start wait for it. Close ends the input, if the server can (see
// Process.CloseStdin); Wait closes the pipe once the command has ended.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	switch {
	case c.Stdin != nil || c.in != nil:
		return nil, errors.New("execclient: Stdin already set")
	case c.Process != nil:
		return nil, errors.New("execclient: StdinPipe after process started")
	}
	c.in = &stdinPipe{ready: make(chan struct{}), closed: make(chan struct{})}
	return c.in, nil
}

// StdoutPipe returns a pipe from the command's standard output, or its
// terminal. Wait closes it once the command has ended: read to the end first.
// It holds a little; a command whose pipe is not read is held back.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	switch {
	case c.Stdout != nil || c.out != nil:
		return nil, errors.New("execclient: Stdout already set")
	case c.Process != nil:
		return nil, errors.New("execclient: StdoutPipe after process started")
	}
	c.out = c.newOutputPipe()
	return c.out, nil
}

// StderrPipe is StdoutPipe for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	switch {
	case c.Stderr != nil || c.err != nil:
		return nil, errors.New("execclient: Stderr already set")
	case c.Process != nil:
		return nil, errors.New("execclient: StderrPipe after process started")
	}
	c.err = c.newOutputPipe()
	return c.err, nil
}

// closePipes ends what the caller holds of a command that ended or could not
// be started.
func (c *Cmd) closePipes() {
	if c.in != nil {
		c.in.abort()
	}
	for _, pipe := range []*outputPipe{c.out, c.err} {
		if pipe != nil {
			_ = pipe.Close()
		}
	}
}

// outputPipe carries a stream from the events of a process to one reader. It
// holds limit bytes and what is then put on top; put blocks while it is full.
type outputPipe struct {
	limit int

	mu     sync.Mutex
	moved  sync.Cond
	chunks [][]byte
	size   int
	end    error // what comes after the chunks; nil: more
	closed bool  // nobody reads
}

func (c *Cmd) newOutputPipe() *outputPipe {
	p := &outputPipe{limit: pipeBytes}
	if !c.client.Has(execproto.NotifyProcessAck) {
		p.limit = loosePipeBytes
	}
	p.moved.L = &p.mu
	return p
}

// put appends a chunk, which is the pipe's from then on. Without a reader it
// is dropped.
func (p *outputPipe) put(chunk []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.size >= p.limit && !p.closed {
		p.moved.Wait()
	}
	if p.closed || len(chunk) == 0 {
		return
	}
	p.chunks = append(p.chunks, chunk)
	p.size += len(chunk)
	p.moved.Broadcast()
}

// finish says that nothing more comes, and why; io.EOF in good order.
func (p *outputPipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = err
	p.moved.Broadcast()
}

// take waits for output and returns up to max bytes of it.
func (p *outputPipe) take(max int) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.chunks) == 0 && p.end == nil && !p.closed {
		p.moved.Wait()
	}
	switch {
	case p.closed:
		return nil, os.ErrClosed
	case len(p.chunks) == 0:
		return nil, p.end
	}
	chunk := p.chunks[0]
	if len(chunk) > max {
		p.chunks[0], chunk = chunk[max:], chunk[:max]
	} else {
		p.chunks[0] = nil
		p.chunks = p.chunks[1:]
	}
	p.size -= len(chunk)
	p.moved.Broadcast()
	return chunk, nil
}

func (p *outputPipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	chunk, err := p.take(len(b))
	return copy(b, chunk), err
}

// Close drops what is in the pipe and what will be put into it.
func (p *outputPipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	p.closed = true
	p.chunks, p.size = nil, 0
	p.moved.Broadcast()
	return nil
}

// copyTo writes everything to w. When w fails the rest is dropped, so that
// only this stream is affected.
func (p *outputPipe) copyTo(w io.Writer, name string) error {
	for {
		chunk, err := p.take(execproto.MaxOutputChunk)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		n, err := w.Write(chunk)
		if err == nil && n < len(chunk) {
			err = io.ErrShortWrite
		}
		if err != nil {
			_ = p.Close()
			return fmt.Errorf("write the command's %s: %w", name, err)
		}
	}
}

// stdinPipe is what StdinPipe returns.
type stdinPipe struct {
	ready chan struct{} // closed when w is there
	w     io.WriteCloser

	closed chan struct{}
	once   sync.Once
}

// open connects the pipe to a started command.
func (p *stdinPipe) open(w io.WriteCloser) {
	p.w = w
	close(p.ready)
}

func (p *stdinPipe) wait() error {
	select {
	case <-p.closed:
		return os.ErrClosed
	default:
	}
	select {
	case <-p.ready:
		return nil
	case <-p.closed:
		return os.ErrClosed
	}
}

func (p *stdinPipe) Write(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// Close ends the command's input. That of a command that has ended already is
// closed.
func (p *stdinPipe) Close() error {
	if err := p.wait(); err != nil {
		return err
	}
	first := false
	p.once.Do(func() { first = true })
	if !first {
		return os.ErrClosed
	}
	close(p.closed)
	return ignoreEnded(p.w.Close())
}

// abort closes the pipe without telling the server.
func (p *stdinPipe) abort() { p.once.Do(func() { close(p.closed) }) }

// clippedBuffer keeps the first and the last clipBytes of what is written.
type clippedBuffer struct {
	head, tail []byte
	dropped    int64
}

func (b *clippedBuffer) Write(p []byte) (int, error) {
	n := len(p)
	fits := min(clipBytes-len(b.head), n)
	b.head = append(b.head, p[:fits]...)
	b.tail = append(b.tail, p[fits:]...)
	// Cutting at twice the size copies each byte once only.
	if len(b.tail) > 2*clipBytes {
		b.cut()
	}
	return n, nil
}

func (b *clippedBuffer) cut() {
	if over := len(b.tail) - clipBytes; over > 0 {
		b.dropped += int64(over)
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
}

// Bytes returns what was kept, with a note where something was left out.
func (b *clippedBuffer) Bytes() []byte {
	b.cut()
	if b.dropped == 0 {
		return append(bytes.Clone(b.head), b.tail...)
	}
	return fmt.Appendf(nil, "%s\n... omitting %d bytes ...\n%s", b.head, b.dropped, b.tail)
}
