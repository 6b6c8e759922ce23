package dirfd

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// accessFlags request the access rights that an open would need, without following a link.
const accessFlags = unix.AT_EACCESS | unix.AT_SYMLINK_NOFOLLOW

// setModified sets the modification time of an open file. Before Linux 5.8 that is possible only
// through /proc.
func setModified(fd int, at time.Time) error {
	ts, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}
	err = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), times, 0)
	}
	return err
}

// SetLinkModified sets the modification time of a link.
func (d *Dir) SetLinkModified(name string, at time.Time) error {
	ts, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}
	return unix.UtimesNanoAt(d.fd, name, times, unix.AT_SYMLINK_NOFOLLOW)
}

// CheckWritable returns ErrProc for a directory of /proc.
func (d *Dir) CheckWritable() error {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &fs) }); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return ErrProc
	}
	return nil
}

// NextData returns the next range of the file, at or after at, that is not a hole. If there is
// none, start and end are the size of the file. ok is false if the file system does not report
// holes.
func (f *File) NextData(at, size int64) (start, end int64, ok bool) {
	start, err := unix.Seek(f.fd, at, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size, true
	}
	if err == nil {
		end, err = unix.Seek(f.fd, start, unix.SEEK_HOLE)
	}
	if err != nil {
		return 0, 0, false
	}
	return min(start, size), min(end, size), true
}
