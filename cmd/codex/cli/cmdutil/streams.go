// Package cmdutil contains code that the commands share: streams that prevent
// foreign text from controlling the terminal, errors with exit codes and hints,
// options and the version.
package cmdutil

import (
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"

	"codex.internal/pkg/host/terminal"
	"golang.org/x/term"
)

// Streams are the input and the outputs of a command. Messages, tables and errors go to out and
// err, which replace control sequences: text from a server, a registry, a file name or a
// configuration file must not control the terminal. Output that must stay unchanged goes to rawOut
// and rawErr: output of remote commands and contents of files, as with ssh and cat, and codex's own
// progress bars and prompts.
type Streams struct {
	In             io.Reader
	Out, Err       io.Writer
	RawOut, RawErr io.Writer
}

// NewStreams returns the streams of a program. If stdout is not a terminal, it is written without changes, for
// programs that read names from it. Text on stderr is for people, so control sequences are replaced in any case.
func NewStreams(stdin io.Reader, stdout, stderr io.Writer) Streams {
	s := Streams{In: stdin, Out: stdout, Err: newDisplay(stderr), RawOut: stdout, RawErr: stderr}
	if IsTerminal(stdout) {
		s.Out = newDisplay(stdout)
	}
	return s
}

// display is a stream for messages. While a question is shown, it holds messages back, because a program that
// connects to a server, such as ssh, may write at any time.
type display struct {
	to   io.Writer
	safe *terminal.Writer

	mu   sync.Mutex
	held *Tail // nil: messages are shown
}

func newDisplay(to io.Writer) *display { return &display{to: to, safe: terminal.NewWriter(to)} }

// Write shows text; control characters are escaped.
func (d *display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		return d.held.Write(text)
	}
	return d.safe.Write(text)
}

// drawn returns a writer for prompts and progress bars of codex, which contain control sequences. While messages
// are held back, it discards output.
func (d *display) drawn() io.Writer { return drawing{d} }

type drawing struct{ d *display }

func (w drawing) Write(text []byte) (int, error) {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.held != nil {
		return len(text), nil
	}
	return w.d.to.Write(text)
}

// hold holds messages back until show is called. It retains only the last ones.
func (d *display) hold() (show func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = &Tail{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, _ = d.safe.Write(d.held.text)
		d.held = nil
	}
}

// HoldMessages holds the messages of a stream back, if the stream is a display.
func HoldMessages(stream io.Writer) (show func()) {
	if d, ok := stream.(*display); ok {
		return d.hold()
	}
	return func() {}
}

// DrawOn returns the writer for prompts and progress bars on a stream.
func DrawOn(stream io.Writer) io.Writer {
	if d, ok := stream.(*display); ok {
		return d.drawn()
	}
	return stream
}

// FileOf returns the file of a stream: the stream itself, or the file that a display writes to.
func FileOf(stream any) (*os.File, bool) {
	switch s := stream.(type) {
	case *display:
		stream = s.to
	case drawing:
		stream = s.d.to
	}
	f, ok := stream.(*os.File)
	return f, ok
}

func IsTerminal(stream any) bool {
	f, ok := FileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns returns the width of the terminal that a stream writes to; 0: it is no terminal.
func Columns(stream any) int {
	f, ok := FileOf(stream)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// ChildStderr returns the stderr of a program that connects to a server: the same file as that of codex, or, if
// that is a terminal, the display.
func ChildStderr(stream io.Writer) io.Writer {
	if f, ok := FileOf(stream); ok && !IsTerminal(f) {
		return f
	}
	return stream
}

// Messagef prints a message. It prints each error in it in plain words and on one line, because text from a
// server must not look like a message of codex.
func Messagef(to io.Writer, format string, args ...any) {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = OwnCommands(terminal.Text(Plain(err)))
		}
	}
	fmt.Fprintf(to, OwnCommands(format), args...)
}

// ListedNames returns a function that formats a name for a stream. On a terminal, a name takes one line and
// its control characters are escaped. For programs, names are unchanged.
func ListedNames(to io.Writer) func(name string) string {
	if IsTerminal(to) {
		return terminal.Text
	}
	// No text contains these two bytes. Between them tabwriter does not interpret tabs and line
	// breaks.
	escape := string([]byte{tabwriter.Escape})
	return func(name string) string { return escape + name + escape }
}
