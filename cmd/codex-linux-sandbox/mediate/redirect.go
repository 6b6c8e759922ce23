package mediate

import (
	"encoding/binary"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/transparent"
	"golang.org/x/sys/unix"
)

// This file lets programs that do not use a proxy reach the hosts of a command's network proxy, too
// (docs/spec/network.md §5).
//
// In the command's network two routes make every address local. The filter stops each connect, as for a command's
// own sockets. The launcher then connects the socket to a listener in this network, accepts the connection, and
// passes the accepted end to the server, with the address that the command has named. It also passes a socket
// that receives all DNS queries. The server answers and decides. The launcher itself connects to nothing outside.
//
// The alternative was a listener for each usual port, without the filter. Then the command could not listen on
// these ports itself, and connections to other ports would fail. Another alternative, rules of netfilter, needs
// kernel modules that may be missing.

const (
	// listenBacklog is the backlog of the listener.
	listenBacklog = 128
	// capturePort is the port of the listener, and namesPort that of the DNS socket. The command
	// may not listen below 1024, so its own ports cannot conflict.
	capturePort = 1
	namesPort   = 53
	// acceptTime bounds how long the launcher waits for its own connection within one network,
	// which takes microseconds. It checks again every acceptStep, because another thread may have
	// accepted the connection.
	acceptTime = 2 * time.Second
	acceptStep = 5 * time.Millisecond
	// maxArrived bounds the accepted connections that no thread has claimed yet, and arrivedTime
	// how long each is kept. Threads wait for at most maxConnecting of them.
	maxArrived  = 2 * maxConnecting
	arrivedTime = 10 * time.Second
)

// Redirect passes the connections of a network to the server.
type Redirect struct {
	server int    // a socket to the server, for the accepted ends
	Fixed  [3]int // descriptor numbers of the sockets inside: the listener, the DNS socket and the source; -1: closed

	listener int

	opening   sync.Mutex
	source    int                               // a socket of the network, never bound, that the launcher makes others with
	entrances map[transparent.Message]*entrance // by the address that the command has named; at most maxEntrances

	mu      sync.Mutex
	arrived []arrival // at most maxArrived, the newest last
}

// arrival is an accepted connection of the listener.
type arrival struct {
	ends [2]transparent.Message // the addresses of the other end and of this one
	fd   int
	at   time.Time
}

// NewRedirect reserves the descriptor numbers of the sockets. server is a socket to the server.
func NewRedirect(server int) (*Redirect, error) {
	r := &Redirect{server: server, Fixed: [3]int{-1, -1, -1}, entrances: map[transparent.Message]*entrance{}}
	for i := range r.Fixed {
		fd, err := unix.FcntlInt(uintptr(server), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			r.Release()
			return nil, err
		}
		r.Fixed[i] = fd
	}
	return r, nil
}

// Release closes the reserved numbers. It may be called more than once.
func (r *Redirect) Release() {
	for i, fd := range r.Fixed {
		if fd >= 0 {
			_ = unix.Close(fd)
			r.Fixed[i] = -1
		}
	}
}

// Catch appends steps that make every address local, and create the sockets that receive the
// connections and data sent there. Without IPv6 they are IPv4 sockets.
func (r *Redirect) Catch(p *initproc.Program) {
	catchAll(p, unix.AF_INET)
	catchAll(p, unix.AF_INET6)
	p.Either(func() { r.listen(p, unix.AF_INET6) }, func() { r.listen(p, unix.AF_INET) })
}

// listen appends steps that create the sockets of a family. IPv6 sockets also accept IPv4.
func (r *Redirect) listen(p *initproc.Program, family int) {
	zero, one := int32(0), int32(1)
	on := func(fd initproc.Register, level, option int, value *int32) {
		p.Do("set an option of", "the listener", unix.SYS_SETSOCKOPT, fd.Arg(), initproc.Val(level), initproc.Val(option), initproc.Pointer(p, value), initproc.Val(4))
	}
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if family == unix.AF_INET6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	const stream = unix.SOCK_STREAM | unix.SOCK_NONBLOCK
	for i, kind := range [len(r.Fixed)]int{stream, unix.SOCK_DGRAM, stream} {
		fd := p.Get("make a socket", "", unix.SYS_SOCKET, initproc.Val(family), initproc.Val(kind|unix.SOCK_CLOEXEC), initproc.Val(0))
		keep := func() {
			p.Do("keep the socket", "", unix.SYS_DUP3, fd.Arg(), initproc.Val(r.Fixed[i]), initproc.Val(unix.O_CLOEXEC))
			p.Close(fd)
		}
		if i == 2 { // the source is neither bound nor listens
			keep()
			break
		}
		port := [...]uint16{capturePort, namesPort}[i]
		// This is struct sockaddr_in6 of the unspecified address. struct sockaddr_in of the
		// unspecified address has the same beginning.
		address := &unix.RawSockaddrInet6{Family: uint16(family), Port: port<<8 | port>>8}
		size := unix.SizeofSockaddrInet4
		if family == unix.AF_INET6 {
			size = unix.SizeofSockaddrInet6
			on(fd, level, unix.IPV6_V6ONLY, &zero)
		}
		if kind == unix.SOCK_DGRAM {
			on(fd, level, option, &one)
		}
		p.Do("bind", "the listener", unix.SYS_BIND, fd.Arg(), initproc.Pointer(p, address), initproc.Val(size))
		if kind != unix.SOCK_DGRAM {
			p.Do("listen", "", unix.SYS_LISTEN, fd.Arg(), initproc.Val(listenBacklog))
		}
		keep()
	}
}

