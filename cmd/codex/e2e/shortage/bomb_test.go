package shortage

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bombPause is the time for which a process of the bomb waits if it could not start another one. A hundred of
// them still take each free slot at once, and the pause leaves processor time for other tests.
const bombPause = 100 * time.Millisecond

// bomb is the main function of a fork bomb. Its first process waits for the end of its standard input.
// The others start as many processes as they can. They stop only when the other end of their standard
// input is closed, which means that the server has ended.
func bomb() {
	runtime.LockOSThread()
	var limit syscall.Rlimit
	if syscall.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(unix.RLIMIT_NPROC, &limit)
	}
	if pid, _ := bombFork(); pid == 0 {
		bombLoop()
	}
	var b [1]byte
	for {
		if n, err := syscall.Read(0, b[:]); n <= 0 && err != syscall.EINTR {
			syscall.Exit(0)
		}
	}
}

// forkOnce forks and ends, with an error if it cannot fork.
func forkOnce() {
	switch pid, errno := bombFork(); {
	case errno != 0:
		syscall.Exit(1)
	case pid == 0:
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	syscall.Exit(0)
}

// bombLoop never returns. It must not use the Go runtime, because a forked process has only one of the runtime's threads.
//
//go:nosplit
//go:norace
func bombLoop() {
	input := unix.PollFd{Fd: 0}
	for {
		pause := unix.Timespec{}
		if _, errno := bombFork(); errno != 0 {
			pause.Nsec = int64(bombPause)
		}
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&input)), 1, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
		if input.Revents != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// bombFork is fork: it returns 0 in the new process.
//
//go:nosplit
//go:norace
func bombFork() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}
