package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"codex.internal/pkg/execclient"
)

// standard is the path by which cp names standard input as a source and standard output as a target.
const standard = "-"

// isOutput reports whether a local target is standard output. /dev/stdout is not opened by name:
// this would write at the beginning of a file to which other programs, such as the shell with >>,
// append.
func isOutput(target string) bool { return target == standard || target == "/dev/stdout" }

// isInput reports whether a local source is standard input.
func isInput(source string) bool { return source == standard || source == "/dev/stdin" }

// isSpecial reports whether a file is a device, a FIFO, a terminal or a socket. Such files are
// written to and read from, and never replaced.
func isSpecial(mode fs.FileMode) bool { return !mode.IsRegular() && !mode.IsDir() }

// openWaiting opens a special file for writing. It opens a FIFO as soon as a process reads it, and
// any other file at once. A blocking open of a FIFO could not be interrupted.
func openWaiting(ctx context.Context, name string) (*os.File, error) {
	look := time.NewTicker(lookForReader)
	defer look.Stop()
	for {
		f, err := os.OpenFile(name, os.O_WRONLY|openSpecial, 0)
		if err == nil || !noReader(name, err) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no process reads the FIFO: %w", ctx.Err())
		case <-look.C:
		}
	}
}

// writeSpecial writes a file of the server into a local device, FIFO or terminal.
func (cp *copying) writeSpecial(source, name string) error {
	f, err := openWaiting(cp.ctx, name)
	if err != nil {
		return fmt.Errorf("copy %s: %s: %w", source, name, withoutPath(err))
	}
	defer f.Close()
	// If the FIFO's reader does not read, this ends the write when the copy is interrupted.
	stop := context.AfterFunc(cp.ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := cp.printFile(source, f); err != nil {
		return err
	}
	return f.Close()
}

// printFile writes a file of the server to out. source is the path as the user typed it.
func (cp *copying) printFile(source string, out io.Writer) error {
	uri, err := cp.at.uri(source[1:])
	if err == nil {
		err = printFile(cp.ctx, out, cp.fs, uri)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	return nil
}

// uploadStream copies an input of unknown length, such as a pipe, to the server. If special is set,
// the target is a device, a FIFO or a terminal. It then gets all data in one message, because
// blocks are for regular files. below is that of uploadNamed.
func (cp *copying) uploadStream(in io.Reader, name, uri string, special, below bool) error {
	err := cp.noLink(uri, below)
	switch {
	case err != nil:
	case special:
		err = cp.uploadSpecial(in, uri)
	default:
		err = cp.fs.WriteStream(cp.ctx, uri, in, execclient.WriteOptions{Atomic: cp.fs.CanWriteAtomically(), NoFollow: below})
		if errors.Is(err, execclient.ErrUnsupported) {
			err = cp.uploadWhole(in, uri)
		}
		err = notThrough(err, below)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, withoutPath(err))
	}
	return nil
}

func (cp *copying) uploadSpecial(in io.Reader, uri string) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	return cp.fs.WriteFile(cp.ctx, uri, data)
}

// readWhole reads an input to send it in one message.
func readWhole(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, wholeLimit+1))
	if err == nil && len(data) > wholeLimit {
		err = fmt.Errorf("this server takes at most %d bytes in one message", wholeLimit)
	}
	return data, err
}
