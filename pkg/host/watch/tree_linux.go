package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/host/files"
	"golang.org/x/sys/unix"
)

// treeMask are the events that are watched in each directory of a Tree.
const treeMask = entryMask | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_EXCL_UNLINK | unix.IN_ONLYDIR

// Tree watches a file, or a directory and, if it is recursive, all directories below it. Only one
// goroutine at a time may call Next. Close may be called from another goroutine, at any time and
// more than once.
//
// A directory is watched before its names are read, and the names in a new directory are reported
// as created. So a change may be reported twice, but none is missed. Symbolic links are followed
// only on the way to the root. The directories are opened for reading, one component after the
// other from the root. So a directory without read permission is not watched, although inotify
// itself would permit it.
//
// All watches of the program share one thread while they wait.
type Tree struct {
	// Do, if set, is used to call every f whose system calls on files may hang. If Do returns
	// false, it has not called f, and the watch ends. It must not be changed after Next was called.
	Do func(f func()) bool

	path      string // as the caller gave it
	at        string // the path of the watched directory
	only      string // the only reported name; "": all
	recursive bool
	ending    int // a descriptor that ends Next when it becomes readable; owned by the caller
	shared    *Instance
	events    *member // of shared; nil: the watch is closed, or has not begun
	// root identifies the directory that was at the path when the watch began. The directory is not
	// kept open, because the kernel reports the removal of a directory only when no process has it
	// open.
	root fileID

	folders map[int32]*folder
	top     *folder
	todo    []*folder // their names have to be read; they are not watched yet
	reading *os.File  // the directory whose names are being read
	inside  *folder   // of reading
	quiet   bool      // names that are read are not reported
	held    []Event   // for the next batch
	anew    int       // how often the tree was watched anew
	begun   time.Time // of the batch

	using  sync.Mutex // held by Next
	closed bool       // needs using
}

type fileID struct {
	dev, ino uint64
}

// OpenTree begins to watch the directory or file at an absolute path. It follows links on the way
// to it. ending is a descriptor that makes Next return when it is readable or its other end is
// closed. The caller still owns ending. The watch takes its events from in.
//
// The error is one of the system, ErrSilent, or a *LimitError.
func OpenTree(ctx context.Context, in *Instance, path string, recursive bool, ending int) (*Tree, error) {
	t := &Tree{path: path, at: path, recursive: recursive, ending: ending, shared: in}
	root, err := t.openRoot()
	if err == nil {
		t.root, err = identify(root)
		_ = unix.Close(root)
	}
	if err == nil {
		err = t.restart(ctx)
	}
	if err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// dirFlags are the flags with which directories are opened.
const dirFlags = unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC

// openRoot opens the directory to watch. For a file that is its parent directory.
func (t *Tree) openRoot() (int, error) {
	fd, err := openRetry(unix.AT_FDCWD, t.at, unix.O_RDONLY|dirFlags)
	if errors.Is(err, unix.ENOTDIR) {
		real, resolve := files.Canonicalize(t.path)
		if resolve != nil {
			return -1, resolve
		}
		t.at, t.only, t.recursive = filepath.Dir(real), filepath.Base(real), false
		fd, err = openRetry(unix.AT_FDCWD, t.at, unix.O_RDONLY|dirFlags)
	}
	return fd, osError(t.path, err)
}

// restart watches the whole tree again. It reads the names of the tree without reporting them.
func (t *Tree) restart(ctx context.Context) error {
	t.stopReading()
	t.folders, t.todo, t.anew = make(map[int32]*folder), nil, t.anew+1
	var err error
	if t.events != nil {
		t.events.reset()
	} else if t.events, err = t.shared.join(); err != nil {
		return limitOf(t.path, err)
	}
	t.top = &folder{}
	root, err := t.open(t.top)
	if err == nil {
		err = t.watch(root, t.top)
		_ = unix.Close(root)
	}
	if err != nil {
		return limitOf(t.path, err)
	}
	if !t.recursive {
		return nil
	}
	t.todo, t.quiet = []*folder{t.top}, true
	var found collector
	defer func() { t.quiet, t.held = false, found.batch.Events }()
	for len(t.todo) > 0 || t.reading != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.read(&found); err != nil {
			return err
		}
	}
	return nil
}

