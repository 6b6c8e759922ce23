package archive

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"syscall"

	"codex.internal/pkg/host/dirfd"
)

// errOccupied is the error of a path at which a file of another type exists.
var errOccupied = errors.New("a file of another type exists here, which is not replaced")

// ErrLinkHere is the error of a path at which a link exists.
var ErrLinkHere = errors.New("a symbolic link exists here, which is not followed; remove it, or name its target instead")

// errDirectoryHere is the error of a file at whose path a directory exists.
var errDirectoryHere = errors.New("a directory exists here, which is not replaced")

// Occupied converts an error of entering or creating a directory: if another file exists at its
// path, the new error gives the reason for which that file is not replaced.
func Occupied(err error) error {
	switch {
	case errors.Is(err, dirfd.ErrLink):
		return ErrLinkHere
	case errors.Is(err, dirfd.ErrNotDirectory):
		return errOccupied
	}
	return err
}

// notOwn returns the error of a name whose file is not replaced.
func notOwn(kind dirfd.Kind) error {
	switch kind {
	case dirfd.Link:
		return ErrLinkHere
	case dirfd.Directory:
		return errDirectoryHere
	}
	return errOccupied
}

// link creates a symbolic link. It replaces only links.
func (u *Unpacker) link(in *dirfd.Dir, name string, e *Entry) error {
	there, err := in.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = in.Symlink(e.Target, name)
	case err != nil:
	case there.Kind == dirfd.Directory:
		return errDirectoryHere
	case there.Kind != dirfd.Link:
		return errOccupied
	default:
		temp := tempName()
		if err = in.Symlink(e.Target, temp); err == nil {
			if err = in.Rename(temp, name); err != nil {
				_ = in.Remove(temp)
			}
		}
	}
	if err == nil && u.o.Owner {
		err = in.ChownLink(name, e.UID, e.GID)
	}
	if err == nil && u.o.Preserve {
		err = in.SetLinkModified(name, e.Modified)
	}
	return err
}

// create starts a file, under a temporary name.
func (u *Unpacker) create(in *dirfd.Dir, name string, e *Entry) error {
	perm := e.Perm
	there, err := in.Lstat(name)
	exists := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case there.Kind != dirfd.Regular:
		return notOwn(there.Kind)
	default:
		// A file that this user may not write must not be replaced either.
		if err := in.MayWrite(name); err != nil {
			return err
		}
		perm = there.Perm
	}
	f := &pending{entry: e, in: in, name: name, exists: exists, extents: e.Extents}
	if f.extents == nil {
		f.extents = []Extent{{0, e.Size}}
	}
	for range tempTries {
		f.temp = tempName()
		f.file, err = in.Create(f.temp, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if exists && cannotReplace(err) {
		if file, inPlace := in.Overwrite(name); inPlace == nil {
			f.file, f.temp, err = file, "", nil
		}
	}
	if err != nil {
		return err
	}
	if f.temp != "" && exists && !u.o.Preserve {
		err = keep(f.file, there, u.o.Owner)
	}
	if err != nil {
		f.discard()
		return err
	}
	u.file = f
	if u.o.Began != nil {
		u.o.Began(e)
	}
	return nil
}

// cannotReplace reports whether an error means that a file cannot be replaced, though it may be writable itself: the
// user may not write to its directory, which may be sticky, or the file is a mount point. Such a file is overwritten in
// place, as cp does.
func cannotReplace(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EBUSY)
}

// Put creates one entry without an archive, under the same rules. Copies that request each file
// separately use it. Put reads the contents of a file from r, and ignores Size. After an error,
// which may be an error of r, the entry does not exist. Put must not be used between writes of
// one archive.
func (u *Unpacker) Put(e *Entry, r io.Reader) error {
	if err := u.put(e); err != nil || e.Type != File {
		return err
	}
	f := u.file
	u.file = nil
	f.extents, f.sparse = []Extent{{0, math.MaxInt64}}, true
	_, err := io.Copy(f, r)
	if err == nil && f.at > 0 {
		err = f.file.Truncate(f.at)
	}
	if err == nil {
		err = u.finishFile(f)
	}
	if err != nil {
		f.discard()
	}
	return err
}

// Write calls write, for io.Copy.
func (f *pending) Write(b []byte) (int, error) {
	f.write(b)
	return len(b), f.err
}

