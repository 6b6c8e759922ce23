//go:build linux || darwin

package files

// Metadata is what Stat tells of the target of a path; IsSymlink tells whether
// the path itself is a link. Size is in bytes. Times are milliseconds since
// 1970, 0 if the file system does not know them or they are before.
type Metadata struct {
	IsDirectory, IsFile, IsSymlink bool
	Size                           uint64
	CreatedAtMS, ModifiedAtMS      int64
}
