package machine

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refused returns an element for the list of RefuseCalls: a system call, and the error with which
// it fails.
func Refused(nr uintptr, errno syscall.Errno) string { return fmt.Sprintf("%d=%d", nr, int(errno)) }

// RefuseCalls makes the kernel behave like an older one for this process and its children. The
// system calls in list, separated by spaces, fail. This cannot be undone.
func RefuseCalls(list string) {
	if list == "" {
		return
	}
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for pair := range strings.SplitSeq(list, " ") {
		var nr, errno uint32
		if _, err := fmt.Sscanf(pair, "%d=%d", &nr, &errno); err != nil {
			panic(err)
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		panic(errno)
	}
}
