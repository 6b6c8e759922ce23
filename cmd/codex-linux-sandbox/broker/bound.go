package broker

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's sock_diag messages about Unix sockets (linux/unix_diag.h).
const (
	showFile      = 2 // UDIAG_SHOW_VFS
	fileAttribute = 1 // UNIX_DIAG_VFS
	fileSize      = 8 // of struct unix_diag_vfs: the inode and the device
	entrySize     = 16
	// tableBuffer is more than the size of the answer for one socket.
	tableBuffer = 4 << 10
)

// socketRequest is a request for one socket: struct nlmsghdr and struct unix_diag_req.
type socketRequest struct {
	header unix.NlMsghdr
	family uint8
	_      [3]uint8
	states uint32
	socket uint32
	show   uint32
	cookie [2]uint32
}

// boundTo returns the low half of the number of the inode to which a socket is bound. It asks the kernel, and not the name: another
// sandbox of the same directory, with a broker of its own, may have exchanged the name with a socket of the host meanwhile.
func boundTo(socket int) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil {
		return 0, err
	}
	table, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(table)
	request := socketRequest{family: unix.AF_UNIX, states: ^uint32(0), socket: uint32(st.Ino), show: showFile, cookie: [2]uint32{^uint32(0), ^uint32(0)}}
	request.header = unix.NlMsghdr{Len: uint32(unsafe.Sizeof(request)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if err := unix.Sendto(table, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	buf := make([]byte, tableBuffer)
	n, _, err := unix.Recvfrom(table, buf, 0) // the kernel has put the answer there already
	if err != nil {
		return 0, err
	}
	messages, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || len(messages) == 0 || messages[0].Header.Type != unix.SOCK_DIAG_BY_FAMILY || len(messages[0].Data) < entrySize {
		return 0, unix.EPERM
	}
	for rest := messages[0].Data[entrySize:]; len(rest) >= unix.SizeofRtAttr; {
		a := (*unix.RtAttr)(unsafe.Pointer(&rest[0]))
		size := int(a.Len)
		if size < unix.SizeofRtAttr || size > len(rest) {
			return 0, unix.EPERM
		}
		if a.Type == fileAttribute && size >= unix.SizeofRtAttr+fileSize {
			return *(*uint32)(unsafe.Pointer(&rest[unix.SizeofRtAttr])), nil
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return 0, unix.EPERM
}
