package files

import "golang.org/x/sys/unix"

// renameAt is rename in open directories. Without overwrite, file systems that
// cannot refuse to replace a name return EINVAL.
func renameAt(from int, old string, to int, name string, overwrite bool) error {
	if overwrite {
		return unix.Renameat(from, old, to, name)
	}
	return unix.Renameat2(from, old, to, name, unix.RENAME_NOREPLACE)
}
