package placeholders

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// Undo removes names that must not be created as soon as they appear. It checks for the last time
// when the command and all its descendants have ended. It opens each directory before the command
// starts, so that a command that replaces a directory by a link cannot redirect a removal. See
// removal.go for which files are removed.
type Undo struct {
	names   []*Removal
	remover Remover
	fd      int // of inotify; -1: the directories are polled
	quit    int // an eventfd that ends the watch
	done    chan struct{}
	once    sync.Once
	again   bool // some names must be checked again
	made    bool // belongs to the watch until done is closed
}

// undoPoll is how often the directories are checked, in milliseconds, if
// inotify cannot be used: other processes of the user may have taken all
// instances, or the file system may report no events.
const undoPoll = 10

// OpenUndo opens the directories of names that must not be created. It returns nil if there are no
// names. If the plan must be made again, the error is ErrAppeared.
func OpenUndo(names []plan.UndoName) (*Undo, error) {
	if len(names) == 0 {
		return nil, nil
	}
	u := &Undo{fd: -1, quit: -1}
	for _, n := range names {
		r, err := openRemoval(n)
		if err != nil {
			u.Close()
			return nil, err
		}
		u.names = append(u.names, r)
	}
	return u, nil
}

// Names are the names with their directories.
func (u *Undo) Names() []*Removal {
	if u == nil {
		return nil
	}
	return u.names
}

// Watch begins to watch the directories. It may be called on nil.
func (u *Undo) Watch() error {
	if u == nil {
		return nil
	}
	var err error
	if u.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("make an event descriptor: %w", err)
	}
	if u.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		u.fd = -1
	}
	for _, r := range u.names {
		if u.fd < 0 {
			break
		}
		// This link of /proc leads to the open directory, wherever the directory is now.
		at := "/proc/self/fd/" + strconv.Itoa(r.dir)
		if _, err := unix.InotifyAddWatch(u.fd, at, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
			_ = unix.Close(u.fd)
			u.fd = -1
		}
	}
	u.done = make(chan struct{})
	go u.routineWatch()
	return nil
}

func (u *Undo) routineWatch() {
	defer close(u.done)
	buf := make([]byte, 4<<10)
	fds := []unix.PollFd{{Fd: int32(u.quit), Events: unix.POLLIN}, {Fd: int32(u.fd), Events: unix.POLLIN}}
	for {
		timeout := -1
		if u.fd < 0 || u.again {
			timeout = undoPoll
		}
		if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for n, err := 1, error(nil); u.fd >= 0 && n > 0 && err == nil; n, err = unix.Read(u.fd, buf) {
		}
		u.look()
		if fds[0].Revents != 0 {
			u.tidy()
			return
		}
	}
}

// look checks all names and removes those that exist.
func (u *Undo) look() {
	u.again = false
	for _, r := range u.names {
		result := u.remover.Remove(r)
		switch result {
		case NothingThere:
			continue
		case HeldPlaceholder:
			u.again = true // files that are made in it cause no event here
			continue
		}
		u.made = true
		text := "sandbox blocked creation of protected workspace metadata path " + r.Path + "\n"
		if result == NotRemoved {
			text += "hint: it could not be removed; remove it before you use git there\n"
		}
		_, _ = os.Stderr.WriteString(text)
	}
}

// tidy deletes the rest of the removed files, and reports which are kept.
func (u *Undo) tidy() {
	for _, r := range u.names {
		if u.made && u.remover.Tidy(r) {
			_, _ = os.Stderr.WriteString("hint: files that existed before the command, or are too many to be removed, are kept as " + r.Aside() + "*\n")
		}
	}
}

// Stop ends the watch after a last check, and reports whether anything was
// created. It may be called on nil, and more than once.
func (u *Undo) Stop() bool {
	if u == nil {
		return false
	}
	u.once.Do(func() {
		if u.done != nil {
			one := uint64(1)
			_, _ = unix.Write(u.quit, unsafe.Slice((*byte)(unsafe.Pointer(&one)), 8))
			<-u.done
		}
		u.Close()
	})
	return u.made
}

// Close closes the descriptors.
func (u *Undo) Close() {
	for _, fd := range []*int{&u.fd, &u.quit} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
	for _, r := range u.names {
		_ = unix.Close(r.dir)
	}
	u.names = nil
}
