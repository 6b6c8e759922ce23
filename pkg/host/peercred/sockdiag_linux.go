package peercred

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are numbers from <linux/inet_diag.h>, <linux/unix_diag.h> and <linux/sock_diag.h>.
const (
	sockDiagByFamily = 20
	tcpEstablished   = 1
	tcpFinWait1      = 4
	tcpFinWait2      = 5
	tcpListen        = 10
	unixShowFile     = 0x2 // UDIAG_SHOW_VFS
	unixDiagFile     = 1   // UNIX_DIAG_VFS
	unixShowPeer     = 0x4 // UDIAG_SHOW_PEER
	unixDiagPeer     = 2   // UNIX_DIAG_PEER
	inetDiagTOS      = 5   // INET_DIAG_TOS
	noCookie         = ^uint32(0)
	inetRequestSize  = 56 // struct inet_diag_req_v2
	inetMessageSize  = 72 // struct inet_diag_msg
	unixRequestSize  = 24 // struct unix_diag_req
	unixMessageSize  = 16 // struct unix_diag_msg
	replySize        = 4096
	dumpSize         = 32 << 10 // the kernel makes no longer message of a dump
)

// socket is one end of a connection.
type socket struct {
	uid     uint32
	inode   uint64
	carried bool // it has the mark of Carried; the tables of /proc do not show that
}

// errNoSocket means that the connection does not exist, or no longer exists.
var errNoSocket = errors.New("the peer's socket is not on this machine, or is closed")

// findTCP returns the socket with the local address at and the peer address to. If to is not set,
// it returns the socket that listens for connections to at. It asks the kernel's socket diagnosis.
// A kernel without that module answers as if the socket did not exist, so findTCP then reads the
// tables in /proc.
func findTCP(at, to netip.AddrPort) (socket, error) {
	s, err := diagnoseTCP(at, to)
	if err == nil {
		return s, nil
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if s, err := lookUpTCP(table, at, to); err == nil {
			return s, nil
		}
	}
	return socket{}, errNoSocket
}

// diagnoseTCP asks the kernel for a connection that a process holds. The process may already have
// closed its sending direction: a client that sends its whole request and then closes that
// direction has often done so before its connection is accepted.
func diagnoseTCP(at, to netip.AddrPort) (socket, error) {
	q := make([]byte, inetRequestSize)
	q[0] = unix.AF_INET6
	if at.Addr().Is4() {
		q[0] = unix.AF_INET
	}
	q[1] = unix.IPPROTO_TCP
	q[2] = 1 << (inetDiagTOS - 1)
	binary.NativeEndian.PutUint32(q[4:], 1<<tcpEstablished)
	binary.BigEndian.PutUint16(q[8:], at.Port())
	binary.BigEndian.PutUint16(q[10:], to.Port())
	copy(q[12:28], at.Addr().AsSlice())
	if to.IsValid() {
		copy(q[28:44], to.Addr().AsSlice())
	}
	binary.NativeEndian.PutUint32(q[48:], noCookie)
	binary.NativeEndian.PutUint32(q[52:], noCookie)
	m, err := diagnose(q)
	if err != nil {
		return socket{}, err
	}
	if len(m) < inetMessageSize {
		return socket{}, errNoSocket
	}
	id := m[4:]
	isConnection := m[1] == tcpEstablished || m[1] == tcpFinWait1 || m[1] == tcpFinWait2
	// If no connection matches, the kernel returns a listening socket.
	isMeant := isConnection && address(m[0], id[4:20], binary.BigEndian.Uint16(id)) == at && address(m[0], id[20:36], binary.BigEndian.Uint16(id[2:])) == to
	if !to.IsValid() {
		isMeant = m[1] == tcpListen && binary.BigEndian.Uint16(id) == at.Port()
	}
	if !isMeant {
		return socket{}, errNoSocket
	}
	s := socket{uid: binary.NativeEndian.Uint32(m[64:]), inode: uint64(binary.NativeEndian.Uint32(m[68:]))}
	if s.inode == 0 {
		return socket{}, errNoSocket // no process holds it
	}
	tos := attribute(m[inetMessageSize:], inetDiagTOS)
	s.carried = len(tos) > 0 && tos[0] == carriedTOS
	return s, nil
}

// address converts an address from the kernel's messages to its plain form.
func address(family byte, b []byte, port uint16) netip.AddrPort {
	a := netip.AddrFrom16([16]byte(b))
	if family == unix.AF_INET {
		a = netip.AddrFrom4([4]byte(b))
	}
	return plain(netip.AddrPortFrom(a, port))
}

// peerOfUnix returns the inode of the socket at the other end of a Unix socket.
func peerOfUnix(inode uint64) (uint64, error) {
	q := make([]byte, unixRequestSize)
	q[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0))
	binary.NativeEndian.PutUint32(q[8:], uint32(inode))
	binary.NativeEndian.PutUint32(q[12:], unixShowPeer)
	binary.NativeEndian.PutUint32(q[16:], noCookie)
	binary.NativeEndian.PutUint32(q[20:], noCookie)
	m, err := diagnose(q)
	if err != nil {
		return 0, err
	}
	if peer := attribute(m[min(unixMessageSize, len(m)):], unixDiagPeer); len(peer) >= 4 {
		return uint64(binary.NativeEndian.Uint32(peer)), nil
	}
	return 0, errNoSocket
}

