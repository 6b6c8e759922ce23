package execclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// StdinPipe returns a pipe to the command's standard input. Writes wait for Start. Close
// ends the input, if the server can (see Process.CloseStdin); Wait closes the pipe once the
// command has ended.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if err := c.unset("Stdin", c.Stdin != nil || c.in != nil); err != nil {
		return nil, err
	}
	c.in = &stdinPipe{pipeState: newPipeState()}
	return c.in, nil
}

// StdoutPipe returns a pipe from the command's standard output, or its terminal. Reads wait
// for Start. Wait closes the pipe once the command has ended: read to the end first. A
// command whose pipe is not read is held back as by Process.Stdout.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	if err := c.unset("Stdout", c.Stdout != nil || c.out != nil); err != nil {
		return nil, err
	}
	c.out = &outputPipe{pipeState: newPipeState()}
	return c.out, nil
}

// StderrPipe is StdoutPipe for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	if err := c.unset("Stderr", c.Stderr != nil || c.err != nil); err != nil {
		return nil, err
	}
	c.err = &outputPipe{pipeState: newPipeState()}
	return c.err, nil
}

// unset returns an error if a stream cannot get a pipe any more.
func (c *Cmd) unset(name string, isSet bool) error {
	switch {
	case isSet:
		return fmt.Errorf("execclient: %s already set", name)
	case c.started:
		return fmt.Errorf("execclient: %sPipe after process started", name)
	}
	return nil
}

// closePipes closes the caller's pipes of a command that has ended or could not be started.
func (c *Cmd) closePipes() {
	if c.in != nil {
		c.in.close()
	}
	for _, pipe := range []*outputPipe{c.out, c.err} {
		if pipe != nil {
			_ = pipe.Close()
		}
	}
}

// pipeState is the state of a pipe, which the caller gets before the command is started.
type pipeState struct {
	opened, closed chan struct{}
	closing        sync.Once
}

func newPipeState() pipeState {
	return pipeState{opened: make(chan struct{}), closed: make(chan struct{})}
}

// open returns when the command is started, and os.ErrClosed if the pipe is closed.
func (p *pipeState) open() error {
	select {
	case <-p.opened:
	case <-p.closed:
	}
	select {
	case <-p.closed:
		return os.ErrClosed
	default:
		return nil
	}
}

// close closes the pipe and reports whether it was open.
func (p *pipeState) close() (first bool) {
	p.closing.Do(func() {
		close(p.closed)
		first = true
	})
	return first
}

// stdinPipe is the type that StdinPipe returns.
type stdinPipe struct {
	pipeState
	w io.WriteCloser // set before opened is closed
}

func (p *stdinPipe) Write(b []byte) (int, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// Close ends the command's input. If the command has ended, that is not an error.
func (p *stdinPipe) Close() error {
	if err := p.open(); err != nil {
		return err
	}
	if !p.close() {
		return os.ErrClosed
	}
	return p.w.Close()
}

// outputPipe is the type that StdoutPipe and StderrPipe return.
type outputPipe struct {
	pipeState
	r io.ReadCloser // set before opened is closed
}

func (p *outputPipe) Read(b []byte) (int, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = os.ErrClosed
	}
	return n, err
}

// Close drops the output that was not read.
func (p *outputPipe) Close() error {
	if !p.close() {
		return os.ErrClosed
	}
	select {
	case <-p.opened:
		return p.r.Close()
	default:
		return nil
	}
}

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
	// Cut at twice the size, so that each byte is copied once.
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

// Bytes returns the kept bytes, with a note where some were omitted.
func (b *clippedBuffer) Bytes() []byte {
	b.cut()
	if b.dropped == 0 {
		return append(bytes.Clone(b.head), b.tail...)
	}
	return fmt.Appendf(nil, "%s\n... omitting %d bytes ...\n%s", b.head, b.dropped, b.tail)
}
