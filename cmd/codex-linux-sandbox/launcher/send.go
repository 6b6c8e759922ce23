package launcher

import (
	"encoding/binary"
	"math"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Once a sandbox has a Unix socket for datagrams, the launcher makes each call that
// sends with an address, or can do so: sendto, sendmsg and sendmmsg (docs/spec/network.md
// §2.1). As for a connection, nothing that the command can change counts: the launcher
// sends its copy of the message, from its duplicate of the socket, to the very file that
// it has checked.

const (
	maxVectors = 1024 // UIO_MAXIOV of the kernel, also for the messages of sendmmsg
	// maxDatagram is more than twice what a socket takes by default. Each thread that
	// sends may hold so much, at most maxConnecting times.
	maxDatagram = 1 << 20
	// sendChunk is how much of a stream is copied at a time.
	sendChunk = 64 << 10
	// maxTotal is MAX_RW_COUNT of the kernel, which sends no more in one call.
	maxTotal = 0x7ffff000
	// A call that waits looks again after firstPause, and at last after maxPause,
	// where the kernel does not tell that there is room.
	firstPause, maxPause = time.Millisecond, 16 * time.Millisecond
	headerSize           = 56 // of struct msghdr
	messageSize          = 64 // of struct mmsghdr: the sent length behind struct msghdr
)

// sender makes one call. Its descriptors belong to the thread that waits for the call.
type sender struct {
	c            *connector
	n            *notification
	thread       int
	memory       int
	socket       int
	family, kind int
	flags        uint32
	waits        bool      // if there is no room
	until        time.Time // zero: without end
}

// send makes a call, and returns its result.
func (c *connector) send(n *notification) (int64, syscall.Errno) {
	s := &sender{c: c, n: n, thread: -1, memory: -1, socket: -1}
	defer s.close()
	if err := s.open(); err != nil {
		return 0, errnoOf(err)
	}
	if errno := s.prepare(); errno != 0 {
		return 0, errno
	}
	sent, errno := s.call()
	if errno == unix.EPIPE && s.kind == unix.SOCK_STREAM && s.flags&unix.MSG_NOSIGNAL == 0 {
		_ = unix.PidfdSendSignal(s.thread, unix.SIGPIPE, nil, 0)
	}
	return sent, errno
}

// open opens what the call is about.
func (s *sender) open() (err error) {
	tid := int(s.n.pid)
	if s.thread, err = openThread(tid); err != nil {
		return err
	}
	if s.socket, err = unix.PidfdGetfd(s.thread, int(int32(s.n.args[0])), 0); err != nil {
		return err
	}
	if s.memory, err = unix.Open("/proc/"+strconv.Itoa(tid)+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if s.family, err = unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
		return err
	}
	if s.kind, err = unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return err
	}
	return s.valid()
}

// valid returns an error unless the thread still waits for its call, and so has its
// number since the call began.
func (s *sender) valid() error {
	if errno := ioctl(s.c.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, &s.n.id); errno != 0 {
		return errno
	}
	return nil
}

func (s *sender) close() {
	for _, fd := range []int{s.thread, s.memory, s.socket} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// prepare finds out how the call sends.
func (s *sender) prepare() syscall.Errno {
	switch s.family {
	case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6:
	default:
		return unix.EPERM // somebody has handed it to the command
	}
	s.flags = uint32(s.n.args[3])
	if s.n.number == unix.SYS_SENDMSG {
		s.flags = uint32(s.n.args[2])
	}
	if s.flags&msgCompat != 0 {
		return unix.EINVAL
	}
	if s.flags&unix.MSG_ZEROCOPY != 0 {
		if on, _ := unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_ZEROCOPY); on != 0 {
			return unix.ENOBUFS // the kernel says so, too, when it cannot do it
		}
		s.flags &^= unix.MSG_ZEROCOPY
	}
	mode, err := unix.FcntlInt(uintptr(s.socket), unix.F_GETFL, 0)
	s.waits = err == nil && mode&unix.O_NONBLOCK == 0 && s.flags&unix.MSG_DONTWAIT == 0
	if limit, err := unix.GetsockoptTimeval(s.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO); err == nil && limit.Nano() > 0 {
		s.until = time.Now().Add(time.Duration(limit.Nano()))
	}
	return 0
}

// msgCompat is MSG_CMSG_COMPAT, which only the kernel may set.
const msgCompat = 1 << 31

