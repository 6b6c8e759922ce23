package files

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// cursor is a place in a tree that is being walked. It holds one descriptor
// however deep it is, enters directories by name without following links, and
// leaves them by "..", checking that this leads back to where it came from:
// somebody may have moved the directory meanwhile.
type cursor struct {
	root string // for error texts
	dir  int
	from []place // the directories above, outermost first
}

// place identifies a directory that a cursor will come back to.
type place struct {
	name     string // of the directory that was entered from it
	dev, ino uint64
}

// newCursor takes over an open directory.
func newCursor(root string, dir int) *cursor { return &cursor{root: root, dir: dir} }

func (c *cursor) close() { _ = unix.Close(c.dir) }

// depth is how many directories the cursor has entered.
func (c *cursor) depth() int { return len(c.from) }

// path is the path of a name in the current directory.
func (c *cursor) path(name string) string {
	p := c.root
	for _, at := range c.from {
		p = path.Join(p, at.name)
	}
	return path.Join(p, name)
}

// enter goes into a directory that is not a link.
func (c *cursor) enter(name string) error {
	var here unix.Stat_t
	if err := unix.Fstat(c.dir, &here); err != nil {
		return err
	}
	next, err := openDirAt(c.dir, name)
	if err != nil {
		return err
	}
	_ = unix.Close(c.dir)
	c.dir = next
	c.from = append(c.from, place{name, uint64(here.Dev), here.Ino})
	return nil
}

// leave goes back up and returns the name of what it left.
func (c *cursor) leave() (string, error) {
	last := c.from[len(c.from)-1]
	up, err := openDirAt(c.dir, "..")
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(up, &st); err != nil || uint64(st.Dev) != last.dev || st.Ino != last.ino {
		_ = unix.Close(up)
		return "", rulef("%s was moved while it was being worked on", c.path("."))
	}
	_ = unix.Close(c.dir)
	c.dir = up
	c.from = c.from[:len(c.from)-1]
	return last.name, nil
}

func openDirAt(dir int, name string) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// list reads the names in the current directory, sorted.
func (c *cursor) list() ([]dirent, error) {
	fd, err := openDirAt(c.dir, ".")
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), c.root)
	defer dir.Close()
	names, err := readNames(dir)
	if err != nil {
		return nil, wrap(c.path("."), err)
	}
	return names, nil
}
