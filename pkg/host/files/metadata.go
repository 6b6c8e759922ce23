package files

// Metadata describes the target of a path. IsSymlink reports whether the path itself is a link.
// Size is in bytes. Times are milliseconds since 1970, or 0 if they are earlier or the file system
// does not record them.
type Metadata struct {
	IsDirectory, IsFile, IsSymlink bool
	Size                           uint64
	CreatedAtMS, ModifiedAtMS      int64
}
