package files

import (
	"golang.org/x/sys/unix"
)

// setIDs are the set-user-id and set-group-id bits.
const setIDs = unix.S_ISUID | unix.S_ISGID

// file copies a regular file with its mode. follow is true if the caller named the destination.
// Then the destination may be a link, which is followed, or a device, which is written to.
func (c *copier) file(from, to located, follow bool) error {
	in, err := openAt(from.dir, from.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0, Options{})
	if err != nil {
		return wrap(c.sourcePath(from), err)
	}
	defer unix.Close(in)
	var source unix.Stat_t
	if err := unix.Fstat(in, &source); err != nil {
		return wrap(c.sourcePath(from), err)
	}
	if fileType(&source) != unix.S_IFREG { // it was one a moment ago
		return ruleErr(ErrSpecial, ErrSpecial.text+": "+c.sourcePath(from))
	}
	if err := refuseProcess(in, c.sourcePath(from)); err != nil {
		return err
	}
	if err := refuseDenied(in, c.sourcePath(from)); err != nil {
		return err
	}
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOCTTY
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	shown := ""
	if c.confined {
		shown = c.targetPath(to)
	}
	out, err := openTarget(to.dir, to.name, shown, flags, modeOf(&source)&0o777|0o200, Options{Confined: c.confined})
	if err == unix.ELOOP && !follow {
		err = unix.EEXIST
	}
	if err != nil {
		return wrap(c.targetPath(to), err)
	}
	side, err := c.fill(in, out, &source, follow)
	if e := unix.Close(out); err == nil {
		err = e
	}
	switch {
	case err == nil:
		return nil
	case side == sourceSide:
		return wrap(c.sourcePath(from), err)
	case err == ErrSameFile:
		return ruleErr(ErrSameFile, ErrSameFile.text+": "+c.targetPath(to))
	default:
		return wrap(c.targetPath(to), err)
	}
}

// side tells which of the two files an error concerns.
type side int

const (
	targetSide side = iota
	sourceSide
)

// fill copies first the mode and then the contents of in to out. So the contents are never readable
// by more users than the source.
func (c *copier) fill(in, out int, source *unix.Stat_t, anyTarget bool) (side, error) {
	var target unix.Stat_t
	if err := unix.Fstat(out, &target); err != nil {
		return targetSide, err
	}
	if idOf(source) == idOf(&target) {
		return targetSide, ErrSameFile
	}
	if fileType(&target) != unix.S_IFREG {
		if !anyTarget {
			return targetSide, unix.EEXIST
		}
		return c.copyRest(in, out)
	}
	mode := keepSetIDs(modeOf(source), source, &target)
	if first := mode &^ setIDs; modeOf(&target)&0o7777 != first {
		if err := unix.Fchmod(out, first); err != nil {
			return targetSide, err
		}
	}
	if target.Size > 0 {
		if err := unix.Ftruncate(out, 0); err != nil {
			return targetSide, err
		}
	}
	if which, err := c.data(in, out, source); err != nil {
		return which, err
	}
	if mode&setIDs != 0 { // writing would have cleared them
		return targetSide, unix.Fchmod(out, mode)
	}
	return targetSide, nil
}

// keepSetIDs returns the mode of source with only those set-id bits that a copy may have: the
// set-user-id bit if both files have the same owner, and the set-group-id bit if they have the same
// group.
func keepSetIDs(mode uint32, source, target *unix.Stat_t) uint32 {
	mode &= 0o7777
	if source.Uid != target.Uid {
		mode &^= unix.S_ISUID
	}
	if source.Gid != target.Gid {
		mode &^= unix.S_ISGID
	}
	return mode
}

// setMode gives a copied directory the mode of its original.
func setMode(fd int, mode uint32, of int) error {
	var source, target unix.Stat_t
	if err := unix.Fstat(of, &source); err != nil {
		return err
	}
	if err := unix.Fstat(fd, &target); err != nil {
		return err
	}
	mode = keepSetIDs(mode, &source, &target)
	if modeOf(&target)&0o7777 == mode {
		return nil
	}
	return unix.Fchmod(fd, mode)
}

// copyRest copies the rest of in through the buffer.
func (c *copier) copyRest(in, out int) (side, error) { return c.copyBuffered(in, out, -1) }

// copyBuffered copies n bytes, or with -1 the rest, through the buffer.
func (c *copier) copyBuffered(in, out int, n int64) (side, error) {
	if c.buffer == nil {
		c.buffer = make([]byte, copyBuffer)
	}
	for n != 0 {
		if err := checkContext(c.ctx); err != nil {
			return targetSide, err
		}
		b := c.buffer
		if n > 0 {
			b = b[:min(n, int64(len(b)))]
		}
		got, err := unix.Read(in, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return sourceSide, err
		}
		if got == 0 {
			return targetSide, nil
		}
		if err := writeAll(out, b[:got]); err != nil {
			return targetSide, err
		}
		if n > 0 {
			n -= int64(got)
		}
	}
	return targetSide, nil
}
