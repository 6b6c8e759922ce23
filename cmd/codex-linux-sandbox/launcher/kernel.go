package launcher

import (
	"math"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"golang.org/x/sys/unix"
)

// kernelRefusal says what all backends need and this kernel lacks.
func kernelRefusal() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return &initproc.Failure{What: "open", Path: "/", Number: unix.SYS_OPENAT2, Errno: errno}
	}
	_ = unix.Close(fd)
	return nil
}

// bwrapRefusal says what the janitor needs and this kernel lacks: it must hold
// nothing but what it removes. The namespaces need a newer kernel anyway.
func bwrapRefusal() error {
	err := unix.CloseRange(math.MaxInt32, math.MaxInt32, 0)
	if errno, ok := err.(syscall.Errno); ok {
		return &initproc.Failure{What: "close", Path: "descriptors", Number: unix.SYS_CLOSE_RANGE, Errno: errno}
	}
	return nil
}
