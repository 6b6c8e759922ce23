package placeholders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// If a launcher is killed, it leaves placeholders and names that must not be created. A janitor
// removes them. It is a process that outlives the launcher and the process that started the
// launcher. A server has one janitor for all its sandboxes. A launcher without a connection to a
// janitor starts its own.
//
// Each sandbox has a connection, a pair of sequenced packet sockets. The launcher, and its own
// processes inside the sandbox, hold one end; the janitor has the other. Before the launcher
// creates anything, it sends what will have to be removed. When the launcher and all its copies
// have ended, their end is closed. The janitor then waits for the end of the sandbox and removes
// what is left. The janitor uses only the descriptors that it has received, looks up no path, and
// follows the same rules as the launcher (Remover).
//
// A message has at most janitorMessage bytes and at most one descriptor:
//
//	's' index temporary name  a placeholder will be created; the descriptor is its directory
//	'h' index                 the descriptor is the open placeholder: it keeps the lock if the launcher is killed
//	'n' time, sticky, digits, name   a name must not exist; the descriptor is its directory
//	'r'                       this is the last message before the command runs; the descriptor is a pidfd, and
//	                          the sandbox ends when its process ends. The janitor answers with one byte if
//	                          it has accepted all messages
//	'f'                       nothing is left to do
//
// After 'r' the janitor accepts only 'f'. From then on processes of the sandbox may try to use the
// connection, and they must not make the janitor remove anything else.

const (
	// janitorMessage bounds a message: the longest is 'n' with a name of 255 bytes.
	janitorMessage = 512
	// janitorTime is how many seconds a launcher waits for its janitor. Without a limit, a stopped
	// janitor would block it.
	janitorTime = 5
	// removalHead is the size of the part before the name in 'n'.
	removalHead = 1 + 8 + 4 + 1 + asideDigits
	// placeholderHead is the size of the same part of 's': the index and the temporary name.
	placeholderHead = 1 + 4 + 32
)

// answered is the janitor's answer, and its first message on its own socket.
var answered = []byte{1}

// JanitorPair makes a pair of sockets for a janitor, closed on exec. Sending and receiving on the
// first of them fails after janitorTime.
func JanitorPair() (ours, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, option, &unix.Timeval{Sec: janitorTime}); err != nil {
			_, _ = unix.Close(fds[0]), unix.Close(fds[1])
			return -1, -1, fmt.Errorf("limit the time of a janitor: %w", err)
		}
	}
	return fds[0], fds[1], nil
}

// AwaitJanitor waits until the janitor at the other end of own is ready.
func AwaitJanitor(own int) error { return awaitAnswer(own) }

// ConnectJanitor makes a connection for one sandbox through a janitor's own socket.
func ConnectJanitor(own int) (connection int, err error) {
	ours, theirs, err := JanitorPair()
	if err != nil {
		return -1, err
	}
	err = tell(own, answered, theirs)
	_ = unix.Close(theirs)
	if err != nil {
		_ = unix.Close(ours)
		return -1, err
	}
	return ours, nil
}

// tell sends a message with a descriptor. If fd is negative, it sends no descriptor.
func tell(socket int, message []byte, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	if err := retry(func() error { return unix.Sendmsg(socket, message, rights, nil, unix.MSG_NOSIGNAL) }); err != nil {
		return fmt.Errorf("tell the janitor: %w", err)
	}
	return nil
}

func awaitAnswer(socket int) error {
	buf := []byte{0}
	n := 0
	err := retry(func() (err error) { n, err = unix.Read(socket, buf); return err })
	if err == nil && (n != 1 || buf[0] != answered[0]) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("wait for the janitor: %w", err)
	}
	return nil
}

// JanitorOf is the launcher's end of a connection. Only one goroutine uses it.
type JanitorOf struct{ FD int }

// Placeholder announces that a placeholder will be created.
func (j JanitorOf) Placeholder(i int, s *Placeholder) error {
	m := binary.LittleEndian.AppendUint32([]byte{'s'}, uint32(i))
	return tell(j.FD, append(append(m, s.temp[:]...), s.base()...), s.parent)
}

// Hold sends the janitor a descriptor of a placeholder. Until the janitor has read it, the socket
// holds it.
func (j JanitorOf) Hold(i, fd int) error {
	return tell(j.FD, binary.LittleEndian.AppendUint32([]byte{'h'}, uint32(i)), fd)
}

// Name announces a name that must not exist.
func (j JanitorOf) Name(r *Removal) error {
	m := binary.LittleEndian.AppendUint64([]byte{'n'}, uint64(r.since.Sec))
	m = binary.LittleEndian.AppendUint32(m, r.since.Nsec)
	sticky := byte(0)
	if r.sticky {
		sticky = 1
	}
	m = append(append(m, sticky), r.aside[len(asidePrefix):len(asidePrefix)+asideDigits]...)
	return tell(j.FD, append(m, unix.ByteSliceToString(r.name[:])...), r.dir)
}

// Run announces that there are no more messages before the command runs. When the process init
// ends, all processes in the sandbox have ended.
func (j JanitorOf) Run(init int) error {
	fd, err := unix.PidfdOpen(init, 0)
	if err != nil {
		fd = -1 // before Linux 5.3: the end of the connection must suffice
	}
	err = tell(j.FD, []byte{'r'}, fd)
	if fd >= 0 {
		_ = unix.Close(fd)
	}
	return err
}

// Await waits, after Run, until the janitor has received everything. The command must not run
// before that.
func (j JanitorOf) Await() error { return awaitAnswer(j.FD) }

// Forget announces that nothing is left to be removed.
func (j JanitorOf) Forget() { _ = tell(j.FD, []byte{'f'}, -1) }

