package notify

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestAnsweringThreadIsWokenSynchronously: the kernel takes the flag. It once got a pointer, and refused it.
func TestAnsweringThreadIsWokenSynchronously(t *testing.T) {
	listener := make(chan int)
	done := make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with its filter
		listener <- install(t)
		<-done
	}()
	fd := <-listener
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, 0); err != nil {
		t.Skipf("the kernel has no flags of a listener (Linux 6.6): %v", err)
	}
	if err := Listener(fd).WakeSynchronously(); err != nil {
		t.Errorf("set the flag: got %v, want success", err)
	}
}

// install installs a filter that stops no call in this thread, and returns its listener.
func install(t *testing.T) int {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Error(err)
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: 1, Filter: &allow})))
	if errno != 0 {
		t.Errorf("install a filter: %v", errno)
	}
	return int(fd)
}
