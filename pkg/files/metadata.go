package files

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Metadata is what Stat tells of the target of a path; IsSymlink tells
// whether the path itself is a link. Times are milliseconds since 1970, 0 if
// unknown or before.
type Metadata struct {
	IsDirectory, IsFile, IsSymlink bool
	Size                           uint64
	CreatedAtMS, ModifiedAtMS      int64
}

const statxMask = unix.STATX_TYPE | unix.STATX_SIZE | unix.STATX_MTIME | unix.STATX_BTIME

// Stat describes what a path leads to.
func Stat(name string, o Options) (Metadata, error) {
	var st unix.Statx_t
	if o.NoFollow {
		fd, err := open(name, unix.O_PATH, 0, o)
		if err != nil {
			return Metadata{}, err
		}
		defer unix.Close(fd)
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMask, &st)
		return metadata(&st, false), wrap(name, err)
	}
	if err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, statxMask, &st); err != nil {
		return Metadata{}, wrap(name, err)
	}
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	if link {
		if err := unix.Statx(unix.AT_FDCWD, name, 0, statxMask, &st); err != nil {
			return Metadata{}, wrap(name, err)
		}
	}
	return metadata(&st, link), nil
}

func metadata(st *unix.Statx_t, link bool) Metadata {
	m := Metadata{
		IsDirectory: st.Mode&unix.S_IFMT == unix.S_IFDIR,
		IsFile:      st.Mode&unix.S_IFMT == unix.S_IFREG,
		IsSymlink:   link, Size: st.Size, ModifiedAtMS: millis(st.Mtime),
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		m.CreatedAtMS = millis(st.Btime)
	}
	return m
}

func millis(t unix.StatxTimestamp) int64 {
	return max(0, t.Sec*1000+int64(t.Nsec)/1_000_000)
}

// Canonicalize returns the path without any link.
func Canonicalize(name string) (string, error) {
	fd, err := open(name, unix.O_PATH, 0, Options{})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, maxLink)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err == nil && n < len(buf) && buf[0] == '/' {
		real := string(buf[:n])
		if !strings.HasSuffix(real, " (deleted)") {
			return real, nil
		}
	}
	// Without /proc, or for something just deleted, name by name.
	real, err := filepath.EvalSymlinks(name)
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return real, wrap(name, err)
}

// Entry is one name in a directory. A name that is no UTF-8 is lossy and has
// U+FFFD in place of the odd bytes.
type Entry struct {
	Name                string
	IsDirectory, IsFile bool
	IsLossy             bool
}

// ReadDirectory lists a directory, sorted by name. Links count as what they
// lead to; those that lead nowhere are left out.
func ReadDirectory(ctx context.Context, name string) ([]Entry, error) {
	fd, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0, Options{})
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, err := readNames(dir)
	if err != nil {
		return nil, wrap(name, err)
	}
	entries := make([]Entry, 0, len(names))
	for i, e := range names {
		if i%1024 == 0 {
			if err := ended(ctx); err != nil {
				return nil, err
			}
		}
		mode := e.mode
		if mode == unix.S_IFLNK {
			var st unix.Stat_t
			if unix.Fstatat(fd, e.name, &st, 0) != nil {
				continue
			}
			mode = st.Mode & unix.S_IFMT
		}
		entry := Entry{Name: e.name, IsDirectory: mode == unix.S_IFDIR, IsFile: mode == unix.S_IFREG}
		if !utf8.ValidString(e.name) {
			entry.Name, entry.IsLossy = lossy(e.name), true
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// lossy replaces each byte that belongs to no character.
func lossy(name string) string { return string([]rune(name)) }

// dirent is a name in a directory with the type of what it names, as one of
// unix.S_IFMT.
type dirent struct {
	name string
	mode uint32
}

// readNames lists an open directory, sorted by name.
func readNames(dir *os.File) ([]dirent, error) {
	list, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	names := make([]dirent, len(list))
	for i, e := range list {
		names[i] = dirent{e.Name(), typeBits(e.Type())}
	}
	slices.SortFunc(names, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return names, nil
}

func typeBits(t os.FileMode) uint32 {
	switch {
	case t.IsDir():
		return unix.S_IFDIR
	case t.IsRegular():
		return unix.S_IFREG
	case t&os.ModeSymlink != 0:
		return unix.S_IFLNK
	default:
		return 0
	}
}

// CreateDirectory makes a directory with mode 0777 less the umask; with
// recursive also its parents, and then one that exists is no error.
func CreateDirectory(name string, recursive bool, o Options) error {
	if o.NoFollow {
		return createNoFollow(name, recursive)
	}
	if !recursive {
		return wrap(name, retry(func() error { return unix.Mkdir(name, 0o777) }))
	}
	err := os.MkdirAll(name, 0o777)
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		if pathErr.Err == unix.ENOTDIR && pathErr.Path == name {
			return wrap(name, unix.EEXIST)
		}
		return wrap(pathErr.Path, pathErr.Err)
	}
	return err
}

// createNoFollow makes a directory on whose path no link may be.
func createNoFollow(name string, recursive bool) error {
	o := Options{NoFollow: true}
	if name == "/" {
		if recursive {
			return nil
		}
		return wrap(name, unix.EEXIST)
	}
	dir, base, err := openParent(name, o)
	if recursive && errors.Is(err, unix.ENOENT) {
		if err := createNoFollow(path.Dir(name), true); err != nil {
			return err
		}
		dir, base, err = openParent(name, o)
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Mkdirat(dir, base, 0o777)
	if err != unix.EEXIST {
		return wrap(name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap(name, err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return ErrSymlink
	case recursive && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil
	default:
		return wrap(name, unix.EEXIST)
	}
}
