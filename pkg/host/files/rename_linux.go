package files

import "golang.org/x/sys/unix"

// renameAt is renameat for open directories. Without overwrite, it fails with EINVAL on file
// systems that cannot rename without replacing.
func renameAt(from int, old string, to int, name string, overwrite bool) error {
	if overwrite {
		return unix.Renameat(from, old, to, name)
	}
	return unix.Renameat2(from, old, to, name, unix.RENAME_NOREPLACE)
}
