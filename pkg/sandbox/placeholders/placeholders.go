package placeholders

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// A mount needs a file to be mounted on. If a missing path must not be created, an empty file or
// directory is created there for as long as sandboxes mask it: a placeholder. Placeholders are
// shared. Each sandbox holds a lock on the placeholder itself, and the last sandbox removes it. A
// placeholder is marked by a modification time that no file has by chance. So the next sandbox
// recognizes a placeholder that a crash has left behind, and never mistakes the user's own empty
// file for one.

// JanitorName is the name, as in /proc/PID/comm, of processes that remove placeholders. Before such
// a process is killed, it should get some time to finish.
const JanitorName = "codex-janitor"

const (
	// takeTries bounds how often a placeholder may vanish while it is being taken.
	takeTries = 100
	// lockTries and lockWait bound the wait for a lock. A sandbox that ends holds the lock
	// exclusively for an instant. But a command that has created a lookalike of a placeholder can
	// hold the lock forever.
	lockTries = 20
	lockWait  = time.Millisecond
)

// Placeholder is a placeholder that this program has opened or is about to create.
type Placeholder struct {
	Path   string
	parent int // descriptor of its directory
	fd     int
	uid    uint32
	name   [256]byte // with a NUL, for system calls
	temp   [32]byte  // the name under which it is made, with a NUL as well
	dir    bool
	// share passes a descriptor to the janitor before it is locked; see Hold.
	share func(fd int) error
}

// These are the reasons why a file at a path is not accepted as a placeholder of this user.
var (
	errNotPlaceholder     = errors.New("it exists")
	errForeign            = errors.New("it belongs to another user")
	errForeignPlaceholder = errors.New("it is the placeholder of another user")
)

// openDir opens a directory by its canonical path.
func openDir(name string) (int, error) {
	return plan.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// ErrNotNeeded means that a placeholder cannot be made, because the user cannot
// create any file in that directory, or in the whole file system.
var ErrNotNeeded = errors.New("nothing can be created there")

// Unmasked means that a protected name cannot be masked. The file there belongs to another user or
// is locked by another process, and may be removed at any time, or no file can be made there, because the file
// system is full. The name must be watched instead.
type Unmasked struct {
	plan.UndoName
	NoMask bool // nothing is mounted there
}

func (u *Unmasked) Error() string { return "no placeholder can be held at " + u.Path }

// unmasked returns an Unmasked for the placeholder's name. It returns nil if the name is not
// protected, or if the existing file itself must be protected.
func (s *Placeholder) unmasked(why error) error {
	var st unix.Stat_t
	if !slices.Contains(plan.ProtectedNames, s.base()) || unix.Fstat(s.parent, &st) != nil {
		return nil
	}
	u := &Unmasked{UndoName: plan.UndoName{Path: s.Path, Dev: uint64(st.Dev), Ino: st.Ino}}
	switch {
	case errors.Is(why, errNotPlaceholder):
		return nil
	case full(why):
		u.NoMask = true
	case errors.Is(why, errForeign), errors.Is(why, errForeignPlaceholder):
		u.NoMask = st.Mode&unix.S_ISVTX != 0
		if !u.NoMask && errors.Is(why, errForeign) {
			return nil
		}
	}
	return u
}

// openPlaceholder opens the directory of a placeholder. If it is not the directory that the plan
// saw, the error is ErrAppeared. The zero FileID accepts any directory.
func openPlaceholder(name string, in plan.FileID) (*Placeholder, error) {
	s := &Placeholder{Path: name, fd: -1, uid: uint32(unix.Geteuid()), share: func(int) error { return nil }}
	if copy(s.name[:], s.base()) == len(s.name) {
		return nil, fmt.Errorf("cannot make the sandbox: open %s: %w", name, unix.ENAMETOOLONG)
	}
	// Process ids are not used, because they repeat, also at the same time in different containers.
	copy(s.temp[:], plan.TempPrefix+strconv.FormatUint(rand.Uint64(), 36))
	var err error
	s.parent, err = openDir(path.Dir(name))
	switch {
	case err == nil && in != (plan.FileID{}) && plan.IDOf(s.parent) != in:
		s.close()
		err = plan.ErrAppeared
	case in != (plan.FileID{}) && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)):
		err = plan.ErrAppeared
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the sandbox: open %s: %w", path.Dir(name), err)
	}
	return s, nil
}

