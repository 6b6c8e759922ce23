package plan

import "golang.org/x/sys/unix"

// oldAttributes are the calls of attributes that only this architecture has.
var oldAttributes = []uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}

// olderBrokered are the calls that are passed to the broker and that only this architecture has.
var olderBrokered = []uint32{
	unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_SYMLINK, unix.SYS_LINK, unix.SYS_RENAME,
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}

var opens = []openCall{{unix.SYS_OPENAT, offsetArg0 + 8*2}, {unix.SYS_OPEN, offsetArg0 + 8}}

// oldOwners are the calls of owners that only this architecture has.
var oldOwners = []struct{ nr, argument uint32 }{{unix.SYS_CHOWN, 1}, {unix.SYS_LCHOWN, 1}}
