package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
)

// input is a stream, such as stdin, that several readers use one after the other. If a read is
// abandoned, the next read gets its data. A question may take the input from a command that is
// reading it.
type input struct {
	r    io.Reader
	wait *waiter // nil: reads of r cannot be interrupted

	reading sync.Mutex // held during a read, and while the input is taken
	mu      sync.Mutex
	taken   chan struct{}      // nil: no question has the input; closed by giveBack
	giveWay context.CancelFunc // ends the current read; nil: no read

	got     chan piece
	pending bool // a read runs in the background
	rest    piece
}

// piece is the result of one read.
type piece struct {
	data []byte
	err  error
}

func newInput(r io.Reader) *input {
	in := &input{r: r, got: make(chan piece, 1)}
	if f, ok := cmdutil.FileOf(r); ok {
		in.wait = newWaiter(f)
	}
	return in
}

// take takes the input from the command that reads it. It returns when the command has stopped
// reading. The command continues when the caller calls giveBack. take must not be called again
// before that.
func (in *input) take() (giveBack func()) {
	in.mu.Lock()
	taken := make(chan struct{})
	in.taken = taken
	if in.giveWay != nil {
		in.giveWay()
	}
	in.mu.Unlock()
	in.reading.Lock()
	return func() {
		in.reading.Unlock()
		in.mu.Lock()
		in.taken = nil
		in.mu.Unlock()
		close(taken)
	}
}

// begin begins a read. The context inner ends when the input is taken.
func (in *input) begin(ctx context.Context) (inner context.Context, end func(), err error) {
	for {
		in.mu.Lock()
		taken := in.taken
		if taken == nil {
			inner, in.giveWay = context.WithCancel(ctx)
			stop := in.giveWay
			in.reading.Lock() // the input is free: taken is nil
			in.mu.Unlock()
			return inner, func() { in.reading.Unlock(); stop() }, nil
		}
		in.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// Read returns available data, or waits for data. If ctx ends first, it returns the error of ctx
// and consumes nothing.
func (in *input) Read(ctx context.Context, b []byte) (int, error) {
	for {
		inner, end, err := in.begin(ctx)
		if err != nil {
			return 0, err
		}
		n, err := in.read(inner, b)
		gaveWay := inner.Err() != nil && ctx.Err() == nil
		end()
		if n > 0 || !gaveWay {
			return n, err
		}
	}
}

// read is Read for the goroutine that has taken the input.
func (in *input) read(ctx context.Context, b []byte) (int, error) {
	if in.wait != nil {
		if err := in.wait.readable(ctx); err != nil {
			return 0, err
		}
		return in.r.Read(b)
	}
	for len(in.rest.data) == 0 && in.rest.err == nil {
		if !in.pending {
			in.pending = true
			// No wait group waits for this goroutine, because a read of a terminal cannot be
			// interrupted. The last such goroutine ends with the program.
			go func() {
				buf := make([]byte, inputChunk)
				n, err := in.r.Read(buf)
				in.got <- piece{buf[:n], err}
			}()
		}
		select {
		case in.rest = <-in.got:
			in.pending = false
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if len(in.rest.data) == 0 {
		return 0, in.rest.err
	}
	n := copy(b, in.rest.data)
	in.rest.data = in.rest.data[n:]
	return n, nil
}

// close closes the descriptors that interrupt waits.
func (in *input) close() {
	if in.wait != nil {
		in.wait.close()
	}
}

// discard drops data that was read but not returned yet.
func (in *input) discard() {
	select {
	case in.rest = <-in.got:
		in.pending = false
	default:
	}
	in.rest.data = nil
}

// reader returns an io.Reader of the input whose reads end with ctx.
func (in *input) reader(ctx context.Context) io.Reader { return boundInput{in, ctx} }

type boundInput struct {
	in  *input
	ctx context.Context
}

func (b boundInput) Read(p []byte) (int, error) { return b.in.Read(b.ctx, p) }

// feed is a command's stdin. It retains the input of an attempt, so that a retry gets the same input.
type feed struct {
	in    *input
	kept  []byte
	more  bool // more input arrived than is retained
	ended bool
	// midLine is set if the last data that was read ends in the middle of a line.
	midLine bool
}

// endOfFile is the end-of-file character of terminals, Ctrl-D.
const endOfFile = 4

// pump writes the input to a process until one of the two ends. It returns errors of reading, and
// ErrNoCloseStdin; a process may end before its input does.
//
// A terminal gets the end-of-file character at the end of the input. In the middle of a line it
// gets the character twice, because the first one only delivers the unfinished line.
func (f *feed) pump(ctx context.Context, p *execclient.Process, tty bool) error {
	to := p.Stdin(ctx)
	if len(f.kept) > 0 {
		if _, err := to.Write(f.kept); err != nil {
			return nil
		}
	}
	buf := make([]byte, inputChunk)
	for !f.ended {
		n, err := f.in.Read(ctx, buf)
		switch {
		case ctx.Err() != nil && n == 0:
			return nil
		case err == io.EOF:
			f.ended = true
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		}
		f.keep(buf[:n])
		if n > 0 {
			f.midLine = buf[n-1] != '\n'
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return nil
		}
	}
	if f.midLine && tty {
		_, _ = to.Write([]byte{endOfFile})
	}
	if err := to.Close(); errors.Is(err, execclient.ErrNoCloseStdin) {
		if !tty {
			return err
		}
		_, _ = to.Write([]byte{endOfFile})
	}
	return nil
}

func (f *feed) keep(b []byte) {
	n := min(len(b), maxReplay-len(f.kept))
	f.kept = append(f.kept, b[:n]...)
	f.more = f.more || n < len(b)
}

// readLine reads one line of at most maxAnswer bytes. A longer line is an error. The caller must
// have taken the input, or be its only reader.
func (in *input) readLine(ctx context.Context) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) <= maxAnswer {
		if _, err := in.read(ctx, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(bytes.TrimSpace(line)), nil
		}
		line = append(line, b[0])
	}
	in.discard()
	return "", errors.New("the answer is too long")
}
