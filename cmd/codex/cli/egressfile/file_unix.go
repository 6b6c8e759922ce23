//go:build unix

package egressfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codex.internal/pkg/account/home"
)

const (
	// saveTime bounds the wait for another codex that changes the same file, which takes milliseconds; savePause
	// is the pause between two attempts.
	saveTime  = 5 * time.Second
	savePause = 20 * time.Millisecond
	// readTries bounds how often a file is read again if it was replaced while it was
	// read. Another codex replaces it once for each approval.
	readTries = 100
	// maxLinks bounds the links in a path, as Linux does.
	maxLinks = 40
	// maxPlaces bounds the positions in a file at which an addition is tried, each with
	// the parser. One or two are usual; a file that a command has made may have many.
	maxPlaces = 16
)

// newEgressPolicy is the initial text of a new file.
const newEgressPolicy = "# What network proxies of commands permit: codex exec-server --egress-policy FILE.\n" +
	"# codex remote --save has added what a person approved.\n" +
	"default = \"deny\"\n"

// File is a file in the format of --egress-policy, to which approved hosts are added. Its directory is kept open.
// Scenario: a running command replaces a directory of the path by a link, to redirect the write. It must be used
// by one goroutine.
type File struct {
	dir  *os.Root
	name string
	path string // the path for messages
}

