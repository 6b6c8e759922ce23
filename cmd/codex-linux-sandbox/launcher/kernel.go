package launcher

import (
	"math"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"golang.org/x/sys/unix"
)

// kernelRefusal returns an error if this kernel lacks features that all backends need.
func kernelRefusal() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return &initproc.Failure{What: "open", Path: "/", Number: unix.SYS_OPENAT2, Errno: errno}
	}
	_ = unix.Close(fd)
	return nil
}

// bwrapRefusal returns an error if this kernel lacks close_range. The janitor needs close_range to
// close all descriptors that it does not use. The namespaces backend needs a newer kernel anyway.
func bwrapRefusal() error {
	err := unix.CloseRange(math.MaxInt32, math.MaxInt32, 0)
	if errno, ok := err.(syscall.Errno); ok {
		return &initproc.Failure{What: "close", Path: "descriptors", Number: unix.SYS_CLOSE_RANGE, Errno: errno}
	}
	return nil
}
