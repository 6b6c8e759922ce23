package fsops

import (
	"io"
	"os"

	"codex.internal/pkg/host/files"
)

// readAll is the size, in bytes, up to which files are read to their end: files of /proc have
// size 0, and a log may grow while it is read. Larger files are read up to the size that they
// had when they were opened.
const readAll = 256 << 10

// Content is the file of fs/readFile, open for reading. Only one goroutine may use it at a
// time, and must close it.
type Content struct {
	// Size is the size of the file when it was opened, in bytes.
	Size int64

	f    *os.File
	left int64
}

func openContent(path string, o files.Options) (*Content, error) {
	f, size, err := files.OpenRegular(path, o)
	if err != nil {
		return nil, err
	}
	left := size
	if size <= readAll {
		left = files.MaxReadFile
	}
	return &Content{Size: size, f: f, left: left}, nil
}

// Read reads the file. A small file that has grown beyond files.MaxReadFile ends
// with files.ErrTooLarge.
func (c *Content) Read(b []byte) (int, error) {
	if c.left == 0 {
		if c.Size > readAll {
			return 0, io.EOF
		}
		if n, err := c.f.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, files.ErrTooLarge
	}
	n, err := c.f.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Close closes the file.
func (c *Content) Close() error { return c.f.Close() }
