package notify

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// noVMRead is set when process_vm_readv has failed because a filter of a container forbids it. Then memory is read from /proc.
var noVMRead atomic.Bool

// ReadMemory copies memory of a thread.
func ReadMemory(tid int, address uint64, to []byte) error {
	if len(to) == 0 {
		return nil
	}
	if !noVMRead.Load() {
		local := []unix.Iovec{{Base: &to[0]}}
		local[0].SetLen(len(to))
		n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(to)}}, 0)
		if err == nil && n < len(to) {
			err = unix.EFAULT
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	if err := readMemoryFile(tid, address, to); err != nil {
		return err
	}
	noVMRead.Store(true)
	return nil
}

func readMemoryFile(tid int, address uint64, to []byte) error {
	memory, err := unix.Open("/proc/"+strconv.Itoa(tid)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	n, err := unix.Pread(memory, to, int64(address))
	if err != nil || n < len(to) {
		return unix.EFAULT
	}
	return nil
}

// pidfdThread is PIDFD_THREAD, since Linux 6.9.
const pidfdThread = unix.O_EXCL

// Descriptor duplicates a descriptor of a thread.
func Descriptor(tid, number int) (int, error) {
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
	pid, err := ProcessOf(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

// ProcessOf returns the process id of a thread.
func ProcessOf(tid int) (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:\t")
	text, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(text)
}
