package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// errRefused is what a dial says when nobody listens.
const errRefused = windows.WSAECONNREFUSED

// umask is the mask of new files: there is none.
func umask() os.FileMode { return 0 }

// localName is a file name of the server as a name here. Those with a
// backslash or a colon, which would lead elsewhere, and those of devices are
// refused.
func localName(name string) (string, error) { return filepath.Localize(name) }

// showEscapes makes a console obey escape sequences until undo is called;
// older ones print them unless they are asked.
func showEscapes(to io.Writer) (undo func()) {
	undo = func() {}
	f, ok := fileOf(to)
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

// routineResize passes the terminal's size on when it changes.
func (r *remoteRun) routineResize(ctx context.Context) {
	if !r.tty {
		return
	}
	look := time.NewTicker(lookAtSize)
	defer look.Stop()
	last := r.size()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			size := r.size()
			if size == nil || last != nil && *size == *last {
				continue
			}
			last = size
			r.resize(ctx, size)
		}
	}
}
