package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the part of siginfo_t that waitid fills in. The library's type
// keeps these members to itself.
type siginfo struct {
	signo, errno, code int32
	_                  int32 // alignment of the union on 64-bit systems
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// waitid is unix.Waitid for a siginfo that can be read.
func waitid(kind, id int, info *siginfo, options int) error {
	return unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(info)), options, nil)
}
