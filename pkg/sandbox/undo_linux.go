package sandbox

import (
	"errors"
	"os"
	"path"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Undo removes names that must not be created as soon as they appear.
type Undo struct {
	paths []string
	fd    int
	quit  int // an eventfd that ends the watch
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	made  bool
}

// StartUndo watches the directories of the paths.
func StartUndo(paths []string) (*Undo, error) {
	u := &Undo{paths: paths, done: make(chan struct{})}
	if len(paths) == 0 {
		close(u.done)
		return u, nil
	}
	var err error
	if u.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil, err
	}
	if u.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(u.fd)
		return nil, err
	}
	for _, name := range paths {
		if _, err = unix.InotifyAddWatch(u.fd, path.Dir(name), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
			_, _ = unix.Close(u.fd), unix.Close(u.quit)
			return nil, err
		}
	}
	go u.routineWatch()
	return u, nil
}

func (u *Undo) routineWatch() {
	defer close(u.done)
	buf := make([]byte, 4<<10)
	for {
		fds := []unix.PollFd{{Fd: int32(u.fd), Events: unix.POLLIN}, {Fd: int32(u.quit), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for n, err := 1, error(nil); n > 0 && err == nil; n, err = unix.Read(u.fd, buf) {
		}
		u.look()
		if fds[1].Revents != 0 {
			return
		}
	}
}

// look removes what is there.
func (u *Undo) look() {
	for _, name := range u.paths {
		if _, err := os.Lstat(name); err != nil {
			continue
		}
		u.mu.Lock()
		u.made = true
		u.mu.Unlock()
		if root, err := os.OpenRoot(path.Dir(name)); err == nil {
			if root.RemoveAll(path.Base(name)) != nil {
				// Its directories may forbid it.
				allow(root, path.Base(name), undoDepth)
				_ = root.RemoveAll(path.Base(name))
			}
			_ = root.Close()
		}
		_, _ = os.Stderr.WriteString("sandbox blocked creation of protected workspace metadata path " + name + "\n")
	}
}

// undoDepth bounds how deep directories are made removable that forbid it.
const undoDepth = 64

// allow lets the entries of directories be removed.
func allow(root *os.Root, name string, depth int) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() || depth == 0 {
		return
	}
	_ = root.Chmod(name, 0o700)
	dir, err := root.Open(name)
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(readDirBatch)
		for _, n := range names {
			allow(root, path.Join(name, n), depth-1)
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// Stop ends the watch after a last look, and reports whether anything was
// created. It may be called on nil, and more than once.
func (u *Undo) Stop() bool {
	if u == nil {
		return false
	}
	u.once.Do(func() {
		if len(u.paths) == 0 {
			return
		}
		one := uint64(1)
		_, _ = unix.Write(u.quit, unsafe.Slice((*byte)(unsafe.Pointer(&one)), 8))
		<-u.done
		_, _ = unix.Close(u.fd), unix.Close(u.quit)
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.made
}