// UnixListeners returns the numbers of the listening Unix sockets in this program's network
// namespace whose file is selected by isFile. The kernel identifies the file by its device and the
// low 32 bits of its inode number.
func UnixListeners(isFile func(device, inode uint32) bool) (sockets []uint64, err error) {
	q := make([]byte, unixRequestSize)
	q[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(q[4:], 1<<tcpListen)
	binary.NativeEndian.PutUint32(q[12:], unixShowFile)
	fd, err := ask(q, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for b := make([]byte, dumpSize); ; {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the socket diagnosis: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			return nil, fmt.Errorf("read the socket diagnosis: %w", err)
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return sockets, nil
			case m.Header.Type != sockDiagByFamily || len(m.Data) < unixMessageSize:
				return nil, errors.New("the kernel does not list Unix sockets")
			}
			file := attribute(m.Data[unixMessageSize:], unixDiagFile)
			if len(file) >= 8 && isFile(binary.NativeEndian.Uint32(file[4:]), binary.NativeEndian.Uint32(file)) {
				sockets = append(sockets, uint64(binary.NativeEndian.Uint32(m.Data[4:])))
			}
		}
	}
}

// attribute returns the value of an attribute in a list that follows a message, or nil.
func attribute(list []byte, kind uint16) []byte {
	const header = 4
	for len(list) >= header {
		size := int(binary.NativeEndian.Uint16(list))
		if size < header || size > len(list) {
			break
		}
		if binary.NativeEndian.Uint16(list[2:]) == kind {
			return list[header:size]
		}
		list = list[min((size+3)&^3, len(list)):]
	}
	return nil
}

// diagnose sends a request of the socket diagnosis and returns the answer after its netlink header.
func diagnose(request []byte) ([]byte, error) {
	fd, err := ask(request, unix.NLM_F_REQUEST)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, replySize)
	// The kernel has already answered during the call above, so do not wait.
	n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("read the socket diagnosis: %w", err)
	}
	b = b[:n]
	if len(b) < unix.NLMSG_HDRLEN {
		return nil, errNoSocket
	}
	size := int(binary.NativeEndian.Uint32(b))
	if binary.NativeEndian.Uint16(b[4:]) != sockDiagByFamily || size > len(b) || size < unix.NLMSG_HDRLEN {
		return nil, errNoSocket
	}
	return b[unix.NLMSG_HDRLEN:size], nil
}

// ask sends a request of the socket diagnosis over a new socket, from which the caller can then
// read the answer.
func ask(request []byte, flags uint16) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, fmt.Errorf("open a socket for the socket diagnosis: %w", err)
	}
	q := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	binary.NativeEndian.PutUint32(q, uint32(unix.NLMSG_HDRLEN+len(request)))
	binary.NativeEndian.PutUint16(q[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(q[6:], flags)
	if err := unix.Sendto(fd, append(q, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("ask the socket diagnosis: %w", err)
	}
	return fd, nil
}

// lookUpTCP finds an established connection, or a listening socket, in a table of /proc/net.
func lookUpTCP(path string, at, to netip.AddrPort) (socket, error) {
	f, err := os.Open(path)
	if err != nil {
		return socket{}, err
	}
	defer f.Close()
	table, err := io.ReadAll(io.LimitReader(f, maxTable))
	if err != nil {
		return socket{}, err
	}
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) < 10 {
			continue
		}
		local := tableAddress(fields[1])
		isMeant := string(fields[3]) == "01" && local == at && tableAddress(fields[2]) == to
		if !to.IsValid() {
			isMeant = string(fields[3]) == "0A" && local.Port() == at.Port() && (local == at || local.Addr().IsUnspecified())
		}
		if !isMeant {
			continue
		}
		uid, err := strconv.ParseUint(string(fields[7]), 10, 32)
		if err != nil {
			return socket{}, err
		}
		inode, err := strconv.ParseUint(string(fields[9]), 10, 64)
		if err != nil || inode == 0 {
			return socket{}, errNoSocket
		}
		return socket{uid: uint32(uid), inode: inode}, nil
	}
	return socket{}, errNoSocket
}

// tableAddress parses an address such as 0100007F:1F90: words of 32 bits in the
// byte order of the machine.
func tableAddress(text []byte) netip.AddrPort {
	host, port, _ := bytes.Cut(text, []byte(":"))
	b := make([]byte, hex.DecodedLen(len(host)))
	if _, err := hex.Decode(b, host); err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	p, err := strconv.ParseUint(string(port), 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}
	}
	return plain(netip.AddrPortFrom(a, uint16(p)))
}
