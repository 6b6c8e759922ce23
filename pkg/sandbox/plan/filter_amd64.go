package plan

import "golang.org/x/sys/unix"

// oldAttributes are the calls of attributes that only this architecture has.
var oldAttributes = []uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}
