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
	"golang.org/x/term"
)

// screen is the terminal that stdin is, if it is one.
type screen struct {
	f   *os.File // nil: it is none
	out io.Writer
}

func newScreen(s cmdutil.Streams) screen {
	if f, _ := cmdutil.FileOf(s.In); cmdutil.IsTerminal(s.In) {
		return screen{f, s.RawOut}
	}
	return screen{nil, s.RawOut}
}

// size is the size of the terminal, nil if there is none.
func (s screen) size() *execproto.TerminalSize {
	if s.f == nil {
		return nil
	}
	cols, rows, err := term.GetSize(int(s.f.Fd()))
	if out, ok := cmdutil.FileOf(s.out); err != nil && ok {
		// A Windows console tells it of its output only.
		cols, rows, err = term.GetSize(int(out.Fd()))
	}
	if err != nil || cols < 1 || rows < 1 {
		return nil
	}
	return &execproto.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// makeRaw hands every key on until restore is called, which anybody may do,
// more than once.
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

// rawMode is the raw mode of a terminal, which a question leaves for a while. The
// zero value is not in it. Its methods may be called from any goroutine.
type rawMode struct {
	mu      sync.Mutex
	screen  screen
	restore func() // nil: the terminal is not in raw mode, and is not to be
}

func (r *rawMode) enter(s screen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screen, r.restore = s, s.makeRaw()
}

// end leaves it for good.
func (r *rawMode) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restore != nil {
		r.restore()
		r.restore = nil
	}
}

// leave leaves it until back is called.
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

// isNull reports whether stdin is the null device: then a command gets one of
// its own, which servers that cannot close a pipe can give it too.
func isNull(stdin io.Reader) bool {
	f, ok := cmdutil.FileOf(stdin)
	if !ok {
		return false
	}
	st, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(st, null)
}

// console is the controlling terminal, where questions are asked: whatever
// stdin is, it is no answer.
type console struct {
	f       *os.File
	in      *input
	own     *input // in, unless that is stdin's
	out     io.Writer
	opened  []*os.File
	signals <-chan os.Signal
}

// openConsole opens the controlling terminal. One that is stdin too is read
// through stdin's input, which may be reading already.
func openConsole(stdin *input, s screen, signals <-chan os.Signal) (*console, error) {
	in, out, err := openTTY()
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	c := &console{f: in, in: stdin, out: out, opened: []*os.File{in, out}, signals: signals}
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

// ask asks a question and waits for the answer: y, yes or s, and everything else is
// a no, as are the end of the input and an interrupt.
//
// The command has written to this terminal, and may want the question to be missed
// or mistaken for its own. So the terminal is brought into a known state first, the
// question is the last thing on the screen, and what is typed before a person can
// have read it is dropped.
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

// line asks a question and returns the line of the answer. An interrupt that comes
// from signals, which may be nil, is a no.
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

// noAnswer is the answer of a person who gave none.
const noAnswer = "no"

// show shows a part of a question and returns the line that is typed behind it. If
// none is, that is "no".
func (c *console) show(ctx context.Context, s screenful) (string, error) {
	echo, err := hideKeys(c.f)
	if err != nil {
		return "", err
	}
	defer echo()
	if _, err := io.WriteString(c.out, s.before()); err != nil {
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
	_, _ = io.WriteString(c.out, "\n") // the cursor is behind the question
	// The rest of an answer that is too long is no command line.
	return noAnswer, flushTerminal(c.f)
}

// size is the size of the terminal; one that does not tell it has the usual one.
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
