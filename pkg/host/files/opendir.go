package files

import "golang.org/x/sys/unix"

// OpenDirectory opens a directory for reading its names, or to work in it. The
// caller closes the descriptor. With Confined files may be created in it: then the error is ErrProc for a
// directory of /proc, or one that is reached through the magic links there.
func OpenDirectory(name string, o Options) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	if !o.Confined {
		return open(name, flags, 0, o)
	}
	fd, err := openDirConfined(name, flags|unix.O_CLOEXEC, o.NoFollow)
	return fd, wrap(name, err)
}
