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

// permissionsOf returns nil: files have no permissions that other systems know.
func permissionsOf(os.FileMode) *os.FileMode { return nil }

// hasHoles returns false: sparse files of Windows are rare.
func hasHoles(os.FileInfo) bool { return false }

// localName returns the local name for a file name of the server. It returns an error for names
// with a backslash or a colon, which would lead elsewhere, and for device names.
func localName(name string) (string, error) { return filepath.Localize(name) }

// notepad exists on every Windows.
const defaultEditor = "notepad"

// editorCommand returns the command that edits a file. The editor may have options, separated
// by spaces.
func editorCommand(editor, name string) *exec.Cmd {
	words := strings.Fields(editor)
	return exec.Command(words[0], append(words[1:], name)...)
}

// openSpecial is empty: opening a device needs no flags here.
const openSpecial = 0

// noReader returns false, because Windows has no FIFOs in directories.
func noReader(string, error) bool { return false }

// showEscapes makes a console interpret escape sequences until undo is called. Older consoles would
// print them.
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

// lookAtSize is the interval at which the console's size is polled, because no event reports a
// change. A user who drags a window waits this long.
const lookAtSize = 250 * time.Millisecond

// routineResize calls changed when the terminal's size differs from sent, the size that the process
// got last.
func routineResize(ctx context.Context, sent *execproto.TerminalSize, size func() *execproto.TerminalSize, changed func()) {
	look := time.NewTicker(lookAtSize)
	defer look.Stop()
	last := sent
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

// openTTY opens the console, even if stdin is a different file.
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

// controls returns true: a program has one console.
func controls(*os.File) bool { return true }

// flushTerminal discards keys that were typed and not read yet.
func flushTerminal(f *os.File) error {
	if err := windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())); err != nil {
		return fmt.Errorf("flush the console: %w", err)
	}
	return nil
}

// hideKeys does nothing, because the console echoes keys only while a line is read.
func hideKeys(*os.File) (show func(), err error) { return func() {}, nil }

// waiter is not used on Windows: consoles are readable after every key, even if a read would still
// wait for a line.
type waiter struct{}

func newWaiter(*os.File) *waiter { return nil }

func (*waiter) readable(context.Context) error { return nil }

func (*waiter) close() {}

// isMountPoint returns false: on Windows only the root of a drive counts.
func isMountPoint(string) bool { return false }
