package archive

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"

	"codex.internal/pkg/host/dirfd"
)

// UnpackOptions are the options of an Unpacker.
type UnpackOptions struct {
	// Preserve gives files and directories the permissions and times of the archive. Without
	// it, new files get the archive's permissions less the umask, and existing files keep their
	// own.
	Preserve bool
	// Owner also sets owners and groups, by their numbers.
	Owner bool
	// Name returns the local name for a name of the archive; nil: both are the same.
	Name func(name string) (string, error)
	// Wanted reports whether an entry may be created: the other end may send more than was
	// requested. path is clean, and "." for the source itself. nil: every entry may be created.
	Wanted func(path string, isDirectory bool) bool
	// Failed is called for each entry that was not created, or that did not get all its
	// attributes. path is the path in the archive. Failed must be set.
	Failed func(path string, err error)
	// Began and Got show progress, if they are not nil. Began is called for each file, and Got
	// with the number of bytes of each write.
	Began func(e *Entry)
	Got   func(n int)
}

// Unpacker puts the files of an archive into a directory. It is for one goroutine at a
// time, and must be ended by Close or Abort.
type Unpacker struct {
	o      UnpackOptions
	parser parser
	top    *dirfd.Dir
	levels []made // the directories on the way to the last entry, below top
	root   finish // the attributes that top gets after the last entry
	file   *pending
	done   string
	closed bool
	// refused is the path of a directory that could not be created or entered, or "". The
	// entries below it are skipped without further errors.
	refused string
}

// made is a directory that is being filled.
type made struct {
	dir  *dirfd.Dir
	name string
	finish
}

// finish has the attributes that a directory gets after its last entry. Until then the
// directory must be writable, and each new entry changes its time.
type finish struct {
	entry *Entry // nil: no attributes
	isNew bool
}

// pending is a file that is being written.
type pending struct {
	entry   *Entry
	in      *dirfd.Dir
	name    string
	temp    string // "": the existing file is overwritten in place
	file    *dirfd.File
	exists  bool
	extents []Extent // the further data ranges
	left    int64    // bytes left in the current one
	sparse  bool     // pieces of zeros become holes; at counts the bytes
	at      int64
	err     error // the first error
}

// NewUnpacker returns an Unpacker into a directory. The Unpacker closes the directory. isNew
// means that the directory was created for it.
func NewUnpacker(target *dirfd.Dir, isNew bool, o UnpackOptions) *Unpacker {
	if o.Name == nil {
		o.Name = func(name string) (string, error) { return name, nil }
	}
	u := &Unpacker{o: o, top: target, root: finish{isNew: isNew}}
	u.parser.to = u
	return u
}

