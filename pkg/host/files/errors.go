//go:build linux || darwin

package files

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is whose fault an error is; the server has a code for each.
type Kind int

// The kinds of errors.
const (
	// Other is a failure of the system, or of nobody in particular.
	Other Kind = iota
	// NotFound says that what the operation is about is not there.
	NotFound
	// Invalid says that the request cannot be right, or is not permitted.
	Invalid
)

// Classify says what kind of error err is: NotFound for ENOENT; Invalid for
// EINVAL, EACCES, EPERM and the rules of this package; else Other.
func Classify(err error) Kind {
	var rule *RuleError
	switch {
	case errors.As(err, &rule), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return Invalid
	case errors.Is(err, unix.ENOENT):
		return NotFound
	default:
		return Other
	}
}

// RuleError says that a rule of this package was broken. Its kind is Invalid,
// and errors.Is finds the Err... variable that names the rule.
type RuleError struct {
	rule error // nil in the variables themselves
	text string
}

// Error returns the text for the client.
func (e *RuleError) Error() string { return e.text }

// Unwrap returns the variable that names the rule.
func (e *RuleError) Unwrap() error { return e.rule }

func newRule(text string) *RuleError { return &RuleError{text: text} }

// broken is a rule's error with a text of its own.
func broken(rule *RuleError, text string) error { return &RuleError{rule: rule, text: text} }

// The rules.
var (
	// ErrSymlink is what operations with NoFollow say of a path with a link.
	ErrSymlink = newRule("path contains a symbolic link")
	// ErrNotFile is broken where only a regular file will do.
	ErrNotFile = newRule("path is not a file")
	// ErrProc is broken by a confined write to what is reached through /proc.
	ErrProc = newRule("path leads into /proc, where sandboxed requests do not write")
	// ErrTooLarge is broken by files that are too large to be read at once.
	ErrTooLarge = newRule("file is too large to read: limit is " + strconv.Itoa(MaxReadFile) + " bytes")
	// ErrOffset is broken by writes that would end beyond the largest file.
	ErrOffset = newRule("file write range exceeds the signed 64-bit file offset limit")
	// ErrDangling is broken by an atomic write to a link that leads nowhere.
	ErrDangling = newRule("path is a symbolic link that leads nowhere")
	// ErrRoot is broken by removing the root directory and the like.
	ErrRoot = newRule("the root directory cannot be changed")
	// ErrMoved says that a directory was moved while Remove or Copy was in it.
	ErrMoved = newRule("a directory was moved while it was being worked on")
	// ErrNotRecursive is broken by copying a directory without recursive.
	ErrNotRecursive = newRule("fs/copy requires recursive: true when sourcePath is a directory")
	// ErrIntoItself is broken by copying a directory into itself.
	ErrIntoItself = newRule("fs/copy cannot copy a directory to itself or one of its descendants")
	// ErrSameFile is broken by copying a file onto itself.
	ErrSameFile = newRule("fs/copy cannot copy a file onto itself")
	// ErrSpecial is broken by copying pipes, sockets and devices.
	ErrSpecial = newRule("fs/copy only supports regular files, directories, and symlinks")
	// ErrWalkLimits is broken by a walk without room for anything.
	ErrWalkLimits = newRule("filesystem walk limits must be greater than zero")
	// ErrWalkMaximums is broken by a walk that asks for too much.
	ErrWalkMaximums = newRule("filesystem walk limits exceed maximums: depth=" + strconv.Itoa(MaxWalkDepth) +
		", directories=" + strconv.Itoa(MaxWalkDirectories) + ", entries=" + strconv.Itoa(MaxWalkEntries))
)

var (
	// ErrTooManyNames says that a directory has more names than can be held.
	// Its kind is Other: nothing is wrong with the request.
	ErrTooManyNames = errors.New("directory has more than " + strconv.Itoa(maxNames) + " names")
	// ErrStalled says that the reader of a pipe took nothing for WriteStall.
	// Its kind is Other.
	ErrStalled = errors.New("the reader of the pipe or terminal takes no more data")
)

func inProc(name string) error {
	return broken(ErrProc, "path `"+name+"` leads into /proc, where sandboxed requests do not write")
}

func notFile(name string) error { return broken(ErrNotFile, "path `"+name+"` is not a file") }

// OSError is an error of the system with the path that it concerns.
type OSError struct {
	Path  string
	Errno syscall.Errno
}

// Error spells the error as the reference does, and names the path.
func (e *OSError) Error() string {
	return strerror(e.Errno) + " (os error " + strconv.Itoa(int(e.Errno)) + "): " + e.Path
}

// Unwrap returns the system's error.
func (e *OSError) Unwrap() error { return e.Errno }

// strerror is the C library's text, which Go has without its capital letter.
func strerror(errno syscall.Errno) string {
	text := []byte(errno.Error())
	if c := text[0]; c >= 'a' && c <= 'z' {
		text[0] = c - 'a' + 'A'
	}
	return string(text)
}

// wrap gives an error of the system, or one of the two without a path, the
// path that it concerns. Others pass.
func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := err.(syscall.Errno); ok {
		return &OSError{Path: name, Errno: errno}
	}
	if err == ErrTooManyNames || err == ErrStalled {
		return fmt.Errorf("%w: %s", err, name)
	}
	var named *OSError
	var errno syscall.Errno
	if !errors.As(err, &named) && errors.As(err, &errno) { // in an os.PathError
		return &OSError{Path: name, Errno: errno}
	}
	return err
}

// ended returns an error once the context has ended.
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
