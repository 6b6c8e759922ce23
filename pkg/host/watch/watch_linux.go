package watch

import (
	"bytes"
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// entryMask are the events to watch in a directory: those of its names and of the directory
	// itself.
	entryMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | selfMask
	// selfMask are the events to watch on a file or directory itself.
	selfMask = unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	// presentMask are the events to watch on the path that must exist.
	presentMask = selfMask | unix.IN_MODIFY
)

// errRefused is the reason why a watch is refused: a path does not meet the conditions of New, or
// its file system does not report changes.
var errRefused = errors.New("the path cannot be watched")

// Watch is a watch of some paths. Wait must be called once. Close may be called from another
// goroutine at any time, and more than once.
//
// All watches of the program share one thread.
type Watch struct {
	events *member
	mounts int             // /proc/self/mountinfo
	ending int             // an eventfd that ends Wait
	nodes  map[int32]*node // by watch descriptor

	closing sync.Once
	waiting sync.Mutex // held by Wait
	closed  bool       // the descriptors are; needs waiting
}

// New begins to watch, and takes its events from in. missing are the paths that must not exist. present, if it is not "", is a
// path that must exist. All are absolute and clean. Wait of the watch returns true after an event
// since New that may have created a missing path, or that may have changed the present path or a
// directory above one of the paths.
//
// New returns nil if it cannot guarantee that: a missing path exists, the present path does not
// exist, a component is a symbolic link or not a directory, a file system does not report every
// change, there are too many paths or directories, or the system refuses.
func New(in *Instance, missing []string, present string) *Watch {
	tree := newTree(missing, present)
	if tree == nil {
		return nil
	}
	w, err := open(in)
	if err != nil {
		return nil
	}
	if err := w.watchRoot(tree); err != nil {
		w.Close()
		return nil
	}
	return w
}

// open opens the descriptors of a watch. Changes of the mount table after this call are noticed.
func open(in *Instance) (*Watch, error) {
	w := &Watch{nodes: make(map[int32]*node)}
	var err error
	if w.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if w.events, err = in.join(); err != nil {
		_ = unix.Close(w.mounts)
		return nil, err
	}
	if w.ending, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(w.mounts)
		w.events.leave()
		return nil, err
	}
	return w, nil
}

// watchRoot watches the tree from `/`.
func (w *Watch) watchRoot(tree *node) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return w.watch(fd, tree)
}

// watch watches the file that is open as fd, which is node n, and the nodes below it. It watches a
// directory before it looks up the entries by descriptor. So a change of an entry after its look-up
// causes an event.
func (w *Watch) watch(fd int, n *node) error {
	if n.present {
		if err := w.add(fd, n, presentMask); err != nil {
			return err
		}
	}
	if len(n.children) == 0 {
		return nil
	}
	if err := w.add(fd, n, entryMask|unix.IN_ONLYDIR); err != nil {
		return err
	}
	for name, child := range n.children {
		if err := w.watchEntry(fd, name, child); err != nil {
			return err
		}
	}
	return nil
}

// watchEntry watches the entry with this name of the directory at dir.
func (w *Watch) watchEntry(dir int, name string, n *node) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) && !n.hasPresent() {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if n.missing || kind == unix.S_IFLNK || len(n.children) > 0 && kind != unix.S_IFDIR {
		return errRefused
	}
	return w.watch(fd, n)
}

// hasPresent reports whether the path that must exist ends at n or below it.
func (n *node) hasPresent() bool {
	if n.present {
		return true
	}
	for _, child := range n.children {
		if child.hasPresent() {
			return true
		}
	}
	return false
}

// add adds an inotify watch for the file at fd.
func (w *Watch) add(fd int, n *node, mask uint32) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if !tells(int64(st.Type)) {
		return errRefused
	}
	wd, err := w.events.add(fd, mask)
	if err != nil {
		return err
	}
	if other := w.nodes[wd]; other != nil && other != n {
		return errRefused // two paths to one file, by a bind mount
	}
	w.nodes[wd] = n
	return nil
}

// tells reports whether inotify reports every change in a file system of this type. Other file
// systems change without an event, as /proc does, or change on another machine. The list contains
// only file systems that are known to report all changes, so that a client does not miss any.
func tells(kind int64) bool {
	const (
		bcachefs = 0xca451a4e
		zfs      = 0x2fc12fc1
	)
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.REISERFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC,
		unix.EROFS_SUPER_MAGIC_V1, unix.ISOFS_SUPER_MAGIC, unix.ECRYPTFS_SUPER_MAGIC, bcachefs, zfs:
		return true
	}
	return false
}

// Wait waits for an event and returns true. After Close it returns false.
func (w *Watch) Wait() bool {
	w.waiting.Lock()
	defer w.waiting.Unlock()
	if w.closed {
		return false
	}
	fds := append([]unix.PollFd{
		{Fd: int32(w.ending), Events: unix.POLLIN},
		{Fd: int32(w.mounts), Events: unix.POLLPRI},
	}, w.events.sources()...)
	for {
		err := waits.await(fds, -1)
		switch {
		case err != nil:
			return true // a watch that cannot wait would miss changes
		case fds[0].Revents != 0:
			return false
		case fds[1].Revents != 0 || fds[2].Revents|fds[3].Revents != 0 && w.readEvents():
			return true
		}
	}
}

// readEvents reads some events and reports whether one is a change.
func (w *Watch) readEvents() bool {
	b, err := w.events.read()
	return err != nil || w.changes(b)
}

// changes reports whether one of the events in b is a change. b has the kernel's format.
func (w *Watch) changes(b []byte) bool {
	for len(b) > 0 {
		if len(b) < unix.SizeofInotifyEvent {
			return true
		}
		var event unix.InotifyEvent
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent), b)
		b = b[unix.SizeofInotifyEvent:]
		if uint64(event.Len) > uint64(len(b)) {
			return true
		}
		name, _, _ := bytes.Cut(b[:event.Len], []byte{0})
		b = b[event.Len:]
		n := w.nodes[event.Wd]
		// An event without a name is about the file itself, or about the whole queue, from which
		// events may be lost.
		if n == nil || len(name) == 0 || n.concerns(string(name)) {
			return true
		}
	}
	return false
}

// Close ends the watch. A waiting Wait returns, and Close waits for that.
func (w *Watch) Close() {
	w.closing.Do(func() {
		one := [8]byte{1}
		_, _ = unix.Write(w.ending, one[:])
		w.waiting.Lock()
		defer w.waiting.Unlock()
		w.closed = true
		w.events.leave()
		_ = unix.Close(w.mounts)
		_ = unix.Close(w.ending)
	})
}
