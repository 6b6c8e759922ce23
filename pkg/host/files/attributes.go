package files

import (
	"context"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// MaxPermissions are the permission bits that clients can set. They cannot set the set-id bits and
// the sticky bit, which copies do not have either.
const MaxPermissions = 0o777

// These are the kinds of files.
const (
	KindFile      = "file"
	KindDirectory = "directory"
	KindSymlink   = "symlink"
	KindOther     = "other" // a device, a FIFO or a socket
)

// Attributes describe a file. For a link they describe the link itself.
type Attributes struct {
	Kind         string
	Size         uint64 // in bytes
	Permissions  uint32 // the permission bits
	ModifiedAtMS int64  // milliseconds since 1970; 0 if it is earlier
	Target       string // of a link; empty if it is not UTF-8
	MountPoint   bool   // set by GetAttributes for a mount point, from Linux 5.8 on
}

// NamedAttributes are the attributes of a name in a directory. Name and IsLossy
// are as in Entry.
type NamedAttributes struct {
	Name    string
	IsLossy bool
	Attributes
}

// GetAttributes returns the attributes of a path. It does not follow a link at the end of the path.
func GetAttributes(name string) (Attributes, error) {
	a, err := attributesAt(unix.AT_FDCWD, name)
	a.MountPoint = err == nil && isMountPoint(name)
	return a, wrap(name, err)
}

func attributesAt(dir int, name string) (Attributes, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Attributes{}, err
	}
	a := Attributes{
		Kind: kindOf(fileType(&st)), Size: uint64(st.Size), Permissions: modeOf(&st) & MaxPermissions, ModifiedAtMS: millis(modified(&st)),
	}
	if a.Kind == KindSymlink {
		target := make([]byte, maxLink)
		n, err := unix.Readlinkat(dir, name, target)
		if err != nil {
			return Attributes{}, err
		}
		if utf8.Valid(target[:n]) {
			a.Target = string(target[:n])
		}
	}
	return a, nil
}

// kindOf returns the kind of a file with that type.
func kindOf(fileType uint32) string {
	switch fileType {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindDirectory
	case unix.S_IFLNK:
		return KindSymlink
	default:
		return KindOther
	}
}

// ListAttributes lists a directory, sorted by the bytes of the names. It lists links as links. It
// omits names that were removed meanwhile. If the attributes of a name cannot be read, it has its kind only. It has
// the same limit as ReadDirectory.
func ListAttributes(ctx context.Context, name string) ([]NamedAttributes, error) {
	fd, names, err := openNames(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	list := make([]NamedAttributes, 0, len(names))
	for _, e := range names {
		if err := checkContext(ctx); err != nil {
			return nil, err
		}
		a, err := attributesAt(fd, e.name)
		switch {
		case err == unix.ENOENT:
			continue
		case err != nil:
			a = Attributes{Kind: kindOf(e.mode)}
		}
		entry := NamedAttributes{Name: e.name, Attributes: a}
		if !utf8.ValidString(e.name) {
			entry.Name, entry.IsLossy = lossy(e.name), true
		}
		list = append(list, entry)
	}
	return list, nil
}

// Changes are new attributes of a file or directory. A nil field is not changed.
type Changes struct {
	Permissions  *uint32 // at most MaxPermissions
	ModifiedAtMS *int64  // milliseconds since 1970; the time of the last access stays
}

// SetAttributes changes the attributes of a regular file or a directory. It does not follow a link
// at the end of the path. The error is ErrSymlink for a link, ErrNotFile for other files, and
// ErrPermissions for permissions above MaxPermissions. It changes the file that it has checked,
// even if another process renames the file meanwhile.
func SetAttributes(name string, c Changes, o Options) error {
	if c.Permissions != nil && *c.Permissions > MaxPermissions {
		return ErrPermissions
	}
	fd, err := openToChange(name, o)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if c.Permissions != nil {
		if err := retry(func() error { return chmodOpen(fd, *c.Permissions) }); err != nil {
			return wrap(name, err)
		}
	}
	if c.ModifiedAtMS == nil {
		return nil
	}
	at, err := unix.TimeToTimespec(time.UnixMilli(*c.ModifiedAtMS))
	if err != nil {
		return wrap(name, err)
	}
	return wrap(name, retry(func() error { return setModified(fd, at) }))
}

// openToChange opens a regular file or a directory. Where the system permits, it needs no right to
// read the file.
func openToChange(name string, o Options) (int, error) {
	dir, base, err := openParent(name, o)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		err = mayChange(name, &st) // a device is not opened
	}
	if err != nil {
		return -1, wrap(name, err)
	}
	fd, err := openAt(dir, base, changeFlags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0, Options{})
	if err != nil {
		return -1, wrap(name, err)
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = mayChange(name, &st)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, wrap(name, err)
	}
	return fd, nil
}

// mayChange returns an error unless a file is a regular one or a directory.
func mayChange(name string, st *unix.Stat_t) error {
	switch fileType(st) {
	case unix.S_IFREG, unix.S_IFDIR:
		return nil
	case unix.S_IFLNK:
		return ruleErr(ErrSymlink, "path `"+name+"` is a symbolic link, whose attributes cannot be set")
	default:
		return ruleErr(ErrNotFile, "path `"+name+"` is not a file or directory")
	}
}

// Symlink creates a symbolic link at name, with any target. If name exists, the error is EEXIST.
// With overwrite, a link is replaced, but no other file.
func Symlink(target, name string, overwrite bool, o Options) error {
	dir, base, err := openParent(name, o)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Symlinkat(target, dir, base)
	if err == unix.EEXIST && overwrite && isLinkAt(dir, base) {
		err = replaceLink(target, dir, base)
	}
	return wrap(name, err)
}

// replaceLink makes a link under a temporary name and renames it.
func replaceLink(target string, dir int, base string) error {
	temp := tempName()
	if err := unix.Symlinkat(target, dir, temp); err != nil {
		return err
	}
	err := unix.Renameat(dir, temp, dir, base)
	if err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
	}
	return err
}
