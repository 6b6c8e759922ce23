package files

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is the category of an error. The server has an error code for each.
type Kind int

// The kinds of errors.
const (
	// Other is a failure of the system.
	Other Kind = iota
	// NotFound means that the file or directory of the request does not exist.
	NotFound
	// Invalid means that the request is wrong or not permitted.
	Invalid
)

// Classify returns the kind of an error: NotFound for ENOENT; Invalid for
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

// RuleError is the error of a request that violates a rule of this package. Its
// kind is Invalid, and errors.Is finds the Err... variable of the rule.
type RuleError struct {
	rule error // nil in the variables themselves
	text string
}

// Error returns the text for the client.
func (e *RuleError) Error() string { return e.text }

// Unwrap returns the variable that names the rule.
func (e *RuleError) Unwrap() error { return e.rule }

func newRule(text string) *RuleError { return &RuleError{text: text} }

// ruleErr returns an error of a rule with another text.
func ruleErr(rule *RuleError, text string) error { return &RuleError{rule: rule, text: text} }

// The rules.
var (
	// ErrSymlink is the error of operations with NoFollow for a path with a link.
	ErrSymlink = newRule("path contains a symbolic link")
	// ErrNotFile is the error for a path that must be a regular file.
	ErrNotFile = newRule("path is not a file")
	// ErrProc is the error of a confined write through /proc.
	ErrProc = newRule("path leads into /proc, where sandboxed requests do not write")
	// ErrProcess is the error of reading a process's file in /proc, or a file that a process has open.
	ErrProcess = newRule("path leads to a process in /proc, whose files no request reads")
	// ErrTooLarge is the error for files of more than MaxReadFile bytes.
	ErrTooLarge = newRule("file is too large to read: limit is " + strconv.Itoa(MaxReadFile) + " bytes")
	// ErrOffset is the error of writes that would end beyond the largest offset.
	ErrOffset = newRule("file write range exceeds the signed 64-bit file offset limit")
	// ErrDangling is the error of an atomic write to a dangling link.
	ErrDangling = newRule("path is a symbolic link that leads nowhere")
	// ErrRoot is the error of removing or replacing the root directory.
	ErrRoot = newRule("the root directory cannot be changed")
	// ErrMoved means that a directory was moved while Remove or Copy was in it.
	ErrMoved = newRule("a directory was moved during the operation")
	// ErrNotRecursive is the error of copying a directory without recursive.
	ErrNotRecursive = newRule("fs/copy requires recursive: true when sourcePath is a directory")
	// ErrIntoItself is the error of copying or moving a directory into itself.
	ErrIntoItself = newRule("fs/copy cannot copy a directory to itself or one of its descendants")
	// ErrSameFile is the error of copying or renaming a file onto itself.
	ErrSameFile = newRule("fs/copy cannot copy a file onto itself")
	// ErrPermissions is the error of permissions that have bits outside of MaxPermissions.
	ErrPermissions = newRule("permissions may only have the bits of owner, group and others: at most 511, which is octal 777")
	// ErrSpecial is the error of copying pipes, sockets and devices.
	ErrSpecial = newRule("fs/copy only supports regular files, directories, and symlinks")
	// ErrOtherFileSystem is the error of renaming to another file system, or to
	// another mount: in a sandbox, writable roots are mounts.
	ErrOtherFileSystem = newRule("source and destination are on different file systems")
	// ErrNoReplace is the error of renaming without overwrite on a file system that cannot do this
	// in one step: rename, but fail if the destination exists.
	ErrNoReplace = newRule("the file system cannot rename without replacing an existing destination: " +
		"rename with overwrite, if an existing file may be replaced")
	// ErrBusy is the error of renaming to or from a mount point. A sandbox protects
	// names by mounts.
	ErrBusy = newRule("source or destination is a mount point, or is protected by the sandbox")
	// ErrWalkLimits is the error of a walk with a limit of zero.
	ErrWalkLimits = newRule("filesystem walk limits must be greater than zero")
	// ErrWalkMaximums is the error of a walk with limits above the maximums.
	ErrWalkMaximums = newRule("filesystem walk limits exceed maximums: depth=" + strconv.Itoa(MaxWalkDepth) +
		", directories=" + strconv.Itoa(MaxWalkDirectories) + ", entries=" + strconv.Itoa(MaxWalkEntries))
)

// LeftOutError means that a tree was copied without its special files. It matches ErrSpecial. Count
// is the number of the special files. Paths names them, or as many of them as fit into an answer.
type LeftOutError struct {
	Count uint64
	Paths []string
}

func (e *LeftOutError) Error() string {
	return ErrSpecial.text + ": left out " + strconv.FormatUint(e.Count, 10) + ": " + strings.Join(e.Paths, ", ")
}

func (e *LeftOutError) Unwrap() error { return ErrSpecial }

var (
	// ErrTooManyNames means that a directory has more than maxNames names. Its
	// kind is Other: the request itself is valid.
	ErrTooManyNames = errors.New("directory has more than " + strconv.Itoa(maxNames) + " names")
	// ErrStalled means that the reader of a pipe took nothing for WriteStall.
	// Its kind is Other.
	ErrStalled = errors.New("the reader of the pipe or terminal takes no more data")
)

func inProc(name string) error {
	return ruleErr(ErrProc, "path `"+name+"` leads into /proc, where sandboxed requests do not write")
}

func ofProcess(name string) error {
	return ruleErr(ErrProcess, "path `"+name+"` leads to a process in /proc, whose files no request reads")
}

func notFile(name string) error { return ruleErr(ErrNotFile, "path `"+name+"` is not a file") }

// OSError is an error of the operating system, with the path that it concerns.
type OSError struct {
	Path  string
	Errno syscall.Errno
}

// Error returns the error in Codex CLI's format, with the path.
func (e *OSError) Error() string {
	return strerror(e.Errno) + " (os error " + strconv.Itoa(int(e.Errno)) + "): " + e.Path
}

// Unwrap returns the system's error.
func (e *OSError) Unwrap() error { return e.Errno }

// strerror returns the text of the C library, which begins with a capital letter.
func strerror(errno syscall.Errno) string {
	text := []byte(errno.Error())
	if c := text[0]; c >= 'a' && c <= 'z' {
		text[0] = c - 'a' + 'A'
	}
	return string(text)
}

// wrap adds the path to an error of the operating system, to ErrTooManyNames and to ErrStalled. It
// returns other errors unchanged.
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

// checkContext returns an error once the context has ended.
func checkContext(ctx context.Context) error {
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
