package fsx

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
)

// openFile is an open file.
type openFile struct {
	file *execclient.File
	name string
	info info
}

func (o *openFile) error(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return named(op, o.name, err)
}

// Stat returns the description from when the file was opened.
func (o *openFile) Stat() (fs.FileInfo, error) { return o.info, nil }

func (o *openFile) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	return n, o.error("read", err)
}

func (o *openFile) ReadAt(b []byte, offset int64) (int, error) {
	n, err := o.file.ReadAt(b, offset)
	return n, o.error("read", err)
}

func (o *openFile) WriteTo(w io.Writer) (int64, error) {
	return o.file.WriteTo(w)
}

func (o *openFile) Seek(offset int64, whence int) (int64, error) {
	n, err := o.file.Seek(offset, whence)
	return n, o.error("seek", err)
}

func (o *openFile) Close() error { return o.error("close", o.file.Close()) }

// openWhole reads a file into memory, for servers that cannot stream it in a sandbox.
func (f *FS) openWhole(name string, i info) (fs.File, error) {
	data, err := f.ReadFile(name)
	if err != nil {
		return nil, named("open", name, err)
	}
	return &wholeFile{bytes.NewReader(data), i}, nil
}

// wholeFile is a file in memory.
type wholeFile struct {
	*bytes.Reader
	info info
}

func (w *wholeFile) Stat() (fs.FileInfo, error) { return w.info, nil }

func (w *wholeFile) Close() error { return nil }

// openDir is an open directory.
type openDir struct {
	f      *FS
	name   string
	info   info
	read   bool
	left   []fs.DirEntry
	odd    error // returned after the entries
	closed bool
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errIsDirectory}
}

func (d *openDir) Close() error {
	if d.closed {
		return &fs.PathError{Op: "close", Path: d.name, Err: fs.ErrClosed}
	}
	d.closed, d.left = true, nil
	return nil
}

// ReadDir returns the next n entries, or all remaining ones; see fs.ReadDirFile. The first
// call lists the directory.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	}
	if !d.read {
		list, err := d.f.ReadDir(d.name)
		if err != nil && list == nil {
			return nil, err
		}
		d.read, d.left, d.odd = true, list, err
	}
	if len(d.left) == 0 && d.odd == nil && n > 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.left) {
		n = len(d.left)
	}
	list := d.left[:n:n]
	d.left = d.left[n:]
	if len(d.left) > 0 {
		return list, nil
	}
	odd := d.odd
	d.odd = nil
	return list, odd
}

var errIsDirectory = errors.New("is a directory")

// lastName returns the last name of a `file:` URI.
func lastName(uri string) (string, bool) {
	native, err := pathuri.Parse(uri, "")
	if err != nil {
		return "", false
	}
	return path.Base(native), true
}
