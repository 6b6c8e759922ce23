package dirfd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// Dir is an open directory.
type Dir struct{ root *os.Root }

// Open opens a directory by its path. Links on the path are followed.
func Open(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, bare(err)
	}
	return &Dir{root}, nil
}

// bare removes the names from an error. The caller adds them in a better form.
func bare(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// reserved are the characters that cannot be in a file name on Windows.
const reserved = "/\\:*?\"<>|\x00"

// ValidName reports whether a text can be a file name in a directory. A text that names a stream of
// a file or a device is not valid.
func ValidName(name string) bool {
	if name == "" || strings.ContainsAny(name, reserved) || strings.TrimRight(name, ". ") != name {
		return false
	}
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return false
	}
	if len([]rune(stem)) == 4 && (strings.HasPrefix(stem, "COM") || strings.HasPrefix(stem, "LPT")) {
		return !strings.ContainsAny(stem[3:], "0123456789¹²³")
	}
	return true
}

// Enter opens a subdirectory. For a link the error is ErrLink, for any other file ErrNotDirectory.
func (d *Dir) Enter(name string) (*Dir, error) {
	named, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, bare(err)
	case named.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !named.IsDir():
		return nil, ErrNotDirectory
	}
	sub, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, bare(err)
	}
	// os.Root follows links that stay inside. So check that the opened directory is the one with
	// this name.
	opened, err := sub.Stat(".")
	if err == nil && !os.SameFile(opened, named) {
		err = ErrLink
	}
	if err != nil {
		_ = sub.Close()
		return nil, bare(err)
	}
	return &Dir{sub}, nil
}

// Lstat returns the Info of a name.
func (d *Dir) Lstat(name string) (Info, error) {
	st, err := d.root.Lstat(name)
	if err != nil {
		return Info{}, bare(err)
	}
	return infoOf(st), nil
}

// Stat returns the Info of the directory itself.
func (d *Dir) Stat() (Info, error) { return d.Lstat(".") }

func infoOf(st fs.FileInfo) Info {
	i := Info{Kind: Other, Size: st.Size(), Perm: 0o644, Modified: st.ModTime()}
	switch {
	case st.Mode().IsRegular():
		i.Kind = Regular
	case st.IsDir():
		i.Kind, i.Perm = Directory, 0o755
	case st.Mode()&fs.ModeSymlink != 0:
		i.Kind = Link
	}
	return i
}

// Names returns the names in the directory, sorted by their bytes. If there are more than limit
// names, the error is ErrTooManyNames.
func (d *Dir) Names(limit int) ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, bare(err)
	}
	if len(names) > limit {
		return nil, ErrTooManyNames
	}
	slices.Sort(names)
	return names, nil
}

// Mkdir makes a directory.
func (d *Dir) Mkdir(name string, perm uint32) error {
	return bare(d.root.Mkdir(name, os.FileMode(perm)))
}

// Readlink returns the target of a link.
func (d *Dir) Readlink(name string) (string, error) {
	target, err := d.root.Readlink(name)
	return strings.ReplaceAll(target, "\\", "/"), bare(err)
}

// Symlink makes a link.
func (d *Dir) Symlink(target, name string) error {
	return bare(d.root.Symlink(strings.ReplaceAll(target, "/", "\\"), name))
}

// Rename renames a file or directory in the directory, and replaces an existing one with the
// new name.
func (d *Dir) Rename(from, to string) error { return bare(d.root.Rename(from, to)) }

// Remove removes a file or a link.
func (d *Dir) Remove(name string) error { return bare(d.root.Remove(name)) }

// MayWrite returns nil: Windows refuses to replace a file that is read-only.
func (d *Dir) MayWrite(string) error { return nil }

// Chmod does nothing: Windows has no permission bits.
func (d *Dir) Chmod(uint32) error { return nil }

// Chown is not supported.
func (d *Dir) Chown(_, _ uint32) error { return errors.ErrUnsupported }

// SetModified sets the modification time of the directory itself.
func (d *Dir) SetModified(at time.Time) error { return bare(d.root.Chtimes(".", time.Time{}, at)) }

// SetLinkModified does not change the time of a link.
func (d *Dir) SetLinkModified(string, time.Time) error { return nil }

// ChownLink is not supported.
func (d *Dir) ChownLink(string, uint32, uint32) error { return errors.ErrUnsupported }

// CheckWritable returns nil: Windows has no /proc.
func (d *Dir) CheckWritable() error { return nil }

// File is an open regular file. Its modification time is set by name when the file is closed,
// because package os cannot set it on an open file on Windows.
type File struct {
	f        *os.File
	dir      *os.Root
	name     string
	modified time.Time
}

// Open opens a regular file for reading, and returns its Info. For any other file the error is
// ErrLink or ErrNotRegular.
func (d *Dir) Open(name string) (*File, Info, error) {
	named, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, Info{}, bare(err)
	case named.Mode()&fs.ModeSymlink != 0:
		return nil, Info{}, ErrLink
	case !named.Mode().IsRegular():
		return nil, Info{}, ErrNotRegular
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, Info{}, bare(err)
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(opened, named) {
		err = ErrLink
	}
	if err != nil {
		_ = f.Close()
		return nil, Info{}, bare(err)
	}
	return &File{f: f}, infoOf(opened), nil
}

// Create creates a file for writing. It must not exist yet.
func (d *Dir) Create(name string, perm uint32) (*File, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(perm|0o200))
	if err != nil {
		return nil, bare(err)
	}
	return &File{f: f, dir: d.root, name: name}, nil
}

// Overwrite opens an existing regular file for writing and removes its contents. For other files the error is
// ErrLink or ErrNotRegular.
func (d *Dir) Overwrite(name string) (*File, error) {
	named, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return nil, bare(err)
	case named.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !named.Mode().IsRegular():
		return nil, ErrNotRegular
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, bare(err)
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(opened, named) {
		err = ErrLink
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, bare(err)
	}
	return &File{f: f, dir: d.root, name: name}, nil
}

// Read reads up to len(b) bytes.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.f.Read(b)
	return n, bare(err)
}

// Write writes all of b.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	return n, bare(err)
}

// SeekTo sets where the next Read or Write begins.
func (f *File) SeekTo(at int64) error {
	_, err := f.f.Seek(at, io.SeekStart)
	return bare(err)
}

// Truncate sets the size of a file that is open for writing.
func (f *File) Truncate(size int64) error { return bare(f.f.Truncate(size)) }

// NextData returns false: this system does not report holes.
func (f *File) NextData(_, _ int64) (start, end int64, ok bool) { return 0, 0, false }

// Stat returns the Info of the file.
func (f *File) Stat() (Info, error) {
	st, err := f.f.Stat()
	if err != nil {
		return Info{}, bare(err)
	}
	return infoOf(st), nil
}

// Chmod does nothing: Windows has no permission bits.
func (f *File) Chmod(uint32) error { return nil }

// Chown is not supported.
func (f *File) Chown(_, _ uint32) error { return errors.ErrUnsupported }

// SetModified sets the modification time that the file gets when it is closed.
func (f *File) SetModified(at time.Time) error {
	f.modified = at
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	err := f.f.Close()
	if err == nil && !f.modified.IsZero() {
		err = f.dir.Chtimes(f.name, time.Time{}, f.modified)
	}
	return bare(err)
}
