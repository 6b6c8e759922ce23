package execserver

import (
	"slices"

	"golang.org/x/sys/unix"
)

// tellsChanges reports whether the file system at a path notes the time of each change by this
// machine's clock. Scenario: the server of a network file system has another clock, and what this
// machine knows of its files may be old.
func tellsChanges(path string) bool {
	return isOn(path, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC)
}

// tellsRenamings reports whether the file system at a path also changes the time of each file that is renamed. XFS, which may
// be below an overlay, changes only that of the directory if two files in it are exchanged.
func tellsRenamings(path string) bool {
	return isOn(path, unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC)
}

// isOn reports whether a path is on a file system of one of the types.
func isOn(path string, types ...int64) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && slices.Contains(types, int64(st.Type))
}
