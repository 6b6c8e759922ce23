package files

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// WriteOptions control how a file is replaced.
type WriteOptions struct {
	Options
	// Atomic writes to a temporary file in the target's directory, which replaces the target when
	// Close is called. Until then, and after Abort, the target is unchanged. Other readers see
	// either the old or the new contents, never a mixture. The replacement has the target's
	// permission bits, and its owner and group as far as the system permits. Other hard links to
	// the target keep the old contents. Access lists are not preserved.
	//
	// Some existing files can be written but not replaced: the user may not write to the directory,
	// which may be sticky, or the file is a mount point. Such a file is overwritten in place, as cp
	// does: at once if its directory permits no temporary file, otherwise when Close is called.
	//
	// The data is not synced to disk, as with cp or rsync: after a power failure the file may be
	// damaged. If the server is killed, the temporary file .RANDOM.tmp remains.
	Atomic bool
	// Permissions are the permissions of a new file, reduced by the umask; nil: 0666. The file is
	// created with them, so that no other user can read a secret meanwhile.
	Permissions *uint32
}

// newMode is the mode with which a new file is made.
func (o *WriteOptions) newMode() uint32 {
	if o.Permissions == nil {
		return 0o666
	}
	return *o.Permissions
}

// WriteHandle is a file that is being replaced. An atomic write replaces the file at the end;
// otherwise it is truncated at once. The handle ends with the first call of Close or Abort. A
// second call returns os.ErrClosed and does nothing. WriteAt may be called concurrently with all
// methods.
type WriteHandle struct {
	f     *os.File
	name  string
	ended atomic.Bool
	// These are for atomic writes: the directory (otherwise -1), the temporary name in it and the
	// final name. The temporary name is empty if the file is overwritten in place.
	dir        int
	temp, base string
	confined   bool
	replaces   bool // the file existed when the write began
}

// OpenWrite begins to replace a regular file. The file need not exist, but its directory must.
// Links are followed unless NoFollow is set. Errors: ErrNotFile, ErrSymlink, ErrDangling, *OSError.
func OpenWrite(name string, o WriteOptions) (*WriteHandle, error) {
	if o.newMode() > MaxPermissions {
		return nil, ErrPermissions
	}
	if o.Atomic {
		return openAtomic(name, o)
	}
	fd, err := openTarget(unix.AT_FDCWD, name, name, replaceFlags, o.newMode(), o.Options)
	if err != nil {
		err = wrap(name, err)
		if isErrno(err, unix.ENXIO) { // a pipe without a reader, or a socket
			err = notFile(name)
		}
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, wrap(name, err)
	}
	if fileType(&st) != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, notFile(name)
	}
	return &WriteHandle{f: newFile(fd, name), name: name, dir: -1}, nil
}

func openAtomic(name string, o WriteOptions) (*WriteHandle, error) {
	h := &WriteHandle{name: name, confined: o.Confined}
	old, err := h.findTarget(o.Options)
	if err != nil {
		return nil, wrap(name, err)
	}
	h.replaces = old != nil
	err = h.makeTemp(old, o.newMode())
	if h.replaces && cannotReplace(err) {
		if fd, inPlace := h.openInPlace(); inPlace == nil {
			h.f, err = newFile(fd, name), nil
		}
	}
	if err != nil {
		_ = unix.Close(h.dir)
		return nil, wrap(name, err)
	}
	return h, nil
}

// cannotReplace reports whether an error means that a file cannot be replaced, though it may be
// writable itself.
func cannotReplace(err error) bool {
	return err == unix.EACCES || err == unix.EPERM || err == unix.EROFS || err == unix.EBUSY
}

