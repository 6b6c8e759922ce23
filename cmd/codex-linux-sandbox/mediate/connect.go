package mediate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// A command without a network has sockets of its own in an empty network
// namespace (docs/spec/sandbox.md §7.6). TCP, UDP and abstract Unix sockets stay
// in it by themselves. A Unix socket with a path does not: the path of a host's
// socket, in /tmp for example, leads to that socket from every network. So the
// filter stops each connect, and the launcher makes the connection in place of
// the command, if it is one to a socket of the sandbox.
//
// Nothing that the command can change counts: the launcher copies the address,
// duplicates the socket, and opens the path in the command's own view. What it
// holds then is looked up in the socket table of the sandbox's network, and this
// very file is connected to. A path that is exchanged in between leads nowhere
// else. SECCOMP_USER_NOTIF_FLAG_CONTINUE, which lets the kernel read all of this
// again, is not used.

// maxConnecting bounds the connections that are made at the same time. Each occupies a
// thread of the launcher while the backlog of the listener is full; further ones wait.
const maxConnecting = 64

// maxQueued bounds the calls that wait until one of these threads has time. More fail.
const maxQueued = 4096

// maxAddress is the size of the kernel's struct sockaddr_storage: it accepts no
// longer address.
const maxAddress = 128

// CanConnect reports whether the kernel, and what confines the launcher
// itself, let it duplicate descriptors of the command, which it must to connect its sockets.
func CanConnect() bool {
	_, err := unix.PidfdGetfd(-1, -1, 0)
	return errors.Is(err, unix.EBADF)
}

// InstallFilter appends steps that install the filter of a command. If the launcher
// makes the connections, the necessary descriptors are sent over a socket; fixed is a
// descriptor that may be replaced. If a filter cannot ask, because the kernel is
// older than 5.19 or another program supervises this one, the command gets only
// loopback sockets.
func InstallFilter(p *initproc.Program, rules plan.Rules, over, fixed int) {
	if !rules.Asks() {
		p.InstallFilter(rules.Filter())
		return
	}
	p.Either(func() {
		table := p.Get("make a socket", "for the table of sockets", unix.SYS_SOCKET,
			initproc.Val(unix.AF_NETLINK), initproc.Val(unix.SOCK_RAW|unix.SOCK_CLOEXEC), initproc.Val(unix.NETLINK_SOCK_DIAG))
		listener := p.Get("install the seccomp filter", "that asks", unix.SYS_SECCOMP, initproc.Val(unix.SECCOMP_SET_MODE_FILTER),
			initproc.Val(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), initproc.Filter(p, rules.Filter()))
		for _, fd := range []initproc.Register{table, listener} {
			p.Do("keep", "a descriptor for the launcher", unix.SYS_DUP3, fd.Arg(), initproc.Val(fixed), initproc.Val(unix.O_CLOEXEC))
			p.HandOut("a descriptor", over, fixed)
			p.Close(fd)
		}
		p.Do("close", "a descriptor", unix.SYS_CLOSE, initproc.Val(fixed))
	}, func() {
		rules.Sockets, rules.Connect = min(rules.Sockets, plan.SocketsLoopback), false
		p.InstallFilter(rules.Filter())
	})
}

// Connector makes the connections of one sandbox.
type Connector struct {
	ours, theirs int       // the ends of the socket over which the descriptors arrive
	table        int       // asks for the sockets of the sandbox's network
	host         int       // queries the sockets of the launcher's network
	listener     int       // reports the calls that the filter stops
	redirect     *Redirect // nil: connections beyond the sandbox fail

	mu             sync.Mutex
	threads, ready int             // all answering threads, and those of them that wait for a call
	queue          []*notification // calls that are answered when a thread has time; at most maxQueued

	asking sync.Mutex // a socket answers one question about its table at a time
}

// NewConnector makes the socket for the descriptors. With server >= 0, connections that lead out of the
// sandbox are redirected there (docs/spec/network.md §5). Release must be called at the end.
func NewConnector(server int) (*Connector, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	c := &Connector{ours: pair[0], theirs: pair[1]}
	if server >= 0 {
		if c.redirect, err = NewRedirect(server); err != nil {
			c.Release()
			return nil, fmt.Errorf("reserve a descriptor: %w", err)
		}
	}
	return c, nil
}

