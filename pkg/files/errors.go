// Package files does the file system work of the server on native absolute
// paths (sections 5 and 8.1). It knows no protocol.
//
// The trees it works on may be hostile and may change while it works: what
// goes down a tree holds descriptors of directories and never follows a link
// that appeared meanwhile, and nothing is looked at by name and then used by
// name where that would matter. Files that are no files, such as pipes, never
// make an operation hang.
package files

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is whose fault an error is.
type Kind int

// The kinds of errors.
const (
	Other    Kind = iota
	NotFound      // what the operation is about is not there
	Invalid       // the request cannot be right, or is not permitted
)

// Classify says what kind of error err is.
func Classify(err error) Kind {
	var rule *RuleError
	switch {
	case errors.As(err, &rule), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return Invalid
	case errors.Is(err, syscall.ENOENT):
		return NotFound
	default:
		return Other
	}
}

// RuleError says that a rule of this package was broken.
type RuleError struct{ text string }

func (e *RuleError) Error() string { return e.text }

func rulef(format string, args ...any) error { return &RuleError{fmt.Sprintf(format, args...)} }

// ErrSymlink is what operations that follow no links say of a path with one.
var ErrSymlink = rulef("path contains a symbolic link")

// OSError is an error of the system with the path it concerns.
type OSError struct {
	Path  string
	Errno syscall.Errno
}

// Error spells the error as the reference does, and names the path.
func (e *OSError) Error() string {
	text := e.Errno.Error()
	return fmt.Sprintf("%c%s (os error %d): %s", text[0]&^0x20, text[1:], int(e.Errno), e.Path)
}

// Unwrap returns the system's error.
func (e *OSError) Unwrap() error { return e.Errno }

// wrap gives an error of the system its path. Other errors pass.
func wrap(path string, err error) error {
	var errno syscall.Errno
	var named *OSError
	if err == nil || errors.As(err, &named) || !errors.As(err, &errno) {
		return err
	}
	return &OSError{Path: path, Errno: errno}
}

// ended returns the context's error once it has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped half-way: %w", err)
	}
	return nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