// routeRequest is a request for a route: struct nlmsghdr, struct rtmsg and the attribute with the interface.
type routeRequest struct {
	header    unix.NlMsghdr
	route     unix.RtMsg
	attribute unix.RtAttr
	index     uint32
}

// loopbackIndex is the number of the loopback interface in every new network.
const loopbackIndex = 1

// catchAll appends steps that make all addresses of a family local. If the route cannot be made,
// connections beyond the loopback fail as in a network without a route.
func catchAll(p *initproc.Program, family uint8) {
	rq := &routeRequest{
		route:     unix.RtMsg{Family: family, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_STATIC, Type: unix.RTN_LOCAL},
		attribute: unix.RtAttr{Len: unix.SizeofRtAttr + 4, Type: unix.RTA_OIF}, index: loopbackIndex,
	}
	if family == unix.AF_INET {
		rq.route.Scope = unix.RT_SCOPE_HOST
	}
	const flags = unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL
	size := uint32(unsafe.Sizeof(*rq))
	rq.header = unix.NlMsghdr{Len: size, Type: unix.RTM_NEWROUTE, Flags: flags}
	// The answer to a successful request consists of struct nlmsghdr and struct nlmsgerr only. The
	// answer to a failed one also contains the request. MSG_TRUNC makes the call return the whole size.
	answer := make([]byte, unix.SizeofNlMsghdr+4+unix.SizeofNlMsghdr)
	p.Try(func() {
		fd := p.Get("make a socket", "for routes", unix.SYS_SOCKET,
			initproc.Val(unix.AF_NETLINK), initproc.Val(unix.SOCK_RAW|unix.SOCK_CLOEXEC), initproc.Val(unix.NETLINK_ROUTE))
		p.Do("ask for", "a route", unix.SYS_SENDTO, fd.Arg(), initproc.Pointer(p, rq), initproc.Val(size), initproc.Val(0), initproc.Val(0), initproc.Val(0)).Full = true
		p.Do("make", "a route", unix.SYS_RECVFROM, fd.Arg(),
			initproc.Slice(p, answer), initproc.Val(len(answer)), initproc.Val(unix.MSG_TRUNC), initproc.Val(0), initproc.Val(0)).Full = true
		p.Close(fd)
	})
}

// begin takes the listener, the DNS socket and the source, and passes the DNS socket to the server. If the
// server has ended, every connection is refused.
func (r *Redirect) begin(listener, names, source int) {
	defer unix.Close(names)
	r.listener, r.source = listener, source
	_ = r.send(transparent.Message{Kind: transparent.Names}, names)
}

