package files

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// changeFlags open a file whose attributes are to be changed.
const changeFlags = unix.O_PATH

func modified(st *unix.Stat_t) unix.StatxTimestamp {
	return unix.StatxTimestamp{Sec: int64(st.Mtim.Sec), Nsec: uint32(st.Mtim.Nsec)}
}

// isMountPoint reports whether a file system or a part of one is mounted at a path.
func isMountPoint(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// chmodOpen changes the permissions of an open file. Before Linux 6.6, which has fchmodat2, a file
// that was opened with O_PATH can be changed only through /proc.
func chmodOpen(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EINVAL {
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	}
	return err
}

// setModified changes the modification time of an open file. Before Linux 5.8, a file that was
// opened with O_PATH can be changed only through /proc.
func setModified(fd int, at unix.Timespec) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}
	err := unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), times, 0)
	}
	return err
}
