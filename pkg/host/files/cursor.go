package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// cursor is a position in a tree that is being changed or copied: its current directory. It enters
// directories by name without following links. If it holds the descriptor of the parent, it returns
// to the parent by that. Otherwise it uses "..", and checks that this is the same directory,
// because another process may have moved the tree. It holds at most heldParents+1 descriptors at
// any depth.
type cursor struct {
	root  string // the path of the top, for error texts
	fd    int    // the current directory, readable
	id    fileID
	mode  uint32 // of the current directory
	above []parentDir
}

// parentDir is a directory to which a cursor will return.
type parentDir struct {
	entered string // the name in it that was entered
	fd      int    // -1 while no descriptor is held
	id      fileID
	mode    uint32
}

// newCursor takes over the descriptor of a directory. If it fails, it closes the
// descriptor.
func newCursor(root string, fd int) (*cursor, error) {
	c := &cursor{root: root, fd: fd}
	if err := c.stat(); err != nil {
		_ = unix.Close(fd)
		return nil, wrap(root, err)
	}
	return c, nil
}

// stat sets the identity and the mode of the current directory.
func (c *cursor) stat() error {
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

// here returns the path of the current directory. path returns the path of a name in it.
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

// enter enters a directory that is not a link. Its errors name the directory.
func (c *cursor) enter(name string) error {
	next, err := openDirAt(c.fd, name)
	if err != nil {
		return wrap(c.path(name), err)
	}
	c.above = append(c.above, parentDir{name, c.fd, c.id, c.mode})
	c.fd = next
	if i := len(c.above) - 1 - heldParents; i >= 0 && c.above[i].fd >= 0 {
		_ = unix.Close(c.above[i].fd)
		c.above[i].fd = -1
	}
	if err := c.stat(); err != nil { // here is slow: only call it for errors
		return wrap(c.here(), err)
	}
	return nil
}

// leave returns to the parent. It returns the name of the directory that it left
// and its descriptor, which the caller must close. Its errors name the directory.
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
			return "", -1, ruleErr(ErrMoved, c.here()+" was moved during the operation")
		}
		last.fd = up
	}
	left = c.fd
	c.fd, c.id, c.mode = last.fd, last.id, last.mode
	c.above = c.above[:len(c.above)-1]
	return last.entered, left, nil
}
