package files

import "golang.org/x/sys/unix"

// OpenDirectory opens a directory to read its names or to work in it. The caller closes the
// descriptor. With Confined, files may be created in it. Then the error is ErrProc for a directory
// of /proc, or for a directory that is reached through the magic links there.
func OpenDirectory(name string, o Options) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	var fd int
	var err error
	if o.Confined {
		fd, err = openDirConfined(name, flags|unix.O_CLOEXEC, o.NoFollow)
		err = wrap(name, err)
	} else {
		fd, err = open(name, flags, 0, o)
	}
	if err != nil {
		return -1, err
	}
	if err := refuseDenied(fd, name); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
