package execserver

import (
	"slices"

	"golang.org/x/sys/unix"
)

// tellsChanges reports whether the file system at a path notes the time of each change by this
// machine's clock. Scenario: the server of a network file system has another clock, and what this
// machine knows of its files may be old.
func tellsChanges(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
	}, int64(st.Type))
}