// keep gives a new file the permissions of the file that it replaces, and its owner as far as
// the system permits. If the group cannot be set, keep removes the permissions of the group, so
// that another group does not get them.
func keep(f *dirfd.File, old dirfd.Info, ownerComes bool) error {
	perm := old.Perm
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !ownerComes && (now.UID != old.UID || now.GID != old.GID) && f.Chown(old.UID, old.GID) != nil {
		if f.Chown(noChange, old.GID) != nil {
			perm &^= 0o070
		}
	}
	if now.Perm == perm {
		return nil
	}
	return f.Chmod(perm) // the umask must not remove permissions that the old file had
}

// noChange is the id for an owner or a group that does not change.
const noChange = ^uint32(0)

// data writes a part of the current file's contents.
func (u *Unpacker) data(b []byte) {
	if u.o.Got != nil {
		u.o.Got(len(b))
	}
	if u.file == nil { // the entry was refused
		return
	}
	u.file.write(b)
}

// write writes the next bytes at their position. It stores the first error.
func (f *pending) write(b []byte) {
	for len(b) > 0 && f.err == nil {
		if f.left == 0 {
			if len(f.extents) == 0 {
				f.err = errSize
				return
			}
			next := f.extents[0]
			f.extents, f.left = f.extents[1:], next.Length
			if next.Offset > 0 {
				f.err = f.file.SeekTo(next.Offset)
			}
			continue
		}
		n := int(min(f.left, int64(len(b))))
		if f.sparse {
			n = min(n, sparsePiece)
		}
		switch {
		case f.err != nil:
		case f.sparse && n == sparsePiece && isZero(b[:n]):
			f.err = f.file.SeekTo(f.at + int64(n))
		default:
			_, f.err = f.file.Write(b[:n])
		}
		f.at += int64(n)
		f.left -= int64(n)
		b = b[n:]
	}
}

// isZero reports whether all bytes are zero.
func isZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// commit ends the file that is being written, if there is one. It gives the file its name or,
// with discard, removes it.
func (u *Unpacker) commit(discard bool) {
	f := u.file
	u.file = nil
	switch {
	case f == nil:
		return
	case discard:
		f.discard()
		return
	}
	if err := u.finishFile(f); err != nil {
		f.discard()
		u.o.Failed(f.entry.Path, err)
	}
	u.done = f.entry.Path
}

// finishFile closes a file whose contents are complete and gives it its name.
func (u *Unpacker) finishFile(f *pending) error {
	if f.err != nil {
		return f.err
	}
	e := f.entry
	if e.Extents != nil {
		if err := f.file.Truncate(e.Size); err != nil {
			return err
		}
	}
	if err := u.attributes(f.file, e); err != nil {
		return err
	}
	file := f.file
	f.file = nil
	if err := file.Close(); err != nil {
		return err
	}
	if f.temp == "" { // it was written in place
		return nil
	}
	// Another file may have been created at the path since this one was begun.
	if there, err := f.in.Lstat(f.name); err == nil && there.Kind != dirfd.Regular {
		return notOwn(there.Kind)
	}
	err := f.in.Rename(f.temp, f.name)
	if f.exists && cannotReplace(err) {
		if out, inPlace := f.in.Overwrite(f.name); inPlace == nil {
			if err = f.copyInto(out); err == nil {
				err = u.attributes(out, e)
			}
			if closeErr := out.Close(); err == nil {
				err = closeErr
			}
			if err == nil {
				err = f.in.Remove(f.temp)
			}
		}
	}
	if err != nil {
		return err
	}
	f.temp = ""
	return nil
}

// attributes sets the attributes of a file whose contents are complete.
func (u *Unpacker) attributes(f *dirfd.File, e *Entry) error {
	if u.o.Owner {
		if err := f.Chown(e.UID, e.GID); err != nil {
			return errors.New("set its owner: " + err.Error())
		}
	}
	if !u.o.Preserve {
		return nil
	}
	if err := chmod(f, e.Perm); err != nil {
		return err
	}
	return f.SetModified(e.Modified)
}

// copyInto copies the complete file into another one, which is empty. It preserves holes.
func (f *pending) copyInto(out *dirfd.File) error {
	in, info, err := f.in.Open(f.temp)
	if err != nil {
		return err
	}
	defer in.Close()
	for at := int64(0); at < info.Size; {
		start, end, ok := in.NextData(at, info.Size)
		if !ok {
			start, end = at, info.Size
		}
		if err := errors.Join(in.SeekTo(start), out.SeekTo(start)); err != nil {
			return err
		}
		if _, err := io.Copy(out, io.LimitReader(in, end-start)); err != nil {
			return err
		}
		at = end
	}
	return out.Truncate(info.Size)
}

// discard removes the incomplete file.
func (f *pending) discard() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
	if f.temp != "" {
		_ = f.in.Remove(f.temp)
	}
}
