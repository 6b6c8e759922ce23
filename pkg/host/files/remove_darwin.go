package files

import "golang.org/x/sys/unix"

// unlinkFile removes a name that is not a directory; a directory is EISDIR. The
// type is checked first, because macOS returns EPERM for a directory, and lets
// root unlink one on some file systems, which damages them.
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
