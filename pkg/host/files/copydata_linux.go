package files

import "golang.org/x/sys/unix"

// data copies the contents. If possible it uses copy_file_range, which shares blocks on some file
// systems. It preserves holes.
func (c *copier) data(in, out int, source *unix.Stat_t) (side, error) {
	if source.Blocks*512 < source.Size {
		if done, which, err := c.sparse(in, out, source.Size); done {
			return which, err
		}
	}
	return c.span(in, out, -1)
}

// sparse copies only the data of a file with holes. If the file system does not report holes,
// sparse copies nothing and done is false.
func (c *copier) sparse(in, out int, size int64) (done bool, which side, err error) {
	for at := int64(0); ; {
		start, err := unix.Seek(in, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // only a hole is left
			break
		}
		if err != nil {
			if at > 0 {
				return true, sourceSide, err
			}
			_, err = unix.Seek(in, 0, unix.SEEK_SET)
			return err != nil, sourceSide, err
		}
		end, err := unix.Seek(in, start, unix.SEEK_HOLE)
		if err == nil {
			_, err = unix.Seek(in, start, unix.SEEK_SET)
		}
		if err != nil {
			return true, sourceSide, err
		}
		if _, err := unix.Seek(out, start, unix.SEEK_SET); err != nil {
			return true, targetSide, err
		}
		if which, err := c.span(in, out, end-start); err != nil {
			return true, which, err
		}
		at, size = end, max(size, end)
	}
	return true, targetSide, unix.Ftruncate(out, size)
}

// span copies n bytes, from the current offsets of both descriptors. If n is -1, it copies the
// rest.
func (c *copier) span(in, out int, n int64) (side, error) {
	for n != 0 {
		if err := checkContext(c.ctx); err != nil {
			return targetSide, err
		}
		step := int64(copyStep)
		if n > 0 {
			step = min(step, n)
		}
		moved, err := unix.CopyFileRange(in, nil, out, nil, int(step), 0)
		switch {
		case err == unix.EINTR:
		case err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EFBIG:
			return targetSide, err
		case err != nil, moved == 0 && n < 0:
			// Either the kernel or the file systems do not support the call, or the file is virtual
			// and its size is reported as 0. The offsets are correct, so copyBuffered can continue.
			// A real error occurs again in copyBuffered, which returns it.
			return c.copyBuffered(in, out, n)
		case moved == 0:
			return targetSide, nil // the file became shorter
		case n > 0:
			n -= int64(moved)
		}
	}
	return targetSide, nil
}
