package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"codex.internal/pkg/approval"
	"codex.internal/pkg/execproto"
	"golang.org/x/term"
)

// screen is the terminal that stdin is, if it is one.
type screen struct {
	f   *os.File // nil: it is none
	out io.Writer
}

func newScreen(s streams) screen {
	if f, _ := fileOf(s.in); isTerminal(s.in) {
		return screen{f, s.rawOut}
	}
	return screen{nil, s.rawOut}
}

// size is the size of the terminal, nil if there is none.
func (s screen) size() *execproto.TerminalSize {
	if s.f == nil {
		return nil
	}
	cols, rows, err := term.GetSize(int(s.f.Fd()))
	if out, ok := fileOf(s.out); err != nil && ok {
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

// isNull reports whether stdin is the null device: then a command gets one of
// its own, which servers that cannot close a pipe can give it too.
func isNull(stdin io.Reader) bool {
	f, ok := fileOf(stdin)
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

// ask asks a question and waits for the answer: y or s, and everything else is
// a no, as are the end of the input and an interrupt. What was typed before
// the question is no answer to it.
func (c *console) ask(ctx context.Context, question string) (approval.Answer, error) {
	c.in.discard()
	if err := flushTerminal(c.f); err != nil {
		return approval.Deny, err
	}
	if _, err := io.WriteString(c.out, question); err != nil {
		return approval.Deny, fmt.Errorf("ask on the terminal: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-c.signals:
			cancel()
		case <-ctx.Done():
		}
	})
	line, err := c.in.readLine(ctx)
	if err != nil {
		fmt.Fprintln(c.out) // the cursor is behind the question
		// The rest of an answer that is too long is no command line.
		if err := flushTerminal(c.f); err != nil {
			return approval.Deny, err
		}
	}
	switch line {
	case "y", "Y":
		return approval.Once, nil
	case "s", "S":
		return approval.ForSession, nil
	default:
		return approval.Deny, nil
	}
}
