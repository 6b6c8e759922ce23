package dirfd

import (
	"time"

	"golang.org/x/sys/unix"
)

// accessFlags check the rights that an open would have. Not every version of macOS has a flag that
// prevents following links, so callers check for a link first.
const accessFlags = unix.AT_EACCESS

// setModified sets the modification time of an open file, to a microsecond.
func setModified(fd int, at time.Time) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	modified := unix.Timeval{Sec: at.Unix(), Usec: int32(at.Nanosecond() / 1000)}
	return unix.Futimes(fd, []unix.Timeval{unix.NsecToTimeval(st.Atim.Nano()), modified})
}

// SetLinkModified does not change the time. On this system that needs a path, and the path could
// lead to another file.
func (d *Dir) SetLinkModified(string, time.Time) error { return nil }

// CheckWritable returns nil: macOS has no /proc.
func (d *Dir) CheckWritable() error { return nil }

// NextData returns false: this system does not report holes.
func (f *File) NextData(_, _ int64) (start, end int64, ok bool) { return 0, 0, false }
