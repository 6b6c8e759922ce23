//go:build linux

// Package fshelper is the file system helper: a program that is started,
// already confined, for one file system request of a sandboxed client, or for
// one open file. Its language is described in pkg/fshelper.
//
// It is a filter: what it may do is decided by whoever starts it. It starts
// no goroutine, and what it links is kept small, because it is started anew
// for each request.
package fshelper

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

// Main runs the helper with its streams and returns its exit code: ExitOK when
// the request was answered, be it by an error, and when there is no request.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	if _, isProgram := stdin.(*os.File); isProgram {
		// Other processes of the user must not reach the helper's memory, nor the
		// pipes of its requests and answers by way of /proc: they could ask or
		// answer in the place of its server.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			_, _ = io.WriteString(unbufferedWriter(stderr), "fs sandbox helper failed: set dumpable: "+err.Error()+"\n")
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

// unbuffered returns the descriptor of a file in place of it. A write of
// os.File to a standard stream that nobody reads any more ends the program
// on the spot, and what an atomic write has not finished would stay behind.
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

var errNoRequest = errors.New("EOF while parsing a value: no request on stdin")
