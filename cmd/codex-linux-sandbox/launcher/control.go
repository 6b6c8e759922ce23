package launcher

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxControl bounds the control messages of a message: more than 253 descriptors,
	// which is the most that the kernel takes, and what the internet has besides.
	maxControl = 16 << 10
	maxRights  = 253 // SCM_MAX_FD
	headerCmsg = unix.SizeofCmsghdr
	solTLS     = 282 // SOL_TLS
	scmTxtime  = unix.SO_TXTIME
)

// control are the control messages of a message. The numbers of descriptors in them
// are the command's, and would mean others of the launcher's. So what the kernel gets
// is made anew, of what is known.
type control struct {
	rights      []int32 // numbers of the command
	credentials bool    // those that everything of the sandbox has
	other       []byte  // of the internet
}

// parseControl reads the control messages for a socket of a family, which may hold
// anything. As the kernel does, it fails with EINVAL for what it does not know.
func parseControl(family int, oob []byte) (c control, errno syscall.Errno) {
	for len(oob) >= headerCmsg {
		size := binary.NativeEndian.Uint64(oob)
		if size < headerCmsg || size > uint64(len(oob)) {
			return control{}, unix.EINVAL
		}
		level, kind := int32(binary.NativeEndian.Uint32(oob[8:])), int32(binary.NativeEndian.Uint32(oob[12:]))
		data := oob[headerCmsg:size]
		ok := true
		switch {
		case family != unix.AF_UNIX:
			if ok = ofInternet(level, kind); ok {
				c.other = appendControl(c.other, level, kind, data)
			}
		case level != unix.SOL_SOCKET:
		case kind == unix.SCM_RIGHTS:
			for ; len(data) >= 4; data = data[4:] {
				c.rights = append(c.rights, int32(binary.NativeEndian.Uint32(data)))
			}
			ok = len(c.rights) <= maxRights
		case kind == unix.SCM_CREDENTIALS:
			c.credentials = true
			if ok = len(data) == unix.SizeofUcred; ok && !ownIDs(data) {
				return control{}, unix.EPERM
			}
		default:
			ok = false
		}
		if !ok {
			return control{}, unix.EINVAL
		}
		oob = oob[min(uint64(len(oob)), (size+7)&^7):]
	}
	return c, 0
}

// ownIDs reports whether a struct ucred has the user and the group of the launcher,
// which are the command's.
func ownIDs(ucred []byte) bool {
	return binary.NativeEndian.Uint32(ucred[4:]) == uint32(os.Geteuid()) &&
		binary.NativeEndian.Uint32(ucred[8:]) == uint32(os.Getegid())
}

// ofInternet reports whether a socket of the internet may be sent a control message.
func ofInternet(level, kind int32) bool {
	switch level {
	case unix.IPPROTO_IP, unix.IPPROTO_IPV6, unix.IPPROTO_UDP, solTLS:
		return true
	case unix.SOL_SOCKET:
		return kind == unix.SO_TIMESTAMPING_OLD || kind == scmTxtime
	}
	return false
}

// appendControl appends a control message.
func appendControl(to []byte, level, kind int32, data []byte) []byte {
	to = binary.NativeEndian.AppendUint64(to, uint64(headerCmsg+len(data)))
	to = binary.NativeEndian.AppendUint32(to, uint32(level))
	to = binary.NativeEndian.AppendUint32(to, uint32(kind))
	to = append(to, data...)
	return append(to, make([]byte, -len(to)&7)...)
}

// build returns the control messages with duplicates of the descriptors of a thread,
// which done closes. The credentials are the launcher's: only a process itself can send
// its number.
func (c *control) build(thread int) (oob []byte, done func(), errno syscall.Errno) {
	var fds []byte
	done = func() {
		for ; len(fds) > 0; fds = fds[4:] {
			_ = unix.Close(int(binary.NativeEndian.Uint32(fds)))
		}
	}
	for _, number := range c.rights {
		fd, err := unix.PidfdGetfd(thread, int(number), 0)
		if err != nil {
			return nil, done, errnoOf(err)
		}
		fds = binary.NativeEndian.AppendUint32(fds, uint32(fd))
	}
	oob = append(oob, c.other...)
	if len(fds) > 0 {
		oob = appendControl(oob, unix.SOL_SOCKET, unix.SCM_RIGHTS, fds)
	}
	if c.credentials {
		var own []byte
		for _, id := range []int{os.Getpid(), os.Geteuid(), os.Getegid()} {
			own = binary.NativeEndian.AppendUint32(own, uint32(id))
		}
		oob = appendControl(oob, unix.SOL_SOCKET, unix.SCM_CREDENTIALS, own)
	}
	return oob, done, 0
}