// message is what is sent.
type message struct {
	address []byte
	file    int // that the address leads to; -1: none
	vectors []vector
	total   uint64
	control control
}

// vector is struct iovec of the command.
type vector struct{ base, size uint64 }

// call makes the call of its number.
func (s *sender) call() (int64, syscall.Errno) {
	a := s.n.args
	switch s.n.number {
	case unix.SYS_SENDTO:
		if int32(a[5]) < 0 || int32(a[5]) > maxAddress {
			return 0, unix.EINVAL
		}
		m := &message{file: -1, vectors: []vector{{a[1], min(a[2], maxTotal)}}, total: min(a[2], maxTotal)}
		return s.deliver(m, a[4], uint64(uint32(a[5])))
	case unix.SYS_SENDMSG:
		return s.sendHeader(a[1])
	}
	var done int64
	for ; done < int64(min(uint32(a[2]), maxVectors)); done++ {
		at := a[1] + uint64(done)*messageSize
		sent, errno := s.sendHeader(at)
		if errno == 0 {
			errno = s.store(at+headerSize, uint32(sent))
		}
		if errno != 0 && done == 0 {
			return 0, errno
		}
		if errno != 0 {
			break
		}
	}
	return done, 0
}

// sendHeader sends what a struct msghdr of the command says.
func (s *sender) sendHeader(at uint64) (int64, syscall.Errno) {
	raw := make([]byte, headerSize)
	if errno := s.read(at, raw); errno != 0 {
		return 0, errno
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(raw[8*i:]) }
	size := int32(binary.NativeEndian.Uint32(raw[8:]))
	switch {
	case size < 0:
		return 0, unix.EINVAL
	case word(3) > maxVectors:
		return 0, unix.EMSGSIZE
	case word(5) > maxControl:
		return 0, unix.ENOBUFS
	}
	m := &message{file: -1}
	list := make([]byte, 16*word(3))
	if errno := s.read(word(2), list); errno != 0 {
		return 0, errno
	}
	for ; len(list) > 0; list = list[16:] {
		v := vector{binary.NativeEndian.Uint64(list), binary.NativeEndian.Uint64(list[8:])}
		if v.size > math.MaxInt64 {
			return 0, unix.EINVAL
		}
		v.size = min(v.size, maxTotal-m.total)
		m.total += v.size
		m.vectors = append(m.vectors, v)
	}
	oob := make([]byte, word(5))
	if errno := s.read(word(4), oob); errno != 0 {
		return 0, errno
	}
	var errno syscall.Errno
	if m.control, errno = parseControl(s.family, oob); errno != 0 {
		return 0, errno
	}
	return s.deliver(m, word(0), min(uint64(size), maxAddress))
}

// deliver sends a message to the address that is in the memory of the command.
func (s *sender) deliver(m *message, at, size uint64) (int64, syscall.Errno) {
	if at != 0 && size > 0 {
		m.address = make([]byte, size)
		if errno := s.read(at, m.address); errno != 0 {
			return 0, errno
		}
	}
	defer func() {
		if m.file >= 0 {
			_ = unix.Close(m.file)
		}
	}()
	if s.family == unix.AF_UNIX {
		if err := s.direct(m); err != nil {
			return 0, errnoOf(err)
		}
	}
	if s.kind == unix.SOCK_STREAM {
		return s.stream(m)
	}
	room, err := unix.GetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil || m.total > min(uint64(room), maxDatagram) {
		return 0, unix.EMSGSIZE
	}
	text := make([]byte, m.total)
	if errno := s.gather(m.vectors, text); errno != 0 {
		return 0, errno
	}
	n, errno := s.put(m, text, s.flags)
	return int64(n), errno
}

// direct has a message of a Unix socket go to what its address leads to now, if it
// may. Only datagrams have an address: for others it is nothing, or an error.
func (s *sender) direct(m *message) error {
	switch {
	case len(m.address) == 0:
		return nil
	case s.kind == unix.SOCK_SEQPACKET:
		m.address = nil
		return nil
	case s.kind != unix.SOCK_DGRAM:
		// The kernel looks at nothing else then, and says what is wrong.
		m.address, m.vectors, m.total = m.address[:min(len(m.address), pathOffset)], nil, 0
		return nil
	case len(m.address) > unix.SizeofSockaddrUnix:
		return unix.EINVAL
	}
	if err := s.c.ownNetwork(s.socket); err != nil {
		return err // abstract names are those of its network
	}
	name := socketPath(m.address)
	if name == "" {
		return nil
	}
	tid := int(s.n.pid)
	var err error
	if m.file, err = openFor(tid, name); err != nil {
		return err
	}
	if err := s.valid(); err != nil {
		return err
	}
	if err := s.c.check(tid, m.file, s.kind); err != nil {
		return err
	}
	m.address = addressOf(m.file)
	return nil
}

