package notify

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Listener is the descriptor of a filter that reports stopped calls. Several threads may use it.
type Listener int

// Call is a stopped call: struct seccomp_notif, with space for the additions of newer kernels.
type Call struct {
	ID     uint64
	TID    uint32 // the thread that waits
	_      uint32
	Number int32    // of the system call, in struct seccomp_data
	_      [12]byte // the architecture and the instruction pointer
	Args   [6]uint64
	_      [176]byte
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id     uint64
	result int64 // the result of a call that succeeds
	errno  int32
	flags  uint32
}

// descriptorFor is struct seccomp_notif_addfd.
type descriptorFor struct {
	id        uint64
	_         uint32 // flags
	source    uint32
	_         uint32 // the number that the caller's descriptor must get
	fileFlags uint32
}

func ioctl[T any](l Listener, request uint, to *T) (int, syscall.Errno) {
	result, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(l), uintptr(request), uintptr(unsafe.Pointer(to)))
	return int(result), errno
}

// Receive waits for the next call. It returns ENOENT if a call has ended before it was received, and since Linux 6.11 ENOTCONN
// if no process with the filter is left.
func (l Listener) Receive() (*Call, syscall.Errno) {
	c := &Call{} // the kernel wants zeros
	_, errno := ioctl(l, unix.SECCOMP_IOCTL_NOTIF_RECV, c)
	return c, errno
}

// Reply ends a call. errno 0 means that it succeeds with the result.
func (l Listener) Reply(c *Call, result int, errno syscall.Errno) {
	_, _ = ioctl(l, unix.SECCOMP_IOCTL_NOTIF_SEND, &answer{id: c.ID, result: int64(result), errno: -int32(errno)})
}

// flagContinue is SECCOMP_USER_NOTIF_FLAG_CONTINUE.
const flagContinue = 1

// Continue lets the kernel make a call. It reads all arguments again, and the command may have changed memory meanwhile: so this is
// only for calls that are harmless with any arguments.
func (l Listener) Continue(c *Call) {
	_, _ = ioctl(l, unix.SECCOMP_IOCTL_NOTIF_SEND, &answer{id: c.ID, flags: flagContinue})
}

// Valid returns an error unless the thread of a call still waits for it. While it waits, no other
// thread can have had its id since the call began.
func (l Listener) Valid(c *Call) error {
	if _, errno := ioctl(l, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, &c.ID); errno != 0 {
		return errno
	}
	return nil
}

// Give duplicates a descriptor into the process whose call waits, and returns its number
// there. fileFlags may be O_CLOEXEC. Then the call must be ended with this number. No signal but a deadly one interrupts the caller
// meanwhile (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).
func (l Listener) Give(c *Call, fd, fileFlags int) (int, syscall.Errno) {
	return ioctl(l, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &descriptorFor{id: c.ID, source: uint32(fd), fileFlags: uint32(fileFlags)})
}

// syncWakeUp is SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP.
const syncWakeUp = 1

// WakeSynchronously makes the kernel run the answering thread on the processor of the thread that has made the call: a
// stopped call then takes 18 µs in place of 77. It returns EINVAL before Linux 6.6.
func (l Listener) WakeSynchronously() error {
	return unix.IoctlSetInt(int(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, syncWakeUp) // the value, and no pointer to it
}