// Capture appends steps that make all connections of the network local, if they are redirected. It
// needs the privileges of the init.
func (c *Connector) Capture(p *initproc.Program) {
	if c.redirect != nil {
		c.redirect.Catch(p)
		p.HandOut("the listeners", c.theirs, c.redirect.Fixed[:]...)
		for _, fd := range c.redirect.Fixed {
			p.Do("close", "the listener", unix.SYS_CLOSE, initproc.Val(fd))
		}
	}
}

// InstallFilter appends steps that install the filter of the command; see the function
// InstallFilter.
func (c *Connector) InstallFilter(p *initproc.Program, rules plan.Rules, fixed int) {
	InstallFilter(p, rules, c.theirs, fixed)
}

// Serve makes the connections until the sandbox ends. It returns at once.
func (c *Connector) Serve() {
	ours := c.ours
	c.ours = -1
	c.Release()
	go func() {
		defer unix.Close(ours)
		_ = Receive(ours, c.redirect)
	}()
}

// Release closes descriptors that the launcher does not use. It may be called more than
// once.
func (c *Connector) Release() {
	for _, fd := range []*int{&c.ours, &c.theirs} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
	if c.redirect != nil {
		c.redirect.Release()
	}
}

// MaxMessage bounds the text of a message for Receive.
const MaxMessage = 8<<10 + 1

// Receive receives the descriptors of InstallFilter, and before them those of Capture if connections
// are redirected, and starts to make connections with them. fds has those that have already arrived.
// It returns when the socket has been closed inside, with a message of another kind.
func Receive(socket int, to *Redirect, fds ...int) (message []byte) {
	for {
		text, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(4)+unix.CmsgSpace(unix.SizeofUcred))
		n, size, _, _, err := unix.Recvmsg(socket, text, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return message
		}
		got := Descriptors(oob[:size])
		if len(got) == 0 {
			message = text[:n]
		}
		fds = append(fds, got...)
		if to != nil && len(fds) < 4 {
			continue
		}
		if to != nil {
			to.begin(fds[0], fds[1])
			fds = fds[2:]
		}
		if len(fds) == 2 {
			c := &Connector{table: fds[0], listener: fds[1], host: -1, redirect: to}
			_ = ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, &[1]uint64{syncWakeUp}) // since Linux 6.6
			c.start()
		}
	}
}

// Descriptors returns the descriptors in the control data of a message.
func Descriptors(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// notification is struct seccomp_notif, with space for the additions of newer kernels.
type notification struct {
	id     uint64
	pid    uint32
	_      uint32
	number int32    // of struct seccomp_data
	_      [12]byte // the architecture and the address
	args   [6]uint64
	_      [176]byte

	since time.Time // when it was received
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id     uint64
	result int64 // of a call that has not failed
	errno  int32
	_      uint32
}

func ioctl[T any](fd int, request uint, to *T) syscall.Errno {
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(to)))
	return errno
}

// start adds a thread that answers.
func (c *Connector) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
}

// add adds an answering thread. It is called with mu held.
func (c *Connector) add() {
	c.threads++
	c.ready++
	go c.routine()
}

// take makes this thread answer a call, if another one waits for the next call.
// The last thread does not answer calls that may wait for a peer: a call that
// makes a pair of sockets must not wait behind them, because programs do not
// expect it to block.
func (c *Connector) take(n *notification) (errno syscall.Errno, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready == 1 && c.threads < maxConnecting {
		c.add()
	}
	if c.ready > 1 || n.number != unix.SYS_CONNECT {
		c.ready--
		return 0, true
	}
	if len(c.queue) >= maxQueued {
		return unix.ENOBUFS, false
	}
	c.queue = append(c.queue, n)
	return 0, false
}

// putBack queues a call whose connection has not been made yet behind the others that wait.
func (c *Connector) putBack(n *notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, n)
}

// next returns the call that has waited longest; nil: this thread must wait for
// another call, because none is queued or no other thread waits for one.
func (c *Connector) next() *notification {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || c.ready == 0 {
		c.ready++
		return nil
	}
	n := c.queue[0]
	c.queue = c.queue[1:]
	return n
}

