package plan

import "golang.org/x/sys/unix"

// These mark an empty file or directory that a launcher has made to mount a mask on (package placeholders), so that
// another sandbox does not mistake it for a file of the user.

// The modification time of placeholders: an hour in 1970, and a count of
// nanoseconds.
const (
	PlaceholderSeconds     = 3600
	PlaceholderNanoseconds = 203_569_741
)

// The modes of placeholders.
const (
	PlaceholderDirMode  = 0o555
	PlaceholderFileMode = 0o444
)

// IsPlaceholder recognizes a placeholder from the result of lstat.
func IsPlaceholder(st *unix.Stat_t) bool {
	if st.Mtim.Sec != PlaceholderSeconds || st.Mtim.Nsec != PlaceholderNanoseconds {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return st.Mode&0o7777 == PlaceholderDirMode
	case unix.S_IFREG:
		return st.Mode&0o7777 == PlaceholderFileMode && st.Size == 0
	default:
		return false
	}
}

// IsPlaceholder reports whether the file at a path looks like a placeholder of this user.
func (HostView) IsPlaceholder(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && int(st.Uid) == unix.Geteuid() && IsPlaceholder(&st)
}
