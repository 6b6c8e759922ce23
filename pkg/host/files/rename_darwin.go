package files

import "golang.org/x/sys/unix"

// renameAt is rename in open directories. Without overwrite, file systems that
// cannot refuse to replace a name return ENOTSUP.
func renameAt(from int, old string, to int, name string, overwrite bool) error {
	if overwrite {
		return unix.Renameat(from, old, to, name)
	}
	err := unix.RenameatxNp(from, old, to, name, unix.RENAME_EXCL)
	if err == unix.ENOTSUP {
		return unix.ENOSYS
	}
	return err
}
