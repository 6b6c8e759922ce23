package remote

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"golang.org/x/term"
)

// screen is the terminal that stdin is connected to, if any.
type screen struct {
	f   *os.File // nil: stdin is not a terminal
	out io.Writer
}

func newScreen(s cmdutil.Streams) screen {
	if f, _ := cmdutil.FileOf(s.In); cmdutil.IsTerminal(s.In) {
		return screen{f, s.RawOut}
	}
	return screen{nil, s.RawOut}
}

// size returns the size of the terminal, or nil if stdin is not a terminal.
func (s screen) size() *execproto.TerminalSize {
	if s.f == nil {
		return nil
	}
	cols, rows, err := term.GetSize(int(s.f.Fd()))
	if out, ok := cmdutil.FileOf(s.out); err != nil && ok {
		// Windows reports the size only for the output of a console.
		cols, rows, err = term.GetSize(int(out.Fd()))
	}
	if err != nil || cols < 1 || rows < 1 {
		return nil
	}
	return &execproto.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// makeRaw puts the terminal into raw mode until restore is called. restore may be called from any
// goroutine and more than once.
func (s screen) makeRaw() (restore func()) {
	if s.f == nil {
		return func() {}
	}
	state, err := term.MakeRaw(int(s.f.Fd()))
	if err != nil {
		return func() {}
	}
	plain := showEscapes(s.out)
	return sync.OnceFunc(func() {
		plain()
		_ = term.Restore(int(s.f.Fd()), state)
	})
}

// rawMode is the raw mode of a terminal. It is left while a question is asked. The zero value is
// not in raw mode. Its methods may be called from any goroutine.
type rawMode struct {
	mu      sync.Mutex
	screen  screen
	restore func() // nil: the terminal is not in raw mode
}

func (r *rawMode) enter(s screen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screen, r.restore = s, s.makeRaw()
}

// end leaves raw mode permanently.
func (r *rawMode) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restore != nil {
		r.restore()
		r.restore = nil
	}
}

// leave leaves raw mode until back is called.
func (r *rawMode) leave() (back func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restore == nil {
		return func() {}
	}
	r.restore()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.restore != nil {
			r.restore = r.screen.makeRaw()
		}
	}
}

// isNull reports whether stdin is the null device. In that case a command gets its own null device,
// which also works with servers that cannot close a pipe.
func isNull(stdin io.Reader) bool {
	f, ok := cmdutil.FileOf(stdin)
	if !ok {
		return false
	}
	st, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(st, null)
}

// console is the controlling terminal. Questions are asked there and not on stdin, because the
// content of stdin must not count as an answer.
type console struct {
	f       *os.File
	in      *input
	own     *input // input of in, unless that is the input of stdin
	out     io.Writer
	opened  []*os.File
	signals <-chan os.Signal
	written func() terminal.Plain // what commands have written to the terminal
}

// openConsole opens the controlling terminal. If stdin is the same terminal, answers are read
// through the input of stdin, which may be reading already.
func openConsole(stdin *input, s screen, signals <-chan os.Signal, written func() terminal.Plain) (*console, error) {
	in, out, err := openTTY()
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	c := &console{f: in, in: stdin, out: out, opened: []*os.File{in, out}, signals: signals, written: written}
	if s.f == nil || !controls(s.f) {
		c.own = newInput(in)
		c.in = c.own
	}
	return c, nil
}

func (c *console) close() {
	if c.own != nil {
		c.own.close()
	}
	for _, f := range c.opened {
		_ = f.Close()
	}
}

// ask asks a question and waits for the answer: y, yes or s. Any other answer, the end of the
// input, and an interrupt mean no.
//
// The command has written to this terminal, and may try to hide the question or to imitate it. So
// the terminal is reset first, the question is the last thing on the screen, and keys that were
// typed before a user can have read it are discarded.
func (c *console) ask(ctx context.Context, q question) (approval.Answer, error) {
	line, err := c.line(ctx, q, c.signals)
	switch {
	case err != nil:
		return approval.Deny, err
	case isYes(line):
		return approval.Once, nil
	case isSession(line):
		return approval.ForSession, nil
	default:
		return approval.Deny, nil
	}
}

// line asks a question and returns the line of the answer. A signal from signals means no. signals
// may be nil.
func (c *console) line(ctx context.Context, q question, signals <-chan os.Signal) (string, error) {
	screenfuls, err := q.screenfuls(c.size())
	if err != nil {
		return noAnswer, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	})
	defer c.in.take()()
	last := len(screenfuls) - 1
	for _, s := range screenfuls[:last] {
		if line, err := c.show(ctx, s); err != nil || !isNext(line) {
			return noAnswer, err
		}
	}
	return c.show(ctx, screenfuls[last])
}

// noAnswer is the answer that is assumed if none was given.
const noAnswer = "no"

// show shows a part of a question and returns the line that is typed after it. It returns "no" if
// no line arrives.
func (c *console) show(ctx context.Context, s screenful) (string, error) {
	echo, err := hideKeys(c.f)
	if err != nil {
		return "", err
	}
	defer echo()
	if _, err := io.WriteString(c.out, s.before(c.written(), os.Getenv("TERM") == "dumb")); err != nil {
		return "", fmt.Errorf("ask on the terminal: %w", err)
	}
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	select {
	case <-settle.C:
	case <-ctx.Done():
	}
	c.in.discard()
	if err := flushTerminal(c.f); err != nil {
		return "", err
	}
	echo()
	if _, err := io.WriteString(c.out, s.cue); err != nil {
		return "", fmt.Errorf("ask on the terminal: %w", err)
	}
	line, err := c.in.readLine(ctx)
	if err == nil {
		return line, nil
	}
	_, _ = io.WriteString(c.out, "\n") // the cursor is still behind the question
	// The rest of an answer that is too long must not be read as a command line.
	return noAnswer, flushTerminal(c.f)
}

// size returns the size of the terminal, or a usual size if it reports none.
func (c *console) size() (rows, cols int) {
	f := c.f
	if out, ok := cmdutil.FileOf(c.out); ok {
		f = out
	}
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || rows == 0 || cols == 0 {
		return usualRows, usualCols
	}
	return rows, cols
}
