package mediate

import (
	"strconv"
	"strings"
	"unsafe"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// pathOffset is the offset of the path in struct sockaddr_un.
const pathOffset = 2

// socketPath returns the path in the address of a Unix socket, or "" if the address has no path.
func socketPath(address []byte) string {
	if len(address) <= pathOffset || *(*uint16)(unsafe.Pointer(&address[0])) != unix.AF_UNIX {
		return ""
	}
	name, _, _ := strings.Cut(string(address[pathOffset:]), "\x00")
	return name
}

// openFor opens the file at a path that a thread has named. It looks the path up in that thread's
// view, so that the command's links cannot lead elsewhere. A relative path must not cross a link,
// because the link could lead to the launcher's root.
func openFor(tid int, name string) (int, error) {
	base, how := "/root", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !strings.HasPrefix(name, "/") {
		base, how.Resolve = "/cwd", unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS
	}
	dir, err := unix.Open("/proc/"+strconv.Itoa(tid)+base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return plan.Openat2(dir, name, how)
}
