package placeholders

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// In struct linux_dirent64 the length of an entry is at 16, and its name begins
// at 19.
const direntName = 19

func direntSize(list *[512]byte, at int) int { return int(list[at+16]) | int(list[at+17])<<8 }

// delete deletes the file with a name in the removal's directory, and reports whether nothing of it
// is left.
func (m *Remover) delete(r *Removal, name *[256]byte) bool {
	m.dirs[0] = r.dir
	m.names[0] = *name
	depth := 0
	for {
		gone, entered := m.entry(r, depth)
		if !gone && !entered {
			break
		}
		if entered {
			depth++
		} else if depth == 0 {
			return true
		}
		for depth > 0 && !m.next(depth) {
			m.close(m.dirs[depth])
			depth--
			if errno := m.unlink(depth, unix.AT_REMOVEDIR); errno != 0 && errno != unix.ENOENT {
				m.closeAll(depth)
				return false
			}
			if depth == 0 {
				return true
			}
		}
	}
	m.closeAll(depth)
	return false
}

// entry removes the current name in a directory, or opens it as the next
// directory if it is a non-empty directory.
func (m *Remover) entry(r *Removal, depth int) (gone, entered bool) {
	m.steps--
	errno := m.stat(m.dirs[depth], &m.names[depth][0], unix.AT_SYMLINK_NOFOLLOW)
	isDir := m.st.Mode&unix.S_IFMT == unix.S_IFDIR
	isNew := m.isNew(r)
	// An empty directory contains no file that could be lost.
	unknown := isDir && m.st.Mask&unix.STATX_BTIME == 0
	if errno != 0 || !isNew && !unknown || m.steps < 0 {
		return errno == unix.ENOENT, false
	}
	flags := uintptr(0)
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	errno = m.unlink(depth, flags)
	if errno == 0 || errno == unix.ENOENT || !isDir || !isNew || depth >= removalDepth {
		return errno == 0 || errno == unix.ENOENT, false
	}
	m.how.Flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	m.how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	at, _, errno := syscall.Syscall6(unix.SYS_OPENAT2, uintptr(m.dirs[depth]), uintptr(unsafe.Pointer(&m.names[depth][0])),
		uintptr(unsafe.Pointer(&m.how)), unix.SizeofOpenHow, 0, 0)
	if errno != 0 {
		return errno == unix.ENOENT, false
	}
	// It may be a different directory than a moment ago.
	if m.stat(int(at), &m.empty, unix.AT_EMPTY_PATH) == 0 && m.isNew(r) {
		if m.st.Mode&0o700 != 0o700 {
			m.chmod(int(at), 0o700)
		}
		m.path[0], m.path[1] = '.', 0
		fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, at, uintptr(unsafe.Pointer(&m.path[0])), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
		m.dirs[depth+1], entered = int(fd), errno == 0
	}
	m.close(int(at))
	return false, entered
}

// isNew reports whether the command may have created the examined file.
func (m *Remover) isNew(r *Removal) bool {
	return m.st.Uid == r.uid && m.st.Mask&unix.STATX_BTIME != 0 &&
		(m.st.Btime.Sec > r.since.Sec || m.st.Btime.Sec == r.since.Sec && m.st.Btime.Nsec >= r.since.Nsec)
}

// next finds the first name of a directory; false: the directory is empty.
func (m *Remover) next(depth int) bool {
	_, _, _ = syscall.Syscall(unix.SYS_LSEEK, uintptr(m.dirs[depth]), 0, unix.SEEK_SET)
	for {
		n, _, errno := syscall.Syscall(unix.SYS_GETDENTS64, uintptr(m.dirs[depth]), uintptr(unsafe.Pointer(&m.list[0])), uintptr(len(m.list)))
		if errno != 0 || n == 0 {
			return false
		}
		for at := 0; at+direntName < int(n); at += direntSize(&m.list, at) {
			name := at + direntName
			if m.list[name] != '.' || m.list[name+1] != 0 && (m.list[name+1] != '.' || m.list[name+2] != 0) {
				for i := 0; i < len(m.names[depth]); i++ {
					m.names[depth][i] = m.list[name+i]
					if m.list[name+i] == 0 {
						return true
					}
				}
				return false
			}
		}
	}
}

func (m *Remover) stat(fd int, name *byte, flags uintptr) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(name)), flags,
		unix.STATX_BASIC_STATS|unix.STATX_BTIME, uintptr(unsafe.Pointer(&m.st)), 0)
	return errno
}

func (m *Remover) unlink(depth int, flags uintptr) syscall.Errno {
	_, _, errno := syscall.Syscall(unix.SYS_UNLINKAT, uintptr(m.dirs[depth]), uintptr(unsafe.Pointer(&m.names[depth][0])), flags)
	return errno
}

// Before Linux 6.6, only /proc can change the mode of a descriptor that was opened with O_PATH.
func (m *Remover) chmod(fd int, mode uintptr) {
	_, _, errno := syscall.Syscall6(unix.SYS_FCHMODAT2, uintptr(fd), uintptr(unsafe.Pointer(&m.empty)), mode, unix.AT_EMPTY_PATH, 0, 0)
	if errno == 0 {
		return
	}
	copy(m.path[:], "/proc/self/fd/")
	at := len("/proc/self/fd/") + 1
	for n := fd; n >= 10; n /= 10 {
		at++
	}
	m.path[at] = 0
	for n, i := fd, at-1; i >= len("/proc/self/fd/"); i-- {
		m.path[i] = byte('0' + n%10)
		n /= 10
	}
	_, _, _ = syscall.Syscall6(unix.SYS_FCHMODAT, uintptr(cwdFD), uintptr(unsafe.Pointer(&m.path[0])), mode, 0, 0, 0)
}

// cwdFD is AT_FDCWD, as a variable: no constant of its type is negative.
var cwdFD = unix.AT_FDCWD

func (m *Remover) close(fd int) { _, _, _ = syscall.Syscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func (m *Remover) closeAll(depth int) {
	for ; depth > 0; depth-- {
		m.close(m.dirs[depth])
	}
}
