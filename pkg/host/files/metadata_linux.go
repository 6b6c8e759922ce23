package files

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const statxMask = unix.STATX_TYPE | unix.STATX_SIZE | unix.STATX_MTIME | unix.STATX_BTIME

// Stat returns the metadata of a path's target. It makes one system call unless the path is a link.
// For a dangling link the error is ENOENT.
func Stat(name string, o Options) (Metadata, error) {
	var st unix.Statx_t
	if o.NoFollow {
		fd, err := open(name, unix.O_PATH, 0, o)
		if err != nil {
			return Metadata{}, err
		}
		defer unix.Close(fd)
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMask, &st); err != nil {
			return Metadata{}, wrap(name, err)
		}
		return metadata(&st, false), nil
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

// Canonicalize returns the path, which must exist, with all links resolved.
func Canonicalize(name string) (string, error) {
	fd, err := open(name, unix.O_PATH, 0, Options{})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	real, err := realPath(fd, name)
	return real, wrap(name, err)
}

// realPath returns the real path of an open file. name is the path by which it was opened.
func realPath(fd int, name string) (string, error) {
	buf := make([]byte, maxLink)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err == nil && n < len(buf) && buf[0] == '/' {
		real := string(buf[:n])
		if !strings.HasSuffix(real, " (deleted)") {
			return real, nil
		}
	}
	// /proc is missing, or the file was just deleted: resolve one component after the other.
	return filepath.EvalSymlinks(name)
}

// resolveRegular returns the real path of the regular file that name leads to, and
// sets st to its attributes.
func resolveRegular(name string, st *unix.Stat_t) (string, error) {
	fd, err := openAt(unix.AT_FDCWD, name, unix.O_PATH, 0, Options{})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, st); err != nil {
		return "", err
	}
	if fileType(st) != unix.S_IFREG {
		return "", notFile(name)
	}
	return realPath(fd, name)
}
