package placeholders

import (
	"errors"
	"fmt"
	"path"
	"syscall"
	"unsafe"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// A command may put any file at a name that must not be created: a tree that it has created, a
// directory of the user that it has moved there, a tree that cannot be listed or is deeper than any
// path, or links to other directories. So the name is first freed by one rename within its
// directory, which works for all of these. Then the renamed files are deleted, but only those that
// the command can have created: files that belong to the user, were created after the sandbox was
// planned and are on the same mount. A command cannot set the birth time. All other files remain
// under the new name.
//
// Each lookup is of a single name in an open directory, and follows no link. So processes that
// rename and link at the same time cannot redirect it. One case remains: such a process can
// exchange a single name between the check and the unlink, and that file is then unlinked. The
// process could have unlinked it itself.
//
// The launcher does this, and the janitor does it for a killed launcher. The code uses only system
// calls on descriptors and allocates no memory.

const (
	// removalDepth bounds how deep a tree is deleted, because each level needs a descriptor. Git's
	// own trees have less than ten levels.
	removalDepth = 32
	// removalSteps bounds the names that one deletion handles, because new names may appear
	// meanwhile. This number takes less than a second.
	removalSteps = 1 << 14
	// removalTries bounds how often the rename is tried.
	removalTries = 8
	// asidePrefix is the beginning of the names of files that were moved aside. Random digits of
	// the sandbox follow, and the same number of digits of the name.
	asidePrefix = ".codex-removed-"
	asideDigits = 8
)

// The results of Remove.
const (
	NothingThere = iota
	// Removed means that the name is free. Files may remain under another name.
	Removed
	// NotRemoved means that the name could not be freed.
	NotRemoved
	// HeldPlaceholder means that the file is a placeholder of another sandbox, empty and locked.
	// The caller must check it again.
	HeldPlaceholder
)

// Removal is a name to be removed, and its open directory.
type Removal struct {
	Path     string // for people
	Dev, Ino uint64 // of the directory
	dir      int
	sticky   bool
	uid      uint32
	since    unix.StatxTimestamp // when the sandbox was planned
	name     [256]byte           // with a NUL, as all names here
	aside    [256]byte
}

// Aside is the prefix of the paths of files that were moved aside.
func (r *Removal) Aside() string {
	return path.Join(path.Dir(r.Path), string(r.aside[:len(asidePrefix)+asideDigits]))
}

// openRemoval opens the directory of a name that must not exist.
func openRemoval(n plan.UndoName) (*Removal, error) {
	dir, base := path.Split(n.Path)
	r := &Removal{Path: n.Path, uid: uint32(unix.Geteuid())}
	if len(base) >= len(r.name) {
		return nil, fmt.Errorf("the name %s is too long", base)
	}
	copy(r.name[:], base)
	copy(r.aside[:], asidePrefix)
	var m Remover
	m.random(r.aside[len(asidePrefix):])
	// Birth times are taken from the coarse clock too.
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	r.since = unix.StatxTimestamp{Sec: int64(now.Sec), Nsec: uint32(now.Nsec)}
	var err error
	if r.dir, err = openDir(path.Clean(dir)); err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = plan.ErrAppeared
		}
		return nil, fmt.Errorf("cannot make the sandbox: open %s: %w", dir, err)
	}
	var st, found unix.Stat_t
	err = unix.Fstat(r.dir, &st)
	if err == nil && (uint64(st.Dev) != n.Dev || st.Ino != n.Ino) {
		err = plan.ErrAppeared
	}
	r.Dev, r.Ino, r.sticky = uint64(st.Dev), st.Ino, st.Mode&unix.S_ISVTX != 0
	if err == nil && unix.Fstatat(r.dir, base, &found, unix.AT_SYMLINK_NOFOLLOW) == nil && (!r.sticky || found.Uid == r.uid) &&
		(m.stat(r.dir, &r.name[0], unix.AT_SYMLINK_NOFOLLOW) != 0 || m.placeholder(r) == NotRemoved) {
		err = plan.ErrAppeared
	}
	if err != nil {
		_ = unix.Close(r.dir)
		return nil, fmt.Errorf("cannot make the sandbox: look at %s: %w", n.Path, err)
	}
	return r, nil
}

// Remover has the memory that a removal needs.
type Remover struct {
	st    unix.Statx_t
	dirs  [removalDepth + 1]int       // open directories, from the first
	names [removalDepth + 1][256]byte // and the current name in each
	list  [512]byte                   // of a directory; the longest entry fits
	scan  [512]byte                   // the same, of the removal's directory
	path  [32]byte                    // of a descriptor in /proc
	how   unix.OpenHow
	empty byte
	bits  uint64
	steps int
}

