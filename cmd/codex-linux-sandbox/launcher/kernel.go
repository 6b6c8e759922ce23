package launcher

import (
	"errors"
	"math"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"golang.org/x/sys/unix"
)

// kernelRefusal returns an error if this kernel lacks features that all backends need, or hides them because this process is in
// a sandbox of the broker.
func kernelRefusal() error {
	if inBroker() {
		return errors.New("this process is in a sandbox of the backend broker, which permits no second one: run the command without a sandbox of its own")
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return &initproc.Failure{What: "open", Path: "/", Number: unix.SYS_OPENAT2, Errno: errno}
	}
	_ = unix.Close(fd)
	return nil
}

// inBroker reports whether the filter of the broker is in force: PR_SET_DUMPABLE does nothing, and accepts a value that the kernel refuses.
func inBroker() bool {
	const notDumpableByUser = 2
	return unix.Prctl(unix.PR_SET_DUMPABLE, notDumpableByUser, 0, 0, 0) == nil
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