// base is the placeholder's name in its directory.
func (s *Placeholder) base() string { return path.Base(s.Path) }

// take creates a placeholder, or joins the existing one. If another file is there, it closes the
// placeholder, and returns nil or an *Unmasked.
func (s *Placeholder) take() (*Placeholder, error) {
	var err error
	locked := 0
	for range takeTries {
		err = s.join()
		if errors.Is(err, unix.ENOENT) {
			err = s.make()
		}
		if full(err) && s.dir {
			s.dir = false // an empty file needs no room but its entry and its inode
			err = s.make()
		}
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, unix.EWOULDBLOCK) && locked < lockTries:
			locked++
			time.Sleep(lockWait)
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, errNotPlaceholder), errors.Is(err, errForeign), errors.Is(err, errForeignPlaceholder):
			err = s.unmasked(err)
			s.close()
			return nil, err
		case full(err):
			if watched := s.unmasked(err); watched != nil {
				err = watched
			} else {
				err = fmt.Errorf("put a placeholder at %s, which the policy protects: %w; make room on that file system", s.Path, err)
			}
			s.close()
			return nil, err
		case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES) && s.foreign():
			s.close()
			return nil, ErrNotNeeded
		case !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT):
			s.close()
			return nil, fmt.Errorf("put a placeholder at %s: %w", s.Path, err)
		}
	}
	s.close()
	return nil, fmt.Errorf("put a placeholder at %s: other processes create and remove it all the time", s.Path)
}

