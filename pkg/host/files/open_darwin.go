package files

import "golang.org/x/sys/unix"

// anchor opens a directory only to start from. It needs the permission to
// read its names.
const anchor = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK

// accessFlags ask for the rights that an open would have. Not every version
// of the system can be asked not to follow a link; whoever asks has looked
// before that there is none.
const accessFlags = unix.AT_EACCESS

// openNoFollow opens a path on which no link may be.
func openNoFollow(dir int, name string, flags int, mode uint32) (int, error) {
	return openByComponents(dir, name, flags, mode)
}

// isOpenLink reports whether what was opened is a symbolic link itself, which
// it never is here.
func isOpenLink(_, _ int) bool { return false }

// openConfined has no sandbox here that it could serve.
func openConfined(int, string, string, int, uint32, bool) (int, error) { return -1, unix.ENOTSUP }