// routine answers notifications until no process with the filter is left. If the launcher is root, the
// thread drops its capabilities, so that paths are looked up with the rights of the command, which has
// none. If that fails, the command's calls wait, and end with the sandbox.
func (c *Connector) routine() {
	runtime.LockOSThread() // permanently: the thread ends with the goroutine
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0]); err != nil {
		return
	}
	for {
		calls := []unix.PollFd{{Fd: int32(c.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(calls, -1); errors.Is(err, unix.EINTR) {
			continue
		}
		if calls[0].Revents&unix.POLLIN == 0 {
			return
		}
		n := &notification{since: time.Now()}
		if ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, n) != 0 {
			continue
		}
		errno, mine := c.take(n)
		if errno != 0 {
			c.reply(&answer{id: n.id, errno: -int32(errno)})
		}
		for mine && n != nil {
			if !c.answer(n) {
				c.putBack(n)
			}
			n = c.next()
		}
	}
}

// reply ends a call.
func (c *Connector) reply(a *answer) { _ = ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, a) }

// answer does what a call asks for, and ends it. It returns false if the connection is to be tried again.
func (c *Connector) answer(n *notification) bool {
	result, errno := 0, unix.EPERM // the filter asks about no other call
	switch n.number {
	case unix.SYS_CONNECT:
		switch errno = c.connect(n); errno {
		case errWaits:
			return false
		case unix.ENETUNREACH:
			// The empty network has no route. EPERM tells programs and users that the
			// sandbox denies the connection.
			errno = unix.EPERM
		}
	case unix.SYS_SOCKETPAIR:
		errno = c.pair(n)
	case unix.SYS_LANDLOCK_CREATE_RULESET:
		result, errno = c.ruleset(n)
	}
	c.reply(&answer{id: n.id, result: int64(result), errno: -int32(errno)})
	return true
}

// valid returns an error unless the thread of a call still waits for it. If it does, its number
// has not been another thread's since the call began.
func (c *Connector) valid(n *notification) error {
	if errno := ioctl(c.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id); errno != 0 {
		return errno
	}
	return nil
}

// connect makes one connection.
func (c *Connector) connect(n *notification) syscall.Errno {
	conn, err := c.find(n)
	defer conn.close()
	if err != nil {
		return errnoOf(err)
	}
	if c.redirect != nil {
		if errno, done := c.redirect.redirected(conn); done {
			return errno
		}
	}
	return conn.make()
}

// errWaits means that the other end of a connection cannot accept one yet.
const errWaits = unix.ERESTART

// errnoOf returns the kernel's error inside of another error.
func errnoOf(err error) syscall.Errno {
	errno := unix.EPERM
	_ = errors.As(err, &errno)
	return errno
}

// connection has copies of the arguments that a thread has passed to connect.
type connection struct {
	socket  int // a duplicate of the command's
	file    int // the Unix socket in the file system; -1: none
	address []byte
	since   time.Time // when the call came
}

// find copies what a connection needs from the thread that waits for it. The caller closes the
// connection in any case.
func (c *Connector) find(n *notification) (conn *connection, err error) {
	conn = &connection{file: -1, socket: -1, since: n.since}
	size := int32(n.args[2])
	if size < 0 || size > maxAddress {
		return conn, unix.EINVAL
	}
	conn.address = make([]byte, size)
	if err := readMemory(int(n.pid), n.args[1], conn.address); err != nil {
		return conn, err
	}
	if conn.socket, err = descriptorOf(int(n.pid), int(int32(n.args[0]))); err != nil {
		return conn, err
	}
	if err := unmarked(int(n.pid)); err != nil {
		return conn, err
	}
	name := socketPath(conn.address)
	if name != "" {
		if conn.file, err = openFor(int(n.pid), name); err != nil {
			return conn, err
		}
	}
	// The thread has waited all the time, so the address and the descriptor were read from it, and
	// not from another thread that has its number now.
	if err := c.valid(n); err != nil {
		return conn, err
	}
	if err := c.ownNetwork(conn.socket); err != nil {
		return conn, err
	}
	if name != "" {
		if err := c.check(int(n.pid), conn.file); err != nil {
			return conn, err
		}
		conn.address = addressOf(conn.file)
	}
	return conn, nil
}