// Open opens the directory of the placeholder that a mount needs at its target. It changes nothing.
// It returns nil if a file of the user is there.
func Open(m *plan.Mount) (*Placeholder, error) {
	s, err := openPlaceholder(m.Target, m.Dir)
	if err != nil {
		if !m.Placeholder && !errors.Is(err, plan.ErrAppeared) {
			err = nil // it cannot be examined; the check in the view decides
		}
		return nil, err
	}
	s.dir = m.Placeholder && !m.File
	var st unix.Stat_t
	if unix.Fstatat(s.parent, s.base(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Uid == s.uid && !plan.IsPlaceholder(&st) {
		s.close()
		return nil, nil
	}
	return s, nil
}

// Hold creates or joins the opened placeholder that a mount needs. For a mask of an existing file
// it can only join one. It calls share with each descriptor of a placeholder before the placeholder
// is locked or moved into place. Scenario: the launcher is killed just after it has moved a
// placeholder into place. The janitor has the descriptor, holds the placeholder's lock, and removes
// the placeholder.
func (s *Placeholder) Hold(m *plan.Mount, share func(fd int) error) (*Placeholder, error) {
	s.share = share
	if m.Placeholder {
		return s.take()
	}
	return s.joinOnly()
}

// joinOnly joins the placeholder. If it does not exist, joinOnly closes it and returns nil.
// Scenario: the pattern /w/* is denied, and matches the .git that another sandbox has created in /w
// as a placeholder. Without a lock, that sandbox would remove it while a mask is being mounted on
// it. bwrap would then create its own directory there, which no process removes. If the placeholder
// is removed at this moment, the error is ErrAppeared.
func (s *Placeholder) joinOnly() (*Placeholder, error) {
	err := s.join()
	if err == nil {
		return s, nil
	}
	s.close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("cannot make the sandbox: look at %s: %w", s.Path, plan.ErrAppeared)
	}
	return nil, nil
}

// full reports whether an error means that the file system, or what the user may use of it, is full.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// foreign reports whether the directory belongs to another user, so that this
// user cannot change its permissions.
func (s *Placeholder) foreign() bool {
	var st unix.Stat_t
	return unix.Fstat(s.parent, &st) == nil && int(st.Uid) != unix.Geteuid()
}

// join opens and locks the existing placeholder. The error is ENOENT if it does not exist, or was
// removed meanwhile.
func (s *Placeholder) join() error {
	var st, now unix.Stat_t
	if err := unix.Fstatat(s.parent, s.base(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	mine := int(st.Uid) == unix.Geteuid()
	switch {
	case plan.IsPlaceholder(&st) && !mine:
		return errForeignPlaceholder
	case !mine:
		return errForeign
	case !plan.IsPlaceholder(&st):
		return errNotPlaceholder
	}
	fd, err := unix.Openat(s.parent, s.base(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err = s.share(fd); err == nil {
		err = retry(func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	}
	if err == nil {
		err = unix.Fstat(fd, &st) // a different file may have been opened than was examined
	}
	if err == nil {
		err = unix.Fstatat(s.parent, s.base(), &now, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && (now.Ino != st.Ino || now.Dev != st.Dev || !plan.IsPlaceholder(&st)) {
		err = unix.ENOENT
	}
	if err != nil {
		// The janitor may share this open file. In that case closing it here would not release the
		// lock.
		_ = unix.Flock(fd, unix.LOCK_UN)
		_ = unix.Close(fd)
		return err
	}
	s.fd, s.dir = fd, st.Mode&unix.S_IFMT == unix.S_IFDIR
	return nil
}

// make creates a placeholder under another name, marks and locks it, and then moves it into place.
// So no other process sees an incomplete placeholder.
func (s *Placeholder) make() error {
	temp := unix.ByteSliceToString(s.temp[:])
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if s.dir {
		if err := unix.Mkdirat(s.parent, temp, plan.PlaceholderDirMode); err != nil {
			return err
		}
	} else {
		flags |= unix.O_CREAT | unix.O_EXCL
	}
	fd, err := unix.Openat(s.parent, temp, flags, plan.PlaceholderFileMode)
	if err != nil {
		if s.dir {
			s.unlink(temp)
		}
		return err
	}
	mode := uint32(plan.PlaceholderFileMode)
	if s.dir {
		mode = plan.PlaceholderDirMode
	}
	mark := [2]unix.Timespec{{Sec: plan.PlaceholderSeconds}, {Sec: plan.PlaceholderSeconds, Nsec: plan.PlaceholderNanoseconds}}
	var made unix.Stat_t
	if err = s.share(fd); err == nil {
		err = unix.Fstat(fd, &made)
	}
	// Change the mode only if the umask has removed bits from it, which is rare: each change is one
	// more entry in the journal of the file system.
	if err == nil && made.Mode&0o7777 != mode {
		err = unix.Fchmod(fd, mode)
	}
	if err == nil {
		err = futimens(fd, &mark)
	}
	if err == nil {
		err = retry(func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	}
	if err == nil {
		err = unix.Renameat2(s.parent, temp, s.parent, s.base(), unix.RENAME_NOREPLACE)
	}
	if err != nil {
		s.unlink(temp)
		_ = unix.Flock(fd, unix.LOCK_UN)
		_ = unix.Close(fd)
		return err
	}
	s.fd = fd
	return nil
}

func (s *Placeholder) unlink(name string) {
	flags := 0
	if s.dir {
		flags = unix.AT_REMOVEDIR
	}
	_ = unix.Unlinkat(s.parent, name, flags)
}

// Release releases a placeholder, and removes it if no other process holds it.
func (s *Placeholder) Release() {
	new(Remover).RemovePlaceholder(s)
	s.close()
}

// ID is the placeholder's identity.
func (s *Placeholder) ID() plan.FileID { return plan.IDOf(s.fd) }

// IsDir reports whether the placeholder is a directory.
func (s *Placeholder) IsDir() bool { return s.dir }

// Close releases a placeholder that was opened but not held. It may be called on nil.
func (s *Placeholder) Close() {
	if s != nil {
		s.close()
	}
}

func (s *Placeholder) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
	}
	_ = unix.Close(s.parent)
}
