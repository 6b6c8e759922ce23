// Package codexfs is the program codex-fs, the file system helper: the launcher
// starts it in a sandbox for one file system request, or for one open file. Package
// fshelper describes its protocol.
//
// The helper itself enforces no permissions: its sandbox does. It starts no goroutines and
// links few packages, because it is started for each request.
package codexfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Exit codes of Main.
const (
	ExitOK     = 0
	ExitFailed = 1
)

// Main runs the helper with the given streams and returns its exit code. It returns ExitOK if
// the request was answered, even with an error, else ExitFailed.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	if _, isProgram := stdin.(*os.File); isProgram {
		// Other processes of the user must not access the helper's memory, nor,
		// through /proc, the pipes of its requests and answers: they could write
		// requests or answers of their own.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			_, _ = io.WriteString(unbufferedWriter(stderr), "fs sandbox helper failed: protect its memory from other processes: "+err.Error()+"\n")
			return ExitFailed
		}
		if !deniedByEnvironment() {
			_, _ = io.WriteString(unbufferedWriter(stderr), "fs sandbox helper failed: the list of denied paths is invalid\n")
			return ExitFailed
		}
	}
	s := &session{in: newInput(unbuffered(stdin)), out: &output{w: unbufferedWriter(stdout)}}
	if err := s.run(); err != nil {
		_, _ = io.WriteString(unbufferedWriter(stderr), "fs sandbox helper failed: "+err.Error()+"\n")
		return ExitFailed
	}
	return ExitOK
}

// unbuffered returns a reader for the descriptor of a file. Writes do not use os.File: if the
// reader of a standard stream is gone, os.File kills the program (SIGPIPE), and the temporary
// file of an atomic write would remain.
func unbuffered(r io.Reader) io.Reader {
	if f, ok := r.(*os.File); ok {
		return descriptor(f.Fd())
	}
	return r
}

func unbufferedWriter(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		return descriptor(f.Fd())
	}
	return w
}

var errNoRequest = errors.New("no request on stdin")