// Remove frees the name, and deletes the files there as far as permitted. If another user owns the
// file in a directory with the sticky bit, the command did not create it, and it is not removed.
// Remove works even if a command has removed the search permission of the directory.
func (m *Remover) Remove(r *Removal) int {
	mode := unchanged
	errno := m.stat(r.dir, &r.name[0], unix.AT_SYMLINK_NOFOLLOW)
	if errno == unix.EACCES {
		mode = m.unlock(r.dir, r.uid)
		errno = m.stat(r.dir, &r.name[0], unix.AT_SYMLINK_NOFOLLOW)
	}
	result := NothingThere
	if errno == 0 && (!r.sticky || m.st.Uid == r.uid) {
		result = m.placeholder(r)
		if result == NotRemoved {
			result = m.free(r, &mode)
		}
	}
	m.lock(r.dir, mode)
	return result
}

// free is Remove for an existing file that is not a placeholder. mode is the
// directory's mode before it was unlocked.
func (m *Remover) free(r *Removal, mode *uintptr) int {
	m.steps = removalSteps
	for range removalTries {
		m.random(r.aside[len(asidePrefix)+asideDigits:])
		errno := m.rename(r, unix.RENAME_NOREPLACE)
		if errno == unix.EINVAL {
			errno = m.rename(r, 0) // a file system without flags; the name does not exist
		}
		if errno == unix.EACCES && *mode == unchanged {
			*mode = m.unlock(r.dir, r.uid)
			continue
		}
		if errno == 0 || errno == unix.ENOENT {
			_ = m.delete(r, &r.aside)
			return Removed
		}
		if errno != unix.EEXIST {
			// A full disk may have no space for the longer name, so delete the file in place.
			if m.delete(r, &r.name) {
				return Removed
			}
			break
		}
	}
	return NotRemoved
}

// unchanged is not a valid mode.
const unchanged = ^uintptr(0)

// unlock gives the directory the permissions to change its entries, which a command may have
// removed. It returns the previous mode, or unchanged if nothing was done.
func (m *Remover) unlock(dir int, uid uint32) uintptr {
	if m.stat(dir, &m.empty, unix.AT_EMPTY_PATH) != 0 || m.st.Uid != uid || m.st.Mode&0o700 == 0o700 {
		return unchanged
	}
	mode := uintptr(m.st.Mode & 0o7777)
	m.chmod(dir, mode|0o700)
	return mode
}

// lock undoes unlock.
func (m *Remover) lock(dir int, mode uintptr) {
	if mode != unchanged {
		m.chmod(dir, mode)
	}
}

// placeholder handles the file if it is an empty placeholder. If a sandbox whose policy masks the
// name still uses it, it is not removed. If it was left behind, it is removed. A command may create
// and lock its own lookalike, but that must stay empty, and its lock ends with the command. The
// result is NotRemoved if the file is not a placeholder.
func (m *Remover) placeholder(r *Removal) int {
	if !m.isPlaceholder() {
		return NotRemoved
	}
	isDir := m.st.Mode&unix.S_IFMT == unix.S_IFDIR
	flags := uintptr(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC)
	if isDir {
		flags |= unix.O_DIRECTORY
	}
	fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, uintptr(r.dir), uintptr(unsafe.Pointer(&r.name[0])), flags, 0, 0, 0)
	if errno != 0 {
		return NotRemoved
	}
	_, _, errno = syscall.Syscall(unix.SYS_FLOCK, fd, unix.LOCK_EX|unix.LOCK_NB, 0)
	m.dirs[1] = int(fd)
	result := NotRemoved
	switch {
	case errno == 0 && isDir:
		// This fails if the directory is not empty.
		_, _, errno = syscall.Syscall(unix.SYS_UNLINKAT, uintptr(r.dir), uintptr(unsafe.Pointer(&r.name[0])), unix.AT_REMOVEDIR)
		if errno == 0 {
			result = NothingThere
		}
	case errno == unix.EWOULDBLOCK && m.stat(int(fd), &m.empty, unix.AT_EMPTY_PATH) == 0 && m.isPlaceholder() && (!isDir || !m.next(1)):
		result = HeldPlaceholder
	}
	m.close(int(fd))
	return result
}

func (m *Remover) rename(r *Removal, flags uintptr) syscall.Errno {
	_, _, errno := syscall.Syscall6(unix.SYS_RENAMEAT2, uintptr(r.dir), uintptr(unsafe.Pointer(&r.name[0])),
		uintptr(r.dir), uintptr(unsafe.Pointer(&r.aside[0])), flags, 0)
	return errno
}