// watch adds an inotify watch for the directory that is open as fd. f describes it.
func (t *Tree) watch(fd int, f *folder) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if !tells(int64(st.Type)) {
		return ErrSilent
	}
	wd, err := t.events.add(fd, treeMask)
	if err != nil {
		return err
	}
	if other := t.folders[wd]; other != nil && other != f {
		if t.isAt(fd, other) {
			return errTwice
		}
		t.forget(other) // it was moved here, which will be reported separately
	}
	f.wd = wd
	t.folders[f.wd] = f
	return nil
}

// errTwice means that a directory is already watched under another path.
var errTwice = errors.New("the directory is watched under another path")

// isAt reports whether the directory at fd is the one where f should be.
func (t *Tree) isAt(fd int, f *folder) bool {
	other, err := t.open(f)
	if err != nil {
		return false
	}
	defer unix.Close(other)
	a, errA := identify(fd)
	b, errB := identify(other)
	return errA == nil && errB == nil && a == b
}

// open opens a directory of the tree for reading, one component after the other from the root.
func (t *Tree) open(f *folder) (int, error) {
	names := f.names(nil)
	at, err := openRetry(unix.AT_FDCWD, t.at, unix.O_RDONLY|dirFlags)
	if err == nil {
		var id fileID
		if id, err = identify(at); err == nil && id != t.root {
			err = unix.ENOENT // which Next will report
		}
	}
	for i := 0; i < len(names) && err == nil; i++ {
		mode := unix.O_PATH
		if i == len(names)-1 {
			mode = unix.O_RDONLY
		}
		above := at
		at, err = openRetry(above, names[i], mode|dirFlags|unix.O_NOFOLLOW)
		_ = unix.Close(above)
	}
	if err != nil && at >= 0 {
		_ = unix.Close(at)
	}
	return at, err
}

// enter begins to read the next directory whose names must be read. It watches the directory first.
func (t *Tree) enter(c *collector) error {
	f := t.todo[len(t.todo)-1]
	t.todo = t.todo[:len(t.todo)-1]
	if f.parent != nil && f.parent.folders[f.name] != f {
		return nil // it no longer exists
	}
	fd, err := t.open(f)
	if err == nil && f.parent != nil {
		if err = t.watch(fd, f); err != nil {
			_ = unix.Close(fd)
		}
	}
	switch {
	case err == nil:
		t.reading, t.inside = os.NewFile(uintptr(fd), f.name), f
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		t.forget(f) // another file has its name, which will be reported
		return nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, ErrSilent), errors.Is(err, errTwice):
		path := f.path(t.path, "")
		t.forget(f)
		c.add(Event{Path: path, Kind: Unwatched, Directory: true})
		return nil
	default:
		return limitOf(f.path(t.path, ""), err)
	}
}

// read reads some names of a directory that has been read only in part.
func (t *Tree) read(c *collector) error {
	if t.reading == nil {
		if err := t.enter(c); err != nil || t.reading == nil {
			return err
		}
	}
	entries, err := t.reading.ReadDir(readNames)
	for _, e := range entries {
		if !t.quiet {
			c.add(Event{Path: t.inside.path(t.path, e.Name()), Kind: Created, Directory: e.IsDir()})
		}
		if e.IsDir() {
			if err := t.discover(t.inside, e.Name()); err != nil {
				return err
			}
		}
	}
	if err != nil {
		t.stopReading() // no more names, or the directory was removed
		if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ENOENT) {
			return limitOf(t.path, err)
		}
	}
	return nil
}

func (t *Tree) stopReading() {
	if t.reading != nil {
		_ = t.reading.Close()
		t.reading, t.inside = nil, nil
	}
}

// discover records a directory that must be watched and read.
func (t *Tree) discover(parent *folder, name string) error {
	if len(t.folders)+len(t.todo) >= MaxTreeDirectories {
		return &LimitError{"a watch takes at most " + strconv.Itoa(MaxTreeDirectories) + " directories: watch a smaller one, or several"}
	}
	if old := parent.folders[name]; old != nil {
		t.forget(old)
	}
	if parent.folders == nil {
		parent.folders = make(map[string]*folder)
	}
	f := &folder{parent: parent, name: name, wd: -1}
	parent.folders[name] = f
	t.todo = append(t.todo, f)
	return nil
}

// forget ends the watches of a moved directory and of the directories below it.
func (t *Tree) forget(f *folder) {
	if f.parent != nil && f.parent.folders[f.name] == f {
		delete(f.parent.folders, f.name)
	}
	if f == t.inside {
		t.stopReading()
	}
	if f.wd >= 0 && t.folders[f.wd] == f {
		delete(t.folders, f.wd)
		t.events.remove(f.wd)
	}
	for _, below := range f.folders {
		t.forget(below)
	}
}

