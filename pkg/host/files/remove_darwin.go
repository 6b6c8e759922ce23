package files

import "golang.org/x/sys/unix"

// unlinkFile removes a name that is no directory; a directory is EISDIR. The
// system says EPERM of it, and lets root do it on some file systems, which
// then are broken.
func unlinkFile(dir int, name string) error {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	switch {
	case err != nil:
		return err
	case fileType(&st) == unix.S_IFDIR:
		return unix.EISDIR
	default:
		return unlinkAt(dir, name, 0)
	}
}