// send passes a descriptor to the server.
func (r *Redirect) send(m transparent.Message, fd int) error {
	return unix.Sendmsg(r.server, m.Append(nil), unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
}

// destination reads the address and the port of a struct sockaddr. ok is false if it is not an
// Internet address.
func destination(address []byte) (m transparent.Message, ok bool) {
	const inet4, inet6 = 8, 24 // the minimal sizes that the kernel accepts
	if len(address) < inet4 {
		return m, false
	}
	switch family := binary.NativeEndian.Uint16(address); {
	case family == unix.AF_INET:
		m.Address[10], m.Address[11] = 0xff, 0xff
		copy(m.Address[12:], address[4:8])
	case family == unix.AF_INET6 && len(address) >= inet6:
		copy(m.Address[:], address[8:24])
	default:
		return m, false
	}
	m.Kind, m.Port = transparent.Connection, binary.BigEndian.Uint16(address[2:])
	return m, true
}

// own reports whether an address means the sandbox itself: 127.0.0.0/8, ::1, or the unspecified
// address, which the kernel treats as one of them.
func own(address [16]byte) bool {
	mapped := [12]byte{10: 0xff, 11: 0xff}
	if [12]byte(address[:12]) == mapped {
		return address[12] == 127 || [4]byte(address[12:]) == [4]byte{}
	}
	return address == [16]byte{} || address == [16]byte{15: 1}
}

// redirected makes a connection through the server if it leads out of the sandbox. done is false if
// it does not.
func (r *Redirect) redirected(conn *connection) (errno syscall.Errno, done bool) {
	to, ok := destination(conn.address)
	if !ok {
		return 0, false
	}
	if !isTCP(conn.socket) || own(to.Address) && to.Port != capturePort && to.Port != namesPort {
		return 0, false
	}
	if own(to.Address) && to.Port == capturePort {
		return unix.ECONNREFUSED, true
	}
	if _, err := unix.Getpeername(conn.socket); err == nil {
		return 0, false // the socket is connected already; the kernel returns the error for that
	}
	return r.make(conn, to), true
}

// isTCP reports whether a socket is a TCP or Multipath TCP socket.
func isTCP(socket int) bool {
	protocol, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_MPTCP)
}

// make connects a socket to an entrance for its address and passes the accepted end to the server. Without an
// entrance it connects to the listener: then getpeername returns the address that the command has named, and
// capturePort. Several threads do this at the same time: a command can stall its own connection for minutes, for
// example with IP_MINTTL, and that must not block other connections.
func (r *Redirect) make(conn *connection, to transparent.Message) syscall.Errno {
	listener := r.listener
	r.collect(listener)
	if conn.entrance == nil {
		conn.entrance = r.enter(to)
	} else if conn.entrance.to != to {
		return unix.ECONNREFUSED // the command has changed the address while its call waited
	}
	if conn.entrance != nil {
		listener = conn.entrance.fd
	} else {
		binary.BigEndian.PutUint16(conn.address[2:], capturePort)
	}
	errno := conn.make()
	if errno != 0 && errno != unix.EINPROGRESS {
		return errno
	}
	far := r.accept(listener, conn.socket)
	if far < 0 {
		return unix.ECONNREFUSED
	}
	defer unix.Close(far)
	if r.send(to, far) != nil {
		return unix.ECONNREFUSED // the server has ended
	}
	return errno
}

// collect accepts all waiting connections of a listener, so that the backlog is not full. If no thread claims a
// connection in time, it is closed: the command has made it in a way that the filter does not stop,
// such as TCP Fast Open.
func (r *Redirect) collect(listener int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		fd, peer, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			break
		}
		name, _ := unix.Getsockname(fd) // without its address, no thread can claim it
		r.arrived = append(r.arrived, arrival{[2]transparent.Message{endpointOf(peer), endpointOf(name)}, fd, time.Now()})
		r.expire()
	}
	r.expire()
}

// expire closes accepted connections that are too old or too many.
func (r *Redirect) expire() {
	for len(r.arrived) > 0 && (len(r.arrived) > maxArrived || time.Since(r.arrived[0].at) > arrivedTime) {
		_ = unix.Close(r.arrived[0].fd)
		r.arrived = r.arrived[1:]
	}
}

// claim returns the accepted end of a socket's connection, or -1 if it has not arrived.
func (r *Redirect) claim(socket int) int {
	name, err := unix.Getsockname(socket)
	peer, unconnected := unix.Getpeername(socket)
	if err != nil || unconnected != nil {
		return -1
	}
	ends := [2]transparent.Message{endpointOf(name), endpointOf(peer)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range slices.Backward(r.arrived) { // the newest first: an older connection may have used the same addresses
		if a.ends == ends {
			r.arrived = slices.Delete(r.arrived, i, i+1)
			return a.fd
		}
	}
	return -1
}

// accept waits until a listener has accepted the connection of a socket, and returns the accepted end. It returns -1
// if it did not arrive.
func (r *Redirect) accept(listener, socket int) int {
	for deadline := time.Now().Add(acceptTime); ; {
		r.collect(listener)
		if fd := r.claim(socket); fd >= 0 || time.Now().After(deadline) {
			return fd
		}
		calls := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(calls, int(acceptStep.Milliseconds())); err != nil && err != unix.EINTR {
			return -1
		}
	}
}

// endpointOf returns an address in IPv6 form, and its port.
func endpointOf(address unix.Sockaddr) (m transparent.Message) {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		m.Address[10], m.Address[11] = 0xff, 0xff
		copy(m.Address[12:], a.Addr[:])
		m.Port = uint16(a.Port)
	case *unix.SockaddrInet6:
		m.Address, m.Port = a.Addr, uint16(a.Port)
	}
	return m
}
