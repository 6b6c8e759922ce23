package process

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"codex.internal/pkg/host/warmstart"
	"golang.org/x/sys/unix"
)

// awaitEnd returns when the process has ended, without reaping it. It closes
// pidfd if that is not -1. It always reports true on Linux.
func awaitEnd(pid, pidfd int) bool {
	if pidfd >= 0 {
		waitPollable(pidfd)
	}
	// Waitid does not block after the descriptor has reported the end.
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return true
		}
	}
}

// waitPollable returns when the process has ended. If the descriptor cannot be polled, it returns
// at once. It closes the descriptor.
func waitPollable(pidfd int) {
	if unix.SetNonblock(pidfd, true) != nil {
		_ = unix.Close(pidfd)
		return
	}
	f := os.NewFile(uintptr(pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err != nil && !errors.Is(err, unix.EINTR) || n > 0
	})
}

// endedChild returns the pid of a child that can be reaped, or 0.
func endedChild() (int, error) {
	var info siginfo
	err := waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG)
	return int(info.pid), err
}

// siginfo is the part of siginfo_t that waitid sets. unix.Siginfo does not export these members.
type siginfo struct {
	signo, errno, code int32
	_                  int32 // alignment of the union on 64-bit systems
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// waitid is unix.Waitid with a siginfo whose members can be read.
func waitid(kind, id int, info *siginfo, options int) error {
	return unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(info)), options, nil)
}

// becomeSubreaper makes orphaned descendants children of this program. It
// reports whether the system supports that.
func becomeSubreaper() (bool, error) {
	return true, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// blockSize is the unit of blocks in a struct rusage, in bytes.
const blockSize = 512

func usageOf(r *syscall.Rusage) Usage {
	micros := func(t syscall.Timeval) uint64 { return uint64(t.Sec)*1e6 + uint64(t.Usec) }
	return usageOfReport(warmstart.Usage{
		User: micros(r.Utime), System: micros(r.Stime), MaxRSS: uint64(r.Maxrss), Read: uint64(r.Inblock), Written: uint64(r.Oublock),
	})
}

// usageOfReport is usageOf for the report of a standby.
func usageOfReport(u warmstart.Usage) Usage {
	read, written := u.Read*blockSize, u.Written*blockSize
	return Usage{
		User: time.Duration(u.User) * time.Microsecond, System: time.Duration(u.System) * time.Microsecond,
		MaxRSS: u.MaxRSS << 10, IORead: &read, IOWritten: &written,
	}
}