// Open opens the directory of a file, and reads the file if it exists. It returns an error if the file is not a valid egress
// policy, is a link or belongs to another user. It also returns an error if the path leads through a link of another user.
func Open(path string) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := ownLinks(filepath.Dir(path)); err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f := &File{dir: dir, name: filepath.Base(path), path: path}
	info, err := dir.Stat(".")
	if err == nil && !isOurs(info) {
		err = fmt.Errorf("%s belongs to another user", filepath.Dir(path))
	}
	if err == nil {
		_, _, err = f.read()
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the directory.
func (f *File) Close() error { return f.dir.Close() }

// ownLinks returns an error if a path leads through a link of another user.
func ownLinks(path string) error {
	for links := 0; ; links++ {
		link, rest, err := firstLink(path)
		if err != nil || link == "" {
			return err
		}
		target, err := os.Readlink(link)
		switch {
		case err != nil:
			return err
		case links == maxLinks:
			return &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		case !filepath.IsAbs(target):
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
}

// firstLink returns the first link of an absolute path and the rest after it. link is "" if the
// path has no link.
func firstLink(path string) (link, rest string, err error) {
	at := ""
	names := strings.Split(strings.Trim(path, "/"), "/")
	for i, name := range names {
		at += "/" + name
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return "", "", err
		case info.Mode()&fs.ModeSymlink == 0:
		case !isOurs(info):
			return "", "", fmt.Errorf("%s is a link of another user", at)
		default:
			return at, strings.Join(names[i+1:], "/"), nil
		}
	}
	return "", "", nil
}

// isOurs reports whether a file belongs to this user or to root.
func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// errReplaced means that another file has replaced the file under its name.
var errReplaced = errors.New("was replaced meanwhile")

// read returns the text of the file, which is a valid egress policy. If the file does not exist, it returns
// newEgressPolicy, and info is nil. If another codex replaces the file meanwhile, it reads the new one.
func (f *File) read() (string, fs.FileInfo, error) {
	for tries := 1; ; tries++ {
		text, info, err := f.readOnce()
		if !errors.Is(err, errReplaced) || tries == readTries {
			return text, info, err
		}
	}
}

func (f *File) readOnce() (string, fs.FileInfo, error) {
	named, err := f.dir.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newEgressPolicy, nil, nil
	case err != nil:
		return "", nil, err
	case named.Mode()&fs.ModeSymlink != 0:
		return "", nil, fmt.Errorf("%s is a link; name the file itself", f.path)
	case !named.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file", f.path)
	case !isOurs(named):
		return "", nil, fmt.Errorf("%s belongs to another user", f.path)
	}
	file, err := f.dir.OpenFile(f.name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !os.SameFile(named, info) {
		err = fmt.Errorf("%s %w", f.path, errReplaced)
	}
	if err != nil {
		return "", nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s is larger than %d bytes", f.path, maxSize)
	}
	if err == nil {
		_, err = parse(text)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s is not a valid egress policy: %w", f.path, err)
	}
	return string(text), info, nil
}

// Allow adds patterns to the list allow of the file, unless the list has them already. The file gets mode 0600
// and is replaced in one step, so a reader sees the old or the new one.
func (f *File) Allow(ctx context.Context, patterns ...string) (err error) {
	lock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = lock.Close() // at worst this closes it a second time
		if err != nil {
			_ = f.dir.Remove(f.lockName())
			err = fmt.Errorf("add to %s: %w", f.path, err)
		}
	}()
	text, info, err := f.read()
	if err != nil {
		return err
	}
	changed, err := allowIn(text, patterns)
	if err != nil {
		return err
	}
	if changed == text {
		return f.dir.Remove(f.lockName())
	}
	if info != nil {
		if err := lock.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := lock.WriteString(changed); err != nil {
		return err
	}
	if err := errors.Join(lock.Sync(), lock.Close()); err != nil {
		return err
	}
	return f.dir.Rename(f.lockName(), f.name)
}

// lockName is the name of the new file while it is written. It is also the lock, as
// with git: only one process can create it.
func (f *File) lockName() string { return "." + f.name + ".lock" }

func (f *File) lock(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	for {
		lock, err := f.dir.OpenFile(f.lockName(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return lock, err
		}
		select {
		case <-time.After(savePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("add to %s: another codex is changing it; if none is, remove %s", f.path,
				filepath.Join(filepath.Dir(f.path), f.lockName()))
		}
	}
}

// allowList matches the beginning of a list allow.
var allowList = regexp.MustCompile(`(?m)^[ \t]*"?allow"?[ \t]*=[ \t]*\[`)

// tableHeader matches the beginning of a table. After it there are no keys of the
// policy itself.
var tableHeader = regexp.MustCompile(`(?m)^[ \t]*\[`)

// allowIn returns the text of an egress policy with patterns added to its list allow. The rest of the text, with
// its comments, does not change. Text that looks like the list may be inside of a multi-line string, so the
// parser checks each result.
func allowIn(text string, patterns []string) (string, error) {
	var before policy
	if err := home.DecodeTOML([]byte(text), &before, true); err != nil {
		return "", err
	}
	wanted := before
	wanted.Allow = nil
	quoted := ""
	for _, pattern := range patterns {
		if !slices.Contains(before.Allow, pattern) && !slices.Contains(wanted.Allow, pattern) {
			wanted.Allow = append(wanted.Allow, pattern)
			quoted += "\n  " + strconv.Quote(pattern) + ","
		}
	}
	if quoted == "" {
		return text, nil
	}
	wanted.Allow = append(wanted.Allow, before.Allow...)
	for candidate := range allowPlaces(text, quoted) {
		var after policy
		if home.DecodeTOML([]byte(candidate), &after, true) != nil || !reflect.DeepEqual(after, wanted) || len(candidate) > maxSize {
			continue
		}
		_, err := parse([]byte(candidate))
		return candidate, err
	}
	return "", fmt.Errorf("found no place for %s in the file; add it to allow by hand", strings.Join(patterns, ", "))
}

// allowPlaces yields candidate texts with the quoted patterns inserted at each of the
// first possible positions: in a list allow or, without one, in a new list before a
// table or at the end.
func allowPlaces(text, quoted string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, at := range allowList.FindAllStringIndex(text, maxPlaces) {
			rest := text[at[1]:]
			if !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "\n") {
				rest = "\n" + rest
			}
			if !yield(text[:at[1]] + quoted + rest) {
				return
			}
		}
		list := "allow = [" + quoted + "\n]\n"
		for _, at := range tableHeader.FindAllStringIndex(text, maxPlaces) {
			if !yield(text[:at[0]] + list + text[at[0]:]) {
				return
			}
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		yield(text + list)
	}
}
