package files

import "golang.org/x/sys/unix"

// data copies the contents. Holes become zeros, because file systems of macOS do
// not always report them correctly.
func (c *copier) data(in, out int, _ *unix.Stat_t) (side, error) { return c.copyRest(in, out) }
