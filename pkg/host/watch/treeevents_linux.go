package watch

import (
	"bytes"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// take reads some events into the batch.
func (t *Tree) take(c *collector) {
	b, err := t.events.read()
	t.end(c, osError(t.path, err))
	t.decode(c, b)
}

// decode handles events in the kernel's format.
func (t *Tree) decode(c *collector, b []byte) {
	for queue := t.anew; len(b) > 0 && t.anew == queue; {
		if len(b) < unix.SizeofInotifyEvent {
			t.overflow(c)
			return
		}
		var event unix.InotifyEvent
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&event)), unix.SizeofInotifyEvent), b)
		b = b[unix.SizeofInotifyEvent:]
		if uint64(event.Len) > uint64(len(b)) || event.Mask&unix.IN_Q_OVERFLOW != 0 {
			t.overflow(c)
			return
		}
		name, _, _ := bytes.Cut(b[:event.Len], []byte{0})
		b = b[event.Len:]
		if f := t.folders[event.Wd]; f != nil {
			t.event(c, f, event.Mask, string(name))
		}
		if c.batch.Ended != "" {
			return
		}
	}
}

// event handles one event of a watched directory. It ignores events of directories that are no
// longer watched.
func (t *Tree) event(c *collector, f *folder, mask uint32, name string) {
	if name == "" {
		t.self(c, f, mask)
		return
	}
	if t.only != "" && (f != t.top || name != t.only) {
		return
	}
	e := Event{Path: f.path(t.path, name), Directory: mask&unix.IN_ISDIR != 0}
	if t.only != "" {
		e.Path = t.path
	}
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		e.Kind = Created
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		e.Kind = Removed
	case mask&(unix.IN_MODIFY|unix.IN_CLOSE_WRITE) != 0:
		e.Kind = Modified
	default:
		e.Kind = Attributes
	}
	c.add(e)
	if !t.recursive || !e.Directory {
		return
	}
	known := f.folders[name]
	switch {
	case e.Kind == Removed && known != nil:
		t.forget(known)
	case e.Kind == Created, e.Kind == Attributes && known == nil: // which may have become readable
		t.end(c, t.discover(f, name))
	}
}

// self handles an event about a watched directory itself. For directories below the
// root, such events also come from the parent directory.
func (t *Tree) self(c *collector, f *folder, mask uint32) {
	switch {
	case f == t.top && mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
		t.end(c, errors.New("the directory "+t.at+" was moved or removed"))
	case f == t.top && t.only == "" && mask&unix.IN_ATTRIB != 0:
		c.add(Event{Path: t.path, Kind: Attributes, Directory: true})
	case mask&unix.IN_UNMOUNT != 0:
		// The directory below the mount is visible again at this path.
		t.overflow(c)
	case mask&unix.IN_IGNORED != 0:
		t.forget(f)
	}
}
