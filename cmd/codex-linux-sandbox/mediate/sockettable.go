package mediate

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's sock_diag messages about Unix sockets (linux/unix_diag.h).
const (
	showFile      = 2       // UDIAG_SHOW_VFS
	fileAttribute = 1       // UNIX_DIAG_VFS
	listening     = 1 << 10 // TCP_LISTEN
	fileSize      = 8       // of struct unix_diag_vfs
)

// tableBuffer is the size of the longest message of a dump that the kernel sends.
const tableBuffer = 32 << 10

// tableRequest is a request for a dump: struct nlmsghdr and struct unix_diag_req.
type tableRequest struct {
	header   unix.NlMsghdr
	family   uint8
	protocol uint8
	_        uint16
	states   uint32
	inode    uint32
	show     uint32
	cookie   [2]uint32
}

// ownNetwork returns an error if a socket does not belong to the sandbox's network. A process
// outside can pass such a socket to the command, and its connections would lead outside.
func (c *Connector) ownNetwork(socket int) error {
	own, err := networkOf(c.table)
	if err != nil {
		return err
	}
	if of, err := networkOf(socket); err != nil || of != own {
		return unix.EPERM
	}
	return nil
}

// networkOf returns the kernel's cookie of a socket's network namespace.
func networkOf(socket int) (uint64, error) {
	return unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// socketFile identifies the file of a Unix socket in the same way as the kernel's table.
type socketFile struct{ inode, device uint32 }

// check returns an error unless a file belongs to a listening socket in the
// sandbox's network. The table has only 32 bits of an inode number, so no socket of
// the launcher's own network may have the same bits.
func (c *Connector) check(tid, file int) error {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return unix.ECONNREFUSED
	}
	// Check with the rights of the command, and not of the launcher.
	if err := unix.Faccessat2(file, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS); err != nil {
		return err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	device := tableDevice(unix.Major(st.Dev), unix.Minor(st.Dev))
	own, err := c.isOwn(socketFile{uint32(st.Ino), device})
	if err != nil || own {
		return err
	}
	mounted, err := deviceOf(tid, file)
	if err == nil && mounted != device {
		own, err = c.isOwn(socketFile{uint32(st.Ino), mounted})
	}
	if err == nil && !own {
		err = unix.ECONNREFUSED
	}
	return err
}

// tableDevice encodes a device number as in the kernel's tables.
func tableDevice(major, minor uint32) uint32 { return major<<20 | minor }

// isOwn reports whether a file belongs to a listening socket in the sandbox's network. It returns
// an error if it belongs to one in the launcher's network.
func (c *Connector) isOwn(file socketFile) (bool, error) {
	if c.host < 0 {
		host, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
		if err != nil {
			return false, err
		}
		c.host = host
	}
	found, err := inTable(c.host, file)
	if err == nil && found {
		err = unix.EPERM
	}
	if err != nil {
		return false, err
	}
	return inTable(c.table, file)
}

// deviceOf returns the device of a file, from the list of mounts that the thread sees. For Btrfs
// and overlayfs, stat returns another device, which is in no table.
func deviceOf(tid, file int) (uint32, error) {
	info, err := os.ReadFile("/proc/thread-self/fdinfo/" + strconv.Itoa(file))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(info, []byte("mnt_id:\t"))
	id, _, _ := bytes.Cut(rest, []byte("\n"))
	mounts, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/mountinfo")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(mounts) {
		fields := bytes.Fields(line)
		var major, minor uint32
		if len(fields) < 3 || !bytes.Equal(fields[0], id) {
			continue
		}
		if n, _ := fmt.Sscanf(string(fields[2]), "%d:%d", &major, &minor); n == 2 {
			return tableDevice(major, minor), nil
		}
	}
	return 0, unix.ECONNREFUSED
}

// inTable reports whether a file belongs to a listening Unix socket in the network
// of the querying socket. Sockets that a listener has accepted have the same file,
// but do not listen.
func inTable(table int, want socketFile) (found bool, err error) {
	request := tableRequest{family: unix.AF_UNIX, states: listening, show: showFile}
	request.header = unix.NlMsghdr{Len: uint32(unsafe.Sizeof(request)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if err := unix.Sendto(table, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	buf := make([]byte, tableBuffer)
	for {
		n, _, err := unix.Recvfrom(table, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return false, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return found, nil
			case unix.NLMSG_ERROR:
				return false, unix.EPERM
			}
			found = found || hasFile(m.Data, want)
		}
	}
}

// hasFile reports whether an entry of the table, which is a struct unix_diag_msg followed by
// attributes, has this file.
func hasFile(entry []byte, want socketFile) bool {
	const header = 16
	if len(entry) < header {
		return false
	}
	for rest := entry[header:]; len(rest) >= unix.SizeofRtAttr; {
		a := (*unix.RtAttr)(unsafe.Pointer(&rest[0]))
		size := int(a.Len)
		if size < unix.SizeofRtAttr || size > len(rest) {
			return false
		}
		if a.Type == fileAttribute && size >= unix.SizeofRtAttr+fileSize {
			return *(*socketFile)(unsafe.Pointer(&rest[unix.SizeofRtAttr])) == want
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return false
}
