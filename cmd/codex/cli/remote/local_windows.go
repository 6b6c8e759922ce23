package remote

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execproto"
	"golang.org/x/sys/windows"
)

// permissionsOf are the permissions of a local file that its copy gets: files have none
// that other systems know.
func permissionsOf(os.FileMode) *os.FileMode { return nil }

// localName is a file name of the server as a name here. Those with a
// backslash or a colon, which would lead elsewhere, and those of devices are
// refused.
func localName(name string) (string, error) { return filepath.Localize(name) }

// defaultEditor is there on every Windows.
const defaultEditor = "notepad"

// editorCommand is the command that edits a file. The editor may have options, which
// are separated by blanks.
func editorCommand(editor, name string) *exec.Cmd {
	words := strings.Fields(editor)
	return exec.Command(words[0], append(words[1:], name)...)
}

// openSpecial are the flags to open a device for writing: there are no further ones.
const openSpecial = 0

// noReader reports whether an open failed because no process reads the FIFO: FIFOs
// have no names in directories here.
func noReader(string, error) bool { return false }

// showEscapes makes a console obey escape sequences until undo is called;
// older ones print them unless they are asked.
func showEscapes(to io.Writer) (undo func()) {
	undo = func() {}
	f, ok := cmdutil.FileOf(to)
	if !ok {
		return undo
	}
	console, before := windows.Handle(f.Fd()), uint32(0)
	if windows.GetConsoleMode(console, &before) != nil {
		return undo // not a console
	}
	mode := before | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	if windows.SetConsoleMode(console, mode) != nil {
		return undo
	}
	return func() { _ = windows.SetConsoleMode(console, before) }
}

// lookAtSize is how often the console's size is looked at: nobody tells of a
// change, and a person who drags a window waits this long.
const lookAtSize = 250 * time.Millisecond

// routineResize calls changed when the terminal's size has changed since the process was
// told of it, told.
func routineResize(ctx context.Context, told *execproto.TerminalSize, size func() *execproto.TerminalSize, changed func()) {
	look := time.NewTicker(lookAtSize)
	defer look.Stop()
	last := told
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			now := size()
			if now == nil || last != nil && *now == *last {
				continue
			}
			last = now
			changed()
		}
	}
}

// openTTY opens the console, whatever stdin is.
func openTTY() (in, out *os.File, err error) {
	if in, err = os.OpenFile("CONIN$", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	if out, err = os.OpenFile("CONOUT$", os.O_RDWR, 0); err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	return in, out, nil
}

// controls reports whether a console is the program's own: there is no other.
func controls(*os.File) bool { return true }

// flushTerminal forgets what was typed and not read yet.
func flushTerminal(f *os.File) error {
	if err := windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())); err != nil {
		return fmt.Errorf("flush the console: %w", err)
	}
	return nil
}

// hideKeys has the console not show what is typed until show is called: it shows
// keys only while a line is read.
func hideKeys(*os.File) (show func(), err error) { return func() {}, nil }

// waiter waits until a file can be read; there is none for consoles, which
// are ready with every key that ends no line.
type waiter struct{}

func newWaiter(*os.File) *waiter { return nil }

func (*waiter) readable(context.Context) error { return nil }

func (*waiter) close() {}
