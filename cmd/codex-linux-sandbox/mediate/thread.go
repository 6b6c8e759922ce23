package mediate

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// readMemory copies memory of a process.
func readMemory(pid int, address uint64, to []byte) error {
	if len(to) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(len(to))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(to)}}, 0)
	if err == nil && n < len(to) {
		err = unix.EFAULT
	}
	return err
}

// Flags that the system call library does not know yet.
const (
	pidfdThread = unix.O_EXCL // PIDFD_THREAD, since Linux 6.9
	syncWakeUp  = 1           // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
)

// descriptorOf duplicates a descriptor of a thread.
func descriptorOf(tid, number int) (int, error) {
	thread, err := openThread(tid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(thread)
	return unix.PidfdGetfd(thread, number, 0)
}

// openThread opens a pidfd of a thread. Before Linux 6.9 it opens the process of the thread.
func openThread(tid int) (int, error) {
	thread, err := unix.PidfdOpen(tid, pidfdThread)
	if err == nil {
		return thread, nil
	}
	pid, err := processOf(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

// processOf returns the process id of a thread.
func processOf(tid int) (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:\t")
	text, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(text)
}

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
