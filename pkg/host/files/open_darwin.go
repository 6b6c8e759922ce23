package files

import "golang.org/x/sys/unix"

// anchor opens a directory only to start from. It needs the permission to
// read its names.
const anchor = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK

// accessFlags check the rights that an open would have. Not every version of macOS
// has a flag that does not follow links, so callers must check for a link before.
const accessFlags = unix.AT_EACCESS

// openNoFollow opens a path; a link anywhere on it is ErrSymlink.
func openNoFollow(dir int, name string, flags int, mode uint32) (int, error) {
	return openByComponents(dir, name, flags, mode)
}

// isOpenLink returns false: macOS opens no symbolic link itself.
func isOpenLink(_, _ int) bool { return false }

// openConfined returns ENOTSUP: there is no sandbox on macOS.
func openConfined(int, string, string, int, uint32, bool) (int, error) { return -1, unix.ENOTSUP }

// openDirConfined returns ENOTSUP: there is no sandbox on macOS.
func openDirConfined(string, int, bool) (int, error) { return -1, unix.ENOTSUP }
