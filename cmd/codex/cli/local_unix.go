//go:build unix

package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// errRefused is what a dial says when nobody listens.
const errRefused = syscall.ECONNREFUSED

// umask reads the mask of new files, which can only be read by setting it.
func umask() (mask os.FileMode) {
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return os.FileMode(m)
}

// localName is a file name of the server as a name here: it is the same.
func localName(name string) (string, error) { return name, nil }

// showEscapes makes a terminal obey escape sequences until undo is called:
// here they all do.
func showEscapes(io.Writer) (undo func()) { return func() {} }

// routineResize passes the terminal's size on when it changes.
func (r *remoteRun) routineResize(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			r.resize(ctx, r.size())
		}
	}
}