// Write handles the next part of the archive. An error means that the archive is malformed;
// further writes fail.
func (u *Unpacker) Write(b []byte) (int, error) {
	if err := u.parser.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Done returns the path of the last entry that was created or reported: an interrupted copy
// may continue after it. It returns "" before the first one.
func (u *Unpacker) Done() string { return u.done }

// Restart prepares for another archive of the same tree, after an interrupted one. It removes
// an incomplete file. Directories get their attributes only at the end.
func (u *Unpacker) Restart() {
	if u.file != nil {
		u.file.discard()
		u.file = nil
	}
	u.parser = parser{to: u, entries: u.parser.entries}
}

// Ended returns an error if the archive is not complete.
func (u *Unpacker) Ended() error { return u.parser.close() }

// Close ends the work. It returns an error if the archive has not ended; an incomplete file
// is then removed.
func (u *Unpacker) Close() error {
	err := u.parser.close()
	u.Abort()
	return err
}

// Abort ends the work without the rest of the archive. Complete files stay, and an incomplete one
// is removed. After Close it does nothing.
func (u *Unpacker) Abort() {
	if u.closed {
		return
	}
	u.closed = true
	if u.file != nil {
		u.file.discard()
		u.file = nil
	}
	u.leave(0)
	u.finishDir(u.top, ".", u.root)
	_ = u.top.Close()
}

// begin starts an entry.
func (u *Unpacker) begin(e *Entry) {
	discard := e.Type == Problem && e.Discard && u.file != nil && u.file.entry.Path == e.Path
	u.commit(discard)
	if u.refused != "" && strings.HasPrefix(e.Path, u.refused+"/") {
		u.done = e.Path
		return
	}
	u.refused = ""
	err := u.put(e)
	if err != nil {
		u.o.Failed(e.Path, err)
		if e.Type == Directory {
			u.refused = e.Path
		}
	}
	if e.Type != File || err != nil {
		u.done = e.Path
	}
}

// put creates an entry. For a file, it does not write the contents.
func (u *Unpacker) put(e *Entry) error {
	if e.Type == Problem {
		return errors.New(strings.ToValidUTF8(e.Text, "\uFFFD"))
	}
	names, err := parts(e.Path, u.valid)
	if err != nil {
		return err
	}
	if len(e.Target) > MaxPath {
		return errLong
	}
	if u.o.Wanted != nil && !u.o.Wanted(shown(strings.Join(names, "/")), e.Type == Directory) {
		return errUnwanted
	}
	if len(names) == 0 {
		if e.Type != Directory {
			return errName
		}
		u.root.entry = e
		return nil
	}
	last := len(names) - 1
	in, err := u.enter(names[:last])
	if err != nil {
		return err
	}
	name, err := u.o.Name(names[last])
	if err != nil {
		return err
	}
	switch e.Type {
	case Directory:
		return u.into(names[last], e.Perm, e)
	case Link:
		return u.link(in, name, e)
	case File:
		return u.create(in, name, e)
	default:
		return errListed
	}
}

var errUnwanted = errors.New("not copied: it was sent without being asked for")

var errListed = errors.New("not copied: the archive does not have its contents")

// valid reports whether a name of an archive may be used, before Name has changed it.
func (u *Unpacker) valid(name string) bool {
	local, err := u.o.Name(name)
	return err == nil && dirfd.ValidName(local) && !strings.Contains(name, "/")
}

func (u *Unpacker) skip(path string, kind byte) {
	u.commit(false)
	what := "an entry of type " + string(rune(kind))
	switch kind {
	case '1':
		what = "a hard link"
	case '3', '4':
		what = "a device"
	case '6':
		what = "a FIFO"
	}
	u.o.Failed(path, errors.New("not copied: it is "+what))
}

func (u *Unpacker) end() { u.commit(false) }

// enter enters the directory with these names below the target, and creates missing
// ones on the way.
func (u *Unpacker) enter(names []string) (*dirfd.Dir, error) {
	same := 0
	for same < len(names) && same < len(u.levels) && u.levels[same].name == names[same] {
		same++
	}
	u.leave(same)
	for _, name := range names[same:] {
		if err := u.into(name, 0o777, nil); err != nil {
			return nil, fmt.Errorf("its directory: %w", err)
		}
	}
	return u.here(), nil
}

// here returns the directory that was entered last.
func (u *Unpacker) here() *dirfd.Dir {
	if len(u.levels) == 0 {
		return u.top
	}
	return u.levels[len(u.levels)-1].dir
}

// into enters a directory below the current one, and creates it if it is missing.
func (u *Unpacker) into(name string, perm uint32, e *Entry) error {
	local, err := u.o.Name(name)
	if err != nil {
		return err
	}
	in := u.here()
	isNew := false
	d, err := in.Enter(local)
	if errors.Is(err, fs.ErrNotExist) {
		if err = in.Mkdir(local, perm|0o700); err == nil {
			isNew = true
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			d, err = in.Enter(local)
		}
	}
	if err == nil {
		if err = d.CheckWritable(); err != nil {
			_ = d.Close()
		}
	}
	if err != nil {
		return Occupied(err)
	}
	u.levels = append(u.levels, made{d, name, finish{e, isNew}})
	if u.o.Preserve && e != nil && !isNew {
		// An interrupted copy may already have set these permissions.
		if now, err := d.Stat(); err == nil && now.Perm&0o700 != 0o700 {
			return d.Chmod(now.Perm | 0o700)
		}
	}
	return nil
}

// leave closes the entered directories except the first n.
func (u *Unpacker) leave(n int) {
	for len(u.levels) > n {
		last := u.levels[len(u.levels)-1]
		if last.entry != nil {
			u.finishDir(last.dir, last.entry.Path, last.finish)
		}
		u.levels = u.levels[:len(u.levels)-1]
		_ = last.dir.Close()
	}
}

// finishDir sets the attributes of a directory.
func (u *Unpacker) finishDir(d *dirfd.Dir, path string, f finish) {
	if f.entry == nil {
		return
	}
	if err := u.finishOpen(d, f); err != nil {
		u.o.Failed(path, err)
	}
}

// open is an open file or directory whose attributes are set.
type open interface {
	Stat() (dirfd.Info, error)
	Chmod(perm uint32) error
	Chown(uid, gid uint32) error
}

func (u *Unpacker) finishOpen(d *dirfd.Dir, f finish) error {
	e := f.entry
	if u.o.Owner {
		if err := d.Chown(e.UID, e.GID); err != nil {
			return fmt.Errorf("set its owner: %w", err)
		}
	}
	switch {
	case u.o.Preserve:
		if err := chmod(d, e.Perm); err != nil {
			return err
		}
		return d.SetModified(e.Modified)
	case f.isNew && e.Perm&0o700 != 0o700: // it was created with these permissions
		now, err := d.Stat()
		if err != nil {
			return err
		}
		return d.Chmod(now.Perm & e.Perm)
	}
	return nil
}

// chmod sets permissions unless they are right.
func chmod(f open, perm uint32) error {
	if now, err := f.Stat(); err == nil && now.Perm == perm {
		return nil
	}
	return f.Chmod(perm)
}

// tempName returns a random name that cannot be guessed: the system seeds the generator of
// math/rand/v2, which is cryptographically strong.
func tempName() string {
	var random [16]byte
	binary.LittleEndian.PutUint64(random[:], rand.Uint64())
	binary.LittleEndian.PutUint64(random[8:], rand.Uint64())
	return "." + hex.EncodeToString(random[:]) + ".tmp"
}
