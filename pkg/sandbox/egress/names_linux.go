package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// routineNames answers DNS queries until the socket is closed. It sends each answer from the
// address of the queried server, because clients drop answers from other addresses.
func (x *Proxy) routineNames(conn *net.UDPConn) {
	query, oob := make([]byte, maxQuery), make([]byte, packetInfoSpace)
	for {
		n, size, flags, from, err := conn.ReadMsgUDPAddrPort(query, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// For example, a receiver may have refused an earlier answer.
			select {
			case <-time.After(acceptPause):
				continue
			case <-x.ctx.Done():
				return
			}
		case flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0:
			continue
		}
		if answer := x.answerNames(query[:n]); answer != nil {
			_, _, _ = conn.WriteMsgUDPAddrPort(answer, packetInfo(oob[:size]), from)
		}
	}
}

// packetInfoSpace is the size of the control data that names the address to which a
// packet was sent, for IPv4 and IPv6.
var packetInfoSpace = syscall.CmsgSpace(syscall.SizeofInet6Pktinfo) + syscall.CmsgSpace(syscall.SizeofInet4Pktinfo)

// packetInfo returns the control data that makes the kernel send an answer from the queried
// address. It returns nil if that address is unknown.
func packetInfo(oob []byte) []byte {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		level, kind, data := int(m.Header.Level), int(m.Header.Type), m.Data
		switch {
		case level == syscall.IPPROTO_IPV6 && kind == syscall.IPV6_PKTINFO && len(data) >= syscall.SizeofInet6Pktinfo:
			in := (*syscall.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
			return control(level, kind, syscall.Inet6Pktinfo{Addr: in.Addr})
		case level == syscall.IPPROTO_IP && kind == syscall.IP_PKTINFO && len(data) >= syscall.SizeofInet4Pktinfo:
			in := (*syscall.Inet4Pktinfo)(unsafe.Pointer(&data[0]))
			return control(level, kind, syscall.Inet4Pktinfo{Spec_dst: in.Addr})
		}
	}
	return nil
}

// control encodes control data.
func control[T any](level, kind int, value T) []byte {
	b := make([]byte, syscall.CmsgSpace(int(unsafe.Sizeof(value))))
	head := (*syscall.Cmsghdr)(unsafe.Pointer(&b[0]))
	head.Level, head.Type = int32(level), int32(kind)
	head.SetLen(syscall.CmsgLen(int(unsafe.Sizeof(value))))
	*(*T)(unsafe.Pointer(&b[syscall.CmsgLen(0)])) = value
	return b
}

// serveNames answers the DNS queries of a connection.
func (x *Proxy) serveNames(conn net.Conn, r *bufio.Reader) {
	query := make([]byte, maxQuery)
	for {
		_ = conn.SetDeadline(time.Now().Add(headTime))
		if _, err := io.ReadFull(r, query[:2]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(query))
		if size > maxQuery {
			return
		}
		if _, err := io.ReadFull(r, query[:size]); err != nil {
			return
		}
		answer := x.answerNames(query[:size])
		if answer == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}
