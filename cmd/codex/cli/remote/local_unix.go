//go:build unix

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"codex.internal/pkg/execproto"
	"golang.org/x/sys/unix"
)

// permissionsOf are the permissions of a local file that its copy gets.
func permissionsOf(mode os.FileMode) *os.FileMode { return new(mode.Perm()) }

// localName is a file name of the server as a name here: it is the same.
func localName(name string) (string, error) { return name, nil }

// defaultEditor is there on every Unix.
const defaultEditor = "vi"

// editorCommand is the command that edits a file. As with git, the editor is a command
// line of the shell: it may have options and quotes.
func editorCommand(editor, name string) *exec.Cmd {
	return exec.Command("/bin/sh", "-c", editor+` "$@"`, editor, name)
}

// openSpecial are the flags to open a device, a FIFO or a terminal for writing: it
// does not wait, and the terminal does not become the controlling one.
const openSpecial = unix.O_NONBLOCK | unix.O_NOCTTY

// noReader reports whether an open failed because no process reads the FIFO. A socket
// has the same error.
func noReader(name string, err error) bool {
	st, stat := os.Stat(name)
	return errors.Is(err, unix.ENXIO) && stat == nil && st.Mode()&os.ModeNamedPipe != 0
}

// showEscapes makes a terminal obey escape sequences until undo is called:
// here they all do.
func showEscapes(io.Writer) (undo func()) { return func() {} }

// routineResize calls changed when the terminal's size may have changed since the process
// was told of it, told.
func routineResize(ctx context.Context, told *execproto.TerminalSize, size func() *execproto.TerminalSize, changed func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	// The process runs by now. A change until here gave no signal that was heard.
	if now := size(); now != nil && (told == nil || *now != *told) {
		changed()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			changed()
		}
	}
}

// openTTY opens the controlling terminal, whatever stdin is.
func openTTY() (in, out *os.File, err error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	return f, f, err
}

// controls reports whether a terminal is the controlling one: its foreground
// process group can be asked for.
func controls(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// waiter waits until a file can be read, which reading it cannot: a read of a
// terminal or a pipe cannot be interrupted.
type waiter struct {
	f    *os.File
	r, w *os.File // what is written to w ends a wait
}

// newWaiter returns the waiter of a file, nil if there can be none.
func newWaiter(f *os.File) *waiter {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	wait := &waiter{f, r, w}
	if f.Fd() >= unix.FD_SETSIZE || r.Fd() >= unix.FD_SETSIZE {
		wait.close()
		return nil
	}
	return wait
}

func (w *waiter) close() {
	_ = w.r.Close()
	_ = w.w.Close()
}

// readable waits until a read would not block or ctx ends, and returns its
// error then.
func (w *waiter) readable(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _, _ = w.w.Write([]byte{0}) })
	defer func() {
		if !stop() {
			_, _ = w.r.Read(make([]byte, 1)) // it has written, or will
		}
	}()
	for ctx.Err() == nil {
		var set unix.FdSet
		f, r := int(w.f.Fd()), int(w.r.Fd())
		set.Set(f)
		set.Set(r)
		// Not poll: that of macOS knows no terminals.
		_, err := unix.Select(max(f, r)+1, &set, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for input: %w", err)
		case set.IsSet(f) && !set.IsSet(r):
			return nil
		}
	}
	return ctx.Err()
}