// Next waits for changes and returns them. It returns false after Close, or when the descriptor
// ending is readable. If Ended is set in a batch, it is the last one.
func (t *Tree) Next() (Batch, bool) {
	t.using.Lock()
	defer t.using.Unlock()
	var c collector
	for _, e := range t.held {
		c.add(e)
	}
	t.held, t.begun = nil, time.Time{}
	t.start(&c)
	for {
		if t.closed {
			return Batch{}, false
		}
		if !c.full() && (len(t.todo) > 0 || t.reading != nil) {
			if !t.do(func() { t.end(&c, t.read(&c)) }) {
				return Batch{}, false
			}
			t.start(&c)
			continue
		}
		timeout := t.left(&c)
		if c.full() || c.batch.Ended != "" || timeout == 0 {
			ok := t.do(func() { t.check(&c) })
			return c.batch, ok
		}
		ready, ended := t.poll(timeout)
		if ended {
			return Batch{}, false
		}
		if ready {
			if !t.do(func() { t.take(&c) }) {
				return Batch{}, false
			}
			t.start(&c)
		}
	}
}

func (t *Tree) do(f func()) bool {
	if t.Do != nil {
		return t.Do(f)
	}
	f()
	return true
}

// start records the time of the first event of the batch.
func (t *Tree) start(c *collector) {
	if t.begun.IsZero() && !c.batch.empty() {
		t.begun = time.Now()
	}
}

// left returns how long more events may be collected into the batch, or -1 if the batch is empty.
func (t *Tree) left(c *collector) time.Duration {
	if c.batch.empty() {
		return -1
	}
	return max(0, settleTime-time.Since(t.begun))
}

func (t *Tree) poll(timeout time.Duration) (ready, ended bool) {
	fds := append([]unix.PollFd{{Fd: int32(t.ending), Events: unix.POLLIN}}, t.events.sources()...)
	err := waits.await(fds, timeout)
	return fds[1].Revents|fds[2].Revents != 0, err != nil || fds[0].Revents != 0
}

// end ends the watch with an error.
func (t *Tree) end(c *collector, err error) {
	if err != nil && c.batch.Ended == "" {
		c.batch.Ended = err.Error()
		t.stopReading()
		t.todo = nil
	}
}

// check ends the watch if its path now leads to another directory. Changes in the old directory
// must not be reported under this path.
func (t *Tree) check(c *collector) {
	var st unix.Stat_t
	if err := unix.Stat(t.at, &st); err != nil || (fileID{uint64(st.Dev), st.Ino}) != t.root {
		c.batch.Events = nil
		t.end(c, errors.New("the directory "+t.at+" was moved or removed"))
	}
}

// overflow restarts the watch after the kernel has lost events.
func (t *Tree) overflow(c *collector) {
	c.lose()
	t.end(c, t.restart(context.Background()))
}

// Close ends the watch and releases its descriptors. If a call of Next is waiting, the caller must
// first end it by the descriptor ending.
func (t *Tree) Close() {
	t.using.Lock()
	defer t.using.Unlock()
	if !t.closed {
		t.closed = true
		t.release()
	}
}

func (t *Tree) release() {
	t.stopReading()
	if t.events != nil {
		t.events.leave()
	}
}

func identify(fd int) (fileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return fileID{uint64(st.Dev), st.Ino}, err
}

func openRetry(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// osError adds a path to an error of the system.
func osError(path string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &files.OSError{Path: path, Errno: errno}
	}
	return err
}

// limitOf returns a LimitError for the errors of inotify that mean that a limit of the user is
// reached.
func limitOf(path string, err error) error {
	setting := ""
	switch {
	case errors.Is(err, unix.ENOSPC):
		setting = "max_user_watches"
	case errors.Is(err, unix.EMFILE):
		setting = "max_user_instances"
	case errors.Is(err, ErrSilent):
		return &silentError{path}
	default:
		return osError(path, err)
	}
	now := ""
	if text, err := os.ReadFile("/proc/sys/fs/inotify/" + setting); err == nil {
		now = " (now " + strings.TrimSpace(string(text)) + "; a sandbox may use a quarter)"
	}
	return &LimitError{"no more directories can be watched: " + path + ": raise the limit fs.inotify." + setting + now}
}

// silentError is ErrSilent for a path.
type silentError struct{ path string }

func (e *silentError) Error() string { return ErrSilent.Error() + ": " + e.path }

func (e *silentError) Unwrap() error { return ErrSilent }