// RunJanitor is the main function of a janitor. It accepts connections from own until the other end
// of own is closed. It returns when the last connection has ended.
func RunJanitor(own int) error {
	if err := tell(own, answered, -1); err != nil {
		return err
	}
	var sandboxes sync.WaitGroup
	defer sandboxes.Wait()
	for {
		n, fd, err := receive(own, make([]byte, 1))
		switch {
		case errors.Is(err, errTruncated):
			// Too many files are open to receive the connection's descriptor. The launcher notices
			// that its connection is closed.
		case err != nil || n == 0:
			return nil
		case fd >= 0:
			sandboxes.Go(func() { serveLauncher(fd) })
		}
	}
}

var errTruncated = errors.New("the message is longer than expected, or its descriptor was cut off")

// receive reads a message, and the descriptor that came with it; -1: none.
func receive(socket int, buf []byte) (n, fd int, err error) {
	control := make([]byte, unix.CmsgSpace(4))
	size, flags := 0, 0
	err = retry(func() error {
		n, size, flags, _, err = unix.Recvmsg(socket, buf, control, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return 0, -1, err
	}
	fd = -1
	messages, _ := unix.ParseSocketControlMessage(control[:size])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, came := range fds {
			// The buffer has space for two.
			closeFD(fd)
			fd = came
		}
	}
	if flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
		closeFD(fd)
		return 0, -1, errTruncated
	}
	return n, fd, nil
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// leftovers has everything that a janitor must remove for one sandbox.
type leftovers struct {
	placeholders map[uint32]*Placeholder
	names        []*Removal
	init         int // a pidfd; -1: none
	running      bool
}

// serveLauncher serves a connection until it ends.
func serveLauncher(connection int) {
	_ = unix.SetNonblock(connection, true)
	f := os.NewFile(uintptr(connection), "launcher")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	l := newLeftovers()
	defer func() { l.close() }()
	buf := make([]byte, janitorMessage)
	for {
		n, fd := 0, -1
		if e := raw.Read(func(s uintptr) bool {
			n, fd, err = receive(int(s), buf)
			return !errors.Is(err, unix.EAGAIN)
		}); e != nil {
			err = e
		}
		switch {
		case errors.Is(err, unix.ECONNRESET):
			// The launcher has closed its end without reading the answer. Its earlier messages must
			// still be read, for example that nothing is left to be removed.
		case errors.Is(err, errTruncated):
			return // the launcher finds the connection closed, and runs nothing
		case err != nil || n == 0:
			closeFD(fd)
			l.remove()
			return
		case buf[0] == 'f' && l.running:
			return
		case buf[0] == 'f':
			l.close()
			l = newLeftovers()
		case l.running:
			closeFD(fd)
		case !l.take(buf[:n], fd):
			closeFD(fd)
			return
		case l.running:
			// If the launcher does not read the answer, the next message is the end of the
			// connection, or says that nothing is left to be removed.
			_ = tell(connection, answered, -1)
		}
	}
}

func newLeftovers() *leftovers {
	return &leftovers{placeholders: make(map[uint32]*Placeholder), init: -1}
}

// take handles a message of a launcher, and takes ownership of its descriptor. It
// returns false if the message is malformed; then the caller still owns the
// descriptor.
func (l *leftovers) take(m []byte, fd int) bool {
	kind, rest := m[0], m[1:]
	switch {
	case kind == 'r' && len(rest) == 0:
		l.init, l.running = fd, true
		return true
	case fd < 0:
		return false
	case kind == 'h' && len(rest) == 4:
		s := l.placeholders[binary.LittleEndian.Uint32(rest)]
		if s == nil {
			return false
		}
		closeFD(s.fd)
		s.fd = fd
		return true
	case kind == 's' && len(m) > placeholderHead:
		s := &Placeholder{parent: fd, fd: -1, uid: uint32(unix.Geteuid())}
		i := binary.LittleEndian.Uint32(rest)
		if l.placeholders[i] != nil || copy(s.temp[:], rest[4:]) != len(s.temp) || !fitName(&s.name, m[placeholderHead:]) {
			return false
		}
		l.placeholders[i] = s
		return true
	case kind == 'n' && len(m) > removalHead:
		r := &Removal{dir: fd, sticky: rest[12] != 0, uid: uint32(unix.Geteuid())}
		r.since = unix.StatxTimestamp{Sec: int64(binary.LittleEndian.Uint64(rest)), Nsec: binary.LittleEndian.Uint32(rest[8:])}
		copy(r.aside[copy(r.aside[:], asidePrefix):], rest[13:13+asideDigits])
		if !fitName(&r.name, m[removalHead:]) {
			return false
		}
		l.names = append(l.names, r)
		return true
	}
	return false
}

// fitName copies a name into to. It reports whether the name is valid.
func fitName(to *[256]byte, name []byte) bool {
	text := string(name)
	return text != "." && text != ".." && len(text) < len(to) && !strings.ContainsAny(text, "/\x00") && copy(to[:], text) > 0
}

// remove waits for the end of the sandbox, and removes its leftovers.
func (l *leftovers) remove() {
	if l.init >= 0 {
		fds := []unix.PollFd{{Fd: int32(l.init), Events: unix.POLLIN}}
		_ = retry(func() error { _, err := unix.Poll(fds, -1); return err })
	}
	m := new(Remover)
	for _, r := range l.names {
		m.Remove(r)
		m.Tidy(r)
	}
	for _, s := range l.placeholders {
		m.RemovePlaceholder(s)
		m.RemoveHalfMade(s)
	}
}

func (l *leftovers) close() {
	closeFD(l.init)
	for _, r := range l.names {
		closeFD(r.dir)
	}
	for _, s := range l.placeholders {
		s.close()
	}
}