// openInPlace opens the existing file and removes its contents. It does not follow a link, and opens only a
// regular file.
func (h *WriteHandle) openInPlace() (int, error) {
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := openTarget(h.dir, h.base, h.name, flags, 0, Options{Confined: h.confined})
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && fileType(&st) != unix.S_IFREG {
		err = notFile(h.name)
	}
	if err == nil {
		err = retry(func() error { return unix.Ftruncate(fd, 0) })
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// replace gives the temporary file the final name. If the existing file cannot be replaced, replace copies the
// contents into it.
func (h *WriteHandle) replace() error {
	err := unix.Renameat(h.dir, h.temp, h.dir, h.base)
	if !h.replaces || !cannotReplace(err) {
		return err
	}
	in, openErr := openAt(h.dir, h.temp, unix.O_RDONLY|unix.O_NOFOLLOW, 0, Options{})
	if openErr != nil {
		return err
	}
	defer unix.Close(in)
	var st unix.Stat_t
	if statErr := unix.Fstat(in, &st); statErr != nil {
		return statErr
	}
	out, openErr := h.openInPlace()
	if openErr != nil {
		return err
	}
	_, err = (&copier{ctx: context.Background()}).data(in, out, &st)
	if closeErr := unix.Close(out); err == nil {
		err = closeErr
	}
	if err == nil {
		err = unix.Unlinkat(h.dir, h.temp, 0)
	}
	return err
}

// findTarget opens the directory of the file to replace, and returns the file's
// attributes, or nil if there is no file. If the name is a link, the target of
// the link is replaced, as with a plain write.
func (h *WriteHandle) findTarget(o Options) (*unix.Stat_t, error) {
	dir, base, err := openParent(h.name, o)
	if err != nil {
		return nil, err
	}
	h.dir, h.base = dir, base
	st := new(unix.Stat_t)
	err = unix.Fstatat(dir, base, st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && fileType(st) == unix.S_IFLNK {
		_ = unix.Close(dir)
		if o.NoFollow {
			return nil, ErrSymlink
		}
		if err := h.followTarget(st); err != nil {
			return nil, err
		}
		dir = h.dir
	}
	switch {
	case err == unix.ENOENT:
		return nil, nil
	case err != nil:
	case fileType(st) == unix.S_IFDIR:
		err = unix.EISDIR
	case fileType(st) != unix.S_IFREG:
		err = notFile(h.name)
	default:
		// If the user may not write to the file, it must not be replaced either.
		err = unix.Faccessat(dir, h.base, unix.W_OK, accessFlags)
	}
	if err != nil {
		_ = unix.Close(dir)
		return nil, err
	}
	return st, nil
}

// followTarget opens the directory of a link's target. The kernel follows the link, so that its
// protection of links in shared directories applies. Then the file is looked up by name, and must
// be the one that the kernel has reached.
func (h *WriteHandle) followTarget(st *unix.Stat_t) error {
	real, err := resolveRegular(h.name, st)
	if err == unix.ENOENT {
		return ruleErr(ErrDangling, "path `"+h.name+"` is a symbolic link that leads nowhere")
	}
	if err != nil {
		return err
	}
	reached := idOf(st)
	h.dir, h.base, err = openParent(real, Options{NoFollow: true})
	if err != nil {
		return err
	}
	err = unix.Fstatat(h.dir, h.base, st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && idOf(st) != reached {
		err = unix.ENOENT // it was moved in between
	}
	if err != nil {
		_ = unix.Close(h.dir)
	}
	return err
}

// makeTemp creates the temporary file. It gets the owner, group and mode of the old file as far as
// the system permits, or mode if there is no old file.
func (h *WriteHandle) makeTemp(old *unix.Stat_t, mode uint32) error {
	if old != nil {
		mode = modeOf(old) & 0o777
	}
	for range tempTries {
		temp := tempName()
		fd, err := openAt(h.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode, Options{})
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return err
		}
		if old != nil {
			if err := copyOwnerAndMode(fd, old); err != nil {
				_ = unix.Close(fd)
				_ = unix.Unlinkat(h.dir, temp, 0)
				return err
			}
		}
		h.temp = temp
		h.f = os.NewFile(uintptr(fd), path.Join(path.Dir(h.name), temp))
		return nil
	}
	return unix.EEXIST
}

// tempName returns a name that cannot be guessed: the generator of math/rand/v2
// is seeded by the system and cryptographically strong. crypto/rand would double
// the size of the file system helper.
func tempName() string {
	var random [tempRandom]byte
	binary.LittleEndian.PutUint64(random[:], rand.Uint64())
	binary.LittleEndian.PutUint64(random[tempRandom-8:], rand.Uint64())
	return "." + hex.EncodeToString(random[:]) + ".tmp"
}

// copyOwnerAndMode gives a new file the owner, the group and the mode of an old file. If the group
// cannot be set, the group permissions are removed, so that a different group does not get them.
// Set-id bits are not copied, because a write would clear them too.
func copyOwnerAndMode(fd int, old *unix.Stat_t) error {
	mode := modeOf(old) & 0o777
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != old.Uid || st.Gid != old.Gid {
		if unix.Fchown(fd, int(old.Uid), int(old.Gid)) != nil && unix.Fchown(fd, -1, int(old.Gid)) != nil {
			mode &^= 0o070
		}
	}
	if modeOf(&st)&0o7777 == mode {
		return nil
	}
	// The umask may have removed permissions that the old file has.
	return unix.Fchmod(fd, mode)
}

// WriteAt writes at the given offset in bytes. Offsets may be in any order; gaps between writes are
// zero. For an offset beyond the largest file size the error is ErrOffset.
func (h *WriteHandle) WriteAt(b []byte, offset uint64) error {
	if offset > math.MaxInt64-uint64(len(b)) {
		return ErrOffset
	}
	_, err := h.f.WriteAt(b, int64(offset))
	return wrap(h.name, err)
}

// Close closes the handle. For an atomic write it replaces the target; if that fails, it removes
// the temporary file.
func (h *WriteHandle) Close() error {
	return h.end(h.replace)
}

// errAborted tells end not to replace the target.
var errAborted = errors.New("aborted")

// Abort closes the handle. An atomic write then leaves the target unchanged; any other write leaves
// the data that was written.
func (h *WriteHandle) Abort() error {
	err := h.end(func() error { return errAborted })
	if err == errAborted {
		return nil
	}
	return err
}

// end closes the file. For an atomic write it calls commit to replace the target,
// and removes the temporary file if commit fails.
func (h *WriteHandle) end(commit func() error) error {
	if h.ended.Swap(true) {
		return os.ErrClosed
	}
	err := h.f.Close()
	if h.dir < 0 {
		return wrap(h.name, err)
	}
	if err == nil && h.temp != "" {
		err = commit()
	}
	if err != nil && h.temp != "" {
		_ = unix.Unlinkat(h.dir, h.temp, 0)
	}
	_ = unix.Close(h.dir)
	return wrap(h.name, err)
}