// addressOf returns the address of the Unix socket of a descriptor.
func addressOf(file int) []byte {
	return append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), "/proc/self/fd/"+strconv.Itoa(file)+"\x00"...)
}

// maxWait bounds how long a thread waits for the other end of a connection at a time. Scenario: a hundred processes
// connect to a listener that has a full backlog and accepts nothing, and are killed. A thread in connect is not
// notified that the process for which it waits is gone, so all threads would wait forever. Even while those processes
// exist, other connections must be made.
const maxWait = 250 * time.Millisecond

// make makes the connection, or returns errWaits. Then, if the command's socket is a blocking one, the calling thread
// waits and this process tries again, until the time limit of the socket is over.
func (conn *connection) make() syscall.Errno {
	flags, err := unix.FcntlInt(uintptr(conn.socket), unix.F_GETFL, 0)
	limit, err2 := unix.GetsockoptTimeval(conn.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil || err2 != nil || flags&unix.O_NONBLOCK != 0 {
		return conn.makeOnce()
	}
	wait := maxWait
	if own := time.Duration(limit.Nano()); own > 0 {
		wait = min(wait, max(time.Microsecond, own-time.Since(conn.since)))
	}
	short := unix.NsecToTimeval(wait.Nanoseconds())
	if err := unix.SetsockoptTimeval(conn.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &short); err != nil {
		return conn.makeOnce()
	}
	defer func() { _ = unix.SetsockoptTimeval(conn.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, limit) }()
	errno := conn.makeOnce()
	if (errno == unix.EAGAIN || errno == unix.EINPROGRESS || errno == unix.EALREADY) && (limit.Nano() == 0 || time.Since(conn.since) < time.Duration(limit.Nano())) {
		return errWaits
	}
	return errno
}

// makeOnce calls connect.
func (conn *connection) makeOnce() syscall.Errno {
	for {
		_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(conn.socket),
			uintptr(unsafe.Pointer(unsafe.SliceData(conn.address))), uintptr(len(conn.address)))
		if errno != unix.EINTR {
			return errno
		}
	}
}

func (conn *connection) close() {
	for _, fd := range []int{conn.socket, conn.file} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// readMemory copies memory of a process.
func readMemory(pid int, address uint64, to []byte) error {
	if len(to) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(len(to))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(to)}}, 0)
	if err == nil && n < len(to) {
		err = unix.EFAULT
	}
	return err
}

// Flags that are newer than the library of system calls.
const (
	pidfdThread = unix.O_EXCL // PIDFD_THREAD, since Linux 6.9
	syncWakeUp  = 1           // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
)

// descriptorOf duplicates a descriptor of a thread.
func descriptorOf(tid, number int) (int, error) {
	thread, err := openThread(tid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(thread)
	return unix.PidfdGetfd(thread, number, 0)
}

// openThread opens a thread, before Linux 6.9 the process that it belongs to.
func openThread(tid int) (int, error) {
	thread, err := unix.PidfdOpen(tid, pidfdThread)
	if err == nil {
		return thread, nil
	}
	pid, err := processOf(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(pid, 0)
}

// processOf returns the number of the process of a thread.
func processOf(tid int) (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nTgid:\t")
	text, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(text)
}

// pathOffset is where the path begins in struct sockaddr_un.
const pathOffset = 2

// socketPath returns the path in the address of a Unix socket; "": it has none.
func socketPath(address []byte) string {
	if len(address) <= pathOffset || *(*uint16)(unsafe.Pointer(&address[0])) != unix.AF_UNIX {
		return ""
	}
	name, _, _ := strings.Cut(string(address[pathOffset:]), "\x00")
	return name
}

// openFor opens a file at the path of a thread, in that thread's view, so that
// the command's links cannot lead elsewhere. A relative path must not cross a
// link, because that could lead to the root of the launcher.
func openFor(tid int, name string) (int, error) {
	base, how := "/root", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if !strings.HasPrefix(name, "/") {
		base, how.Resolve = "/cwd", unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS
	}
	dir, err := unix.Open("/proc/"+strconv.Itoa(tid)+base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return plan.Openat2(dir, name, how)
}
