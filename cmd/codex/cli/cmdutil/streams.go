// Package cmdutil has what the commands share: streams that keep text from
// elsewhere from controlling the terminal, errors with exit codes and hints,
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

// Streams are the input and the outputs of a command. Messages, tables and errors
// go to out and err, which replace control sequences: text of a server, a registry, a
// file name or a configuration file must not control the terminal. Output that the
// user wants unchanged goes to rawOut and rawErr: that of remote commands, the
// contents of files, as with ssh and cat, and progress bars and prompts of codex.
type Streams struct {
	In             io.Reader
	Out, Err       io.Writer
	RawOut, RawErr io.Writer
}

// NewStreams returns the streams of a program. A stdout that is not a terminal gets
// every byte as it is, for programs that read names; errors are for people, wherever
// they go.
func NewStreams(stdin io.Reader, stdout, stderr io.Writer) Streams {
	s := Streams{In: stdin, Out: stdout, Err: newDisplay(stderr), RawOut: stdout, RawErr: stderr}
	if IsTerminal(stdout) {
		s.Out = newDisplay(stdout)
	}
	return s
}

// display is a stream for messages. While a question is on the terminal it keeps
// them back: the programs that lead to servers, such as ssh, may write at any time.
type display struct {
	to   io.Writer
	safe *terminal.Writer

	mu   sync.Mutex
	held *Tail // nil: messages are shown
}

func newDisplay(to io.Writer) *display { return &display{to: to, safe: terminal.NewWriter(to)} }

// Write shows text, with everything made visible that a terminal would not print.
func (d *display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		return d.held.Write(text)
	}
	return d.safe.Write(text)
}

// drawn returns a writer for what codex draws itself, with sequences of its own.
// While messages are kept back, nothing is drawn.
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

// hold keeps messages back until show is called; of many, the last ones.
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

// HoldMessages keeps the messages of a stream back, if that is one of messages.
func HoldMessages(stream io.Writer) (show func()) {
	if d, ok := stream.(*display); ok {
		return d.hold()
	}
	return func() {}
}

// DrawOn returns the writer for what codex draws on a stream.
func DrawOn(stream io.Writer) io.Writer {
	if d, ok := stream.(*display); ok {
		return d.drawn()
	}
	return stream
}

// FileOf returns the file that a stream is, or that a display is of.
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

// ChildStderr is where a program writes its messages that leads to a server: to the
// same file as ours, unless that is a terminal.
func ChildStderr(stream io.Writer) io.Writer {
	if f, ok := FileOf(stream); ok && !IsTerminal(f) {
		return f
	}
	return stream
}

// Messagef prints a message. Errors in it are in plain words and take one line each:
// they may have the words of a server in them, which are not to look like lines of ours.
func Messagef(to io.Writer, format string, args ...any) {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = terminal.Text(Plain(err))
		}
	}
	fmt.Fprintf(to, format, args...)
}

// ListedNames returns how names are listed on a stream: a terminal shows one line for
// each, and nothing in it steers the terminal. Programs get names as they are.
func ListedNames(to io.Writer) func(name string) string {
	if IsTerminal(to) {
		return terminal.Text
	}
	// Between two of these bytes, which are in no text, a table leaves tabs and line
	// breaks alone.
	escape := string([]byte{tabwriter.Escape})
	return func(name string) string { return escape + name + escape }
}