// random writes digits that the command cannot predict.
func (m *Remover) random(to []byte) {
	_, _, _ = syscall.Syscall(unix.SYS_GETRANDOM, uintptr(unsafe.Pointer(&m.bits)), 8, unix.GRND_NONBLOCK)
	for i := range asideDigits {
		to[i] = "0123456789abcdef"[m.bits>>(4*i)&15]
	}
}

// Tidy deletes the rest of the files that this sandbox moved aside, as far as permitted. There are
// some if a deletion was interrupted, or if a process created more names meanwhile. It reports
// whether any are left.
func (m *Remover) Tidy(r *Removal) (left bool) {
	mode := m.unlock(r.dir, r.uid)
	m.path[0], m.path[1] = '.', 0
	fd, _, errno := syscall.Syscall6(unix.SYS_OPENAT, uintptr(r.dir), uintptr(unsafe.Pointer(&m.path[0])), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		m.lock(r.dir, mode)
		return false
	}
	m.steps = removalSteps
	for m.steps > 0 {
		n, _, errno := syscall.Syscall(unix.SYS_GETDENTS64, fd, uintptr(unsafe.Pointer(&m.scan[0])), uintptr(len(m.scan)))
		if errno != 0 || n == 0 {
			break
		}
		for at := 0; at+direntName < int(n); at += direntSize(&m.scan, at) {
			same := 0
			for same < len(asidePrefix)+asideDigits && m.scan[at+direntName+same] == r.aside[same] {
				same++
			}
			if same < len(asidePrefix)+asideDigits {
				continue
			}
			for i := 0; i < len(r.aside); i++ {
				r.aside[i] = m.scan[at+direntName+i]
				if r.aside[i] == 0 {
					break
				}
			}
			if !m.delete(r, &r.aside) {
				left = true
			}
		}
	}
	m.lock(r.dir, mode)
	m.close(int(fd))
	return left
}

// RemovePlaceholder removes a placeholder that no other process holds, if it is still one.
func (m *Remover) RemovePlaceholder(s *Placeholder) {
	if s.fd < 0 {
		return
	}
	_, _, errno := syscall.Syscall(unix.SYS_FLOCK, uintptr(s.fd), unix.LOCK_EX|unix.LOCK_NB, 0)
	if errno != 0 || m.stat(s.fd, &m.empty, unix.AT_EMPTY_PATH) != 0 || !m.isPlaceholder() {
		return
	}
	ino, major, minor := m.st.Ino, m.st.Dev_major, m.st.Dev_minor
	flags := uintptr(0)
	if m.st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	mode := unchanged
	for range 2 {
		errno = m.stat(s.parent, &s.name[0], unix.AT_SYMLINK_NOFOLLOW)
		if errno == 0 && m.st.Ino == ino && m.st.Dev_major == major && m.st.Dev_minor == minor {
			_, _, errno = syscall.Syscall(unix.SYS_UNLINKAT, uintptr(s.parent), uintptr(unsafe.Pointer(&s.name[0])), flags)
		}
		if errno != unix.EACCES || mode != unchanged {
			break
		}
		mode = m.unlock(s.parent, s.uid)
	}
	m.lock(s.parent, mode)
}

// RemoveHalfMade removes the file that a killed launcher has left under the temporary name of a
// placeholder that is not yet marked and locked: an empty file or directory. No sandbox uses that
// name.
func (m *Remover) RemoveHalfMade(s *Placeholder) {
	if m.stat(s.parent, &s.temp[0], unix.AT_SYMLINK_NOFOLLOW) != 0 || m.st.Uid != s.uid {
		return
	}
	flags := uintptr(0)
	switch kind := m.st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR // which fails if it is not empty
	case kind != unix.S_IFREG || m.st.Size != 0:
		return
	}
	_, _, _ = syscall.Syscall(unix.SYS_UNLINKAT, uintptr(s.parent), uintptr(unsafe.Pointer(&s.temp[0])), flags)
}

// isPlaceholder reports whether the last examined file is a placeholder.
func (m *Remover) isPlaceholder() bool {
	return (m.st.Mode == unix.S_IFDIR|plan.PlaceholderDirMode || m.st.Mode == unix.S_IFREG|plan.PlaceholderFileMode && m.st.Size == 0) &&
		m.st.Mtime.Sec == plan.PlaceholderSeconds && m.st.Mtime.Nsec == plan.PlaceholderNanoseconds
}
