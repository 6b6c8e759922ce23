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

// permissionsOf returns the permissions for a copy of a local file.
func permissionsOf(mode os.FileMode) *os.FileMode { return new(mode.Perm()) }

// hasHoles reports whether a local file takes less space than its size, so that it probably has holes.
func hasHoles(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Blocks*512 < st.Size()
}

// localName returns the local name for a file name of the server, which is the same.
func localName(name string) (string, error) { return name, nil }

// vi exists on every Unix.
const defaultEditor = "vi"

// editorCommand returns the command that edits a file. As in git, the editor is a shell
// command line: it may have options and quotes.
func editorCommand(editor, name string) *exec.Cmd {
	return exec.Command("/bin/sh", "-c", editor+` "$@"`, editor, name)
}

// openSpecial are flags to open a device, a FIFO or a terminal for writing. The open does not wait,
// and does not make the terminal the controlling one.
const openSpecial = unix.O_NONBLOCK | unix.O_NOCTTY

// noReader reports whether an open failed because no process reads the FIFO. Opening a socket
// fails with the same error number.
func noReader(name string, err error) bool {
	st, stat := os.Stat(name)
	return errors.Is(err, unix.ENXIO) && stat == nil && st.Mode()&os.ModeNamedPipe != 0
}

// showEscapes makes a terminal interpret escape sequences until undo is called. On Unix all
// terminals do so already.
func showEscapes(io.Writer) (undo func()) { return func() {} }

// routineResize calls changed when the terminal's size may differ from sent, the size that the
// process got last.
func routineResize(ctx context.Context, sent *execproto.TerminalSize, size func() *execproto.TerminalSize, changed func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	// The process runs already. If the size changed before Notify was called, no signal arrived.
	if now := size(); now != nil && (sent == nil || *now != *sent) {
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

// openTTY opens the controlling terminal, even if stdin is a different file.
func openTTY() (in, out *os.File, err error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	return f, f, err
}

// controls reports whether a terminal is the controlling one. Only for that one can the foreground
// process group be queried.
func controls(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// waiter waits until a file is readable. A read of a terminal or a pipe cannot be interrupted; this
// wait can.
type waiter struct {
	f    *os.File
	r, w *os.File // a byte in w ends a wait
}

// newWaiter returns the waiter of a file. It returns nil if select cannot be used.
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

// readable waits until a read would not block. If ctx ends first, it returns the error of ctx.
func (w *waiter) readable(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _, _ = w.w.Write([]byte{0}) })
	defer func() {
		if !stop() {
			_, _ = w.r.Read(make([]byte, 1)) // the byte was written, or is about to be
		}
	}()
	for ctx.Err() == nil {
		var set unix.FdSet
		f, r := int(w.f.Fd()), int(w.r.Fd())
		set.Set(f)
		set.Set(r)
		// poll does not support terminals on macOS, so use select.
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
