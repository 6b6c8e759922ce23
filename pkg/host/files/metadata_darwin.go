package files

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Stat returns the metadata of a path's target. A dangling link is ENOENT.
func Stat(name string, o Options) (Metadata, error) {
	var st unix.Stat_t
	if o.NoFollow && name != "/" {
		dir, base, err := openParent(name, o)
		if err != nil {
			return Metadata{}, err
		}
		defer unix.Close(dir)
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return Metadata{}, wrap(name, err)
		}
		if fileType(&st) == unix.S_IFLNK {
			return Metadata{}, ErrSymlink
		}
		return metadata(&st, false), nil
	}
	if err := unix.Lstat(name, &st); err != nil {
		return Metadata{}, wrap(name, err)
	}
	link := fileType(&st) == unix.S_IFLNK
	if link {
		if err := unix.Stat(name, &st); err != nil {
			return Metadata{}, wrap(name, err)
		}
	}
	return metadata(&st, link), nil
}

func metadata(st *unix.Stat_t, link bool) Metadata {
	return Metadata{
		IsDirectory: fileType(st) == unix.S_IFDIR,
		IsFile:      fileType(st) == unix.S_IFREG,
		IsSymlink:   link, Size: uint64(st.Size),
		CreatedAtMS: millis(st.Btim), ModifiedAtMS: millis(st.Mtim),
	}
}

func millis(t unix.Timespec) int64 { return max(0, t.Sec*1000+t.Nsec/1_000_000) }

// Canonicalize returns the path, which must exist, without any link.
func Canonicalize(name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	return real, wrap(name, err)
}

// resolveRegular returns the real path of the regular file that name leads to, and
// sets st to its attributes.
func resolveRegular(name string, st *unix.Stat_t) (string, error) {
	if err := unix.Stat(name, st); err != nil {
		return "", err
	}
	if fileType(st) != unix.S_IFREG {
		return "", notFile(name)
	}
	return filepath.EvalSymlinks(name)
}
