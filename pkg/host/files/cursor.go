//go:build linux || darwin

package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// cursor is a place in a tree that is being worked on. It enters directories
// by name without following links and goes back to where it came from: by the
// descriptor while it is held, and from deeper down by "..", checking that
// this leads there, as somebody may have moved the directory meanwhile. It
// holds heldParents+1 descriptors at most, however deep it is.
type cursor struct {
	root  string // the path of the top, for error texts
	fd    int    // the current directory, readable
	id    fileID
	mode  uint32 // of the current directory
	above []place
}

// place is a directory that a cursor will come back to.
type place struct {
	entered string // the name in it that was entered
	fd      int    // -1 while it is not held
	id      fileID
	mode    uint32
}

// newCursor takes over an open directory, also when it fails.
func newCursor(root string, fd int) (*cursor, error) {
	c := &cursor{root: root, fd: fd}
	if err := c.look(); err != nil {
		_ = unix.Close(fd)
		return nil, wrap(root, err)
	}
	return c, nil
}

// look notes which directory the current one is.
func (c *cursor) look() error {
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return err
	}
	c.id, c.mode = idOf(&st), modeOf(&st)
	return nil
}

func (c *cursor) close() {
	_ = unix.Close(c.fd)
	for _, p := range c.above {
		if p.fd >= 0 {
			_ = unix.Close(p.fd)
		}
	}
}

// depth is how many directories the cursor has entered.
func (c *cursor) depth() int { return len(c.above) }

// here is the path of the current directory, and path that of a name in it.
func (c *cursor) here() string { return c.path("") }

func (c *cursor) path(name string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(c.root, "/"))
	for _, p := range c.above {
		b.WriteByte('/')
		b.WriteString(p.entered)
	}
	if name != "" || b.Len() == 0 {
		b.WriteByte('/')
		b.WriteString(name)
	}
	return b.String()
}

// enter goes into a directory that is not a link. Its errors name it.
func (c *cursor) enter(name string) error {
	next, err := openDirAt(c.fd, name)
	if err != nil {
		return wrap(c.path(name), err)
	}
	c.above = append(c.above, place{name, c.fd, c.id, c.mode})
	c.fd = next
	if i := len(c.above) - 1 - heldParents; i >= 0 && c.above[i].fd >= 0 {
		_ = unix.Close(c.above[i].fd)
		c.above[i].fd = -1
	}
	if err := c.look(); err != nil { // a path is long to make: only for errors
		return wrap(c.here(), err)
	}
	return nil
}

// leave goes back up. It returns the name of what it left, and the descriptor
// of that, which is the caller's from now on. Its errors name the directory.
func (c *cursor) leave() (name string, left int, err error) {
	last := c.above[len(c.above)-1]
	if last.fd < 0 {
		up, err := openDirAt(c.fd, "..")
		if err != nil {
			return "", -1, wrap(c.here(), err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(up, &st); err != nil || idOf(&st) != last.id {
			_ = unix.Close(up)
			return "", -1, broken(ErrMoved, c.here()+" was moved while it was being worked on")
		}
		last.fd = up
	}
	left = c.fd
	c.fd, c.id, c.mode = last.fd, last.id, last.mode
	c.above = c.above[:len(c.above)-1]
	return last.entered, left, nil
}