// stream sends a message piece by piece, as long as the socket takes it.
func (s *sender) stream(m *message) (sent int64, errno syscall.Errno) {
	buf := make([]byte, min(m.total, sendChunk))
	left, vectors := m.total, m.vectors
	for {
		text := buf[:min(left, sendChunk)]
		errno = s.gather(vectors, text)
		flags := s.flags
		if left > sendChunk {
			flags &^= unix.MSG_OOB // it is about the last byte
		}
		n := 0
		if errno == 0 {
			n, errno = s.put(m, text, flags)
		}
		if errno != 0 && sent > 0 {
			return sent, 0
		}
		if errno != 0 {
			return 0, errno
		}
		sent += int64(n)
		if left -= uint64(n); left == 0 {
			return sent, 0
		}
		m.control = control{} // it has gone with the first piece
		vectors = skip(vectors, uint64(n))
	}
}

// skip returns vectors without their first bytes.
func skip(vectors []vector, n uint64) []vector {
	for len(vectors) > 0 && vectors[0].size <= n {
		n -= vectors[0].size
		vectors = vectors[1:]
	}
	if len(vectors) == 0 {
		return nil
	}
	first := vector{vectors[0].base + n, vectors[0].size - n}
	return append([]vector{first}, vectors[1:]...)
}

// put sends a text, and waits for room if the call does.
func (s *sender) put(m *message, text []byte, flags uint32) (int, syscall.Errno) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		n, errno := s.attempt(m, text, flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EAGAIN || !s.waits || !s.until.IsZero() && time.Now().After(s.until) {
			return n, errno
		}
		// The thread ends, or the socket has room. If it has room already, or a
		// datagram goes elsewhere than to its peer, nothing tells.
		events := []unix.PollFd{{Fd: int32(s.thread), Events: unix.POLLIN}, {Fd: int32(s.socket), Events: unix.POLLOUT}}
		if ready, _ := unix.Poll(events[1:], 0); ready != 0 || len(m.address) > 0 {
			events = events[:1]
		}
		_, _ = unix.Poll(events, int(pause.Milliseconds()))
		if err := s.valid(); err != nil {
			return 0, errnoOf(err)
		}
	}
}

// attempt sends a text once, without waiting.
func (s *sender) attempt(m *message, text []byte, flags uint32) (int, syscall.Errno) {
	if len(m.control.rights) > 0 {
		s.c.passing.Lock()
		defer s.c.passing.Unlock()
	}
	oob, done, errno := m.control.build(s.thread)
	defer done()
	if errno != 0 {
		return 0, errno
	}
	h := unix.Msghdr{Name: unsafe.SliceData(m.address), Namelen: uint32(len(m.address)), Control: unsafe.SliceData(oob)}
	iov := unix.Iovec{Base: unsafe.SliceData(text)}
	iov.SetLen(len(text))
	h.Iov = &iov
	h.SetIovlen(1)
	h.SetControllen(len(oob))
	for {
		n, _, errno := syscall.Syscall(unix.SYS_SENDMSG, uintptr(s.socket), uintptr(unsafe.Pointer(&h)), uintptr(flags))
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// gather copies the beginning of what vectors say.
func (s *sender) gather(vectors []vector, to []byte) syscall.Errno {
	for _, v := range vectors {
		n := min(v.size, uint64(len(to)))
		if errno := s.read(v.base, to[:n]); errno != 0 {
			return errno
		}
		to = to[n:]
	}
	return 0
}

// read copies memory of the command.
func (s *sender) read(at uint64, to []byte) syscall.Errno {
	for len(to) > 0 {
		n, err := unix.Pread(s.memory, to, int64(at))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return unix.EFAULT
		}
		at, to = at+uint64(n), to[n:]
	}
	return 0
}

// store changes a word in the memory of the command.
func (s *sender) store(at uint64, value uint32) syscall.Errno {
	n, err := unix.Pwrite(s.memory, binary.NativeEndian.AppendUint32(nil, value), int64(at))
	if err != nil || n != 4 {
		return unix.EFAULT
	}
	return 0
}
