package peercred

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// userOfUnix returns the user that connected.
func userOfUnix(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int(cred.Uid), nil
}

// identifyUnix admits this user and root. There are no sandboxes here.
func identifyUnix(c *net.UnixConn) (uid int, err error) {
	uid, err = userOfUnix(c)
	switch {
	case err != nil:
		return 0, refuse("its user is unknown: %v", err)
	case uid != os.Geteuid() && uid != 0:
		return 0, refuse("it belongs to user %d", uid)
	default:
		return uid, nil
	}
}
