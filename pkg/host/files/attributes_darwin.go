package files

import "golang.org/x/sys/unix"

// changeFlags open a file whose attributes are to be changed.
const changeFlags = unix.O_RDONLY

func modified(st *unix.Stat_t) unix.Timespec { return st.Mtim }

// chmodOpen changes the permissions of an open file.
func chmodOpen(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }

// setModified changes the modification time of an open file.
func setModified(fd int, at unix.Timespec) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Futimes(fd, []unix.Timeval{
		unix.NsecToTimeval(st.Atim.Nano()), unix.NsecToTimeval(at.Nano()),
	})
}
