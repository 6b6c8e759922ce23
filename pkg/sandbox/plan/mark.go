package plan

import "golang.org/x/sys/unix"

// How an empty file or directory is marked that a launcher has made to mount a mask on (package placeholders): another
// sandbox must not take it for something of the user.

// The modification time of stubs: an hour in 1970, and a count of
// nanoseconds.
const (
	StubSeconds     = 3600
	StubNanoseconds = 203_569_741
)

// The modes of stubs.
const (
	StubDirMode  = 0o555
	StubFileMode = 0o444
)

// IsStub tells a stub by what lstat says of it.
func IsStub(st *unix.Stat_t) bool {
	if st.Mtim.Sec != StubSeconds || st.Mtim.Nsec != StubNanoseconds {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return st.Mode&0o7777 == StubDirMode
	case unix.S_IFREG:
		return st.Mode&0o7777 == StubFileMode && st.Size == 0
	default:
		return false
	}
}

// IsPlaceholder reports whether what is at a path looks like a stub of this user.
func (HostView) IsPlaceholder(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && int(st.Uid) == unix.Geteuid() && IsStub(&st)
}
