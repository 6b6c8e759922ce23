package mediate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/notify"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// A command without a network has sockets of its own in an empty network namespace
// (docs/spec/sandbox.md §7.6). The namespace confines TCP, UDP and abstract Unix sockets. It does
// not confine a Unix socket with a path: the path of a host's socket, in /tmp for example, leads to
// that socket from every network. So the filter stops each connect. If the connection is one to a
// socket of the sandbox, the launcher makes it in place of the command.
//
// The launcher relies on nothing that the command can change meanwhile. It copies the address,
// duplicates the socket, and opens the path in the command's own view. It looks the opened file up
// in the socket table of the sandbox's network, and connects to this very file. If the command
// replaces the path in between, the connection still leads to the same file. The launcher does not
// use SECCOMP_USER_NOTIF_FLAG_CONTINUE, which lets the kernel read all arguments again.

// maxConnecting bounds the connections that are made at the same time. Each occupies a thread of
// the launcher while the backlog of the listener is full. Further connections wait.
const maxConnecting = 64

// maxQueued bounds the calls that wait until one of these threads is free. Further calls fail.
const maxQueued = 4096

// maxAddress is the size of the kernel's struct sockaddr_storage. The kernel accepts no longer
// address.
const maxAddress = 128

// CanConnect reports whether the launcher can duplicate descriptors of the command, which it must do to
// connect the command's sockets. The kernel, or a filter that confines the launcher, may forbid this.
func CanConnect() bool {
	_, err := unix.PidfdGetfd(-1, -1, 0)
	return errors.Is(err, unix.EBADF)
}

// CanRedirect reports whether a Redirect works: the launcher can connect the command's sockets, and
// the kernel has the flags of the filter that asks.
func CanRedirect() bool {
	// The kernel checks the flags before it reads the filter, and the address 0 has none.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	return errno == unix.EFAULT && CanConnect()
}

// InstallFilter appends steps that install the filter of a command. If the launcher makes the
// connections, the steps send the necessary descriptors over a socket; fixed is a descriptor that
// they may replace. If the filter cannot ask the launcher, because the kernel is older than 5.19 or
// another program supervises this one, the command gets only loopback sockets.
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
	ours, theirs int // the ends of the socket over which the descriptors arrive
	table        int // queries the sockets of the sandbox's network
	host         int // queries the sockets of the launcher's network
	listener     notify.Listener
	redirect     *Redirect // nil: connections out of the sandbox fail

	mu             sync.Mutex
	threads, ready int             // the number of all answering threads, and of those that wait for a call
	queue          []*notification // calls that wait for a free thread; at most maxQueued

	asking sync.Mutex // a socket can answer only one query at a time
}

// NewConnector creates the socket for the descriptors. If server >= 0, connections that lead out of the
// sandbox are redirected to it (docs/spec/network.md §5). Release must be called at the end.
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

// Capture appends steps that redirect all connections of the network, if a server is given: they
// make every address local. The steps need the privileges of the init.
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

// Receive receives the descriptors of InstallFilter and starts to make connections with them. If connections
// are redirected, it first receives the descriptors of Capture. fds are descriptors that have arrived
// already. It returns when the socket has been closed inside, or with the first message of another kind.
func Receive(socket int, to *Redirect, fds ...int) (message []byte) {
	for {
		text, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(4*len(Redirect{}.Fixed))+unix.CmsgSpace(unix.SizeofUcred))
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
		if to != nil && len(fds) < len(to.Fixed)+2 {
			continue
		}
		if to != nil {
			to.begin(fds[0], fds[1], fds[2])
			fds = fds[len(to.Fixed):]
		}
		if len(fds) == 2 {
			c := &Connector{table: fds[0], listener: notify.Listener(fds[1]), host: -1, redirect: to}
			if err := c.listener.WakeSynchronously(); err != nil && !errors.Is(err, unix.EINVAL) {
				_ = unix.Close(fds[1]) // each stopped call fails
				continue
			}
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

// notification is a stopped call.
type notification struct {
	*notify.Call
	since    time.Time // the time of receipt
	entrance *entrance // where the connection of the call leads; nil: none yet
}

// start adds an answering thread.
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

// take decides whether this thread answers a call. It does if another thread waits for the next
// call. The last waiting thread does not answer calls that may block until a peer acts: a call that
// creates a socket pair must not wait behind them, because programs do not expect it to block.
func (c *Connector) take(n *notification) (errno syscall.Errno, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready == 1 && c.threads < maxConnecting {
		c.add()
	}
	if c.ready > 1 || n.Number != unix.SYS_CONNECT {
		c.ready--
		return 0, true
	}
	if len(c.queue) >= maxQueued {
		return unix.ENOBUFS, false
	}
	c.queue = append(c.queue, n)
	return 0, false
}

// putBack queues a call whose connection could not be made yet. It goes behind the calls that wait already.
func (c *Connector) putBack(n *notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, n)
}

// next returns the call that has waited longest. It returns nil if this thread must wait for
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

// routine answers notifications until no process with the filter is left. If the launcher is root, the thread
// drops its capabilities, so that it looks paths up with the rights of the command, which has no capabilities.
// If dropping them fails, it answers nothing: the command's calls wait, and end with the sandbox.
func (c *Connector) routine() {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
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
		call, errno := c.listener.Receive()
		if errno != 0 {
			continue
		}
		n := &notification{Call: call, since: time.Now()}
		errno, mine := c.take(n)
		if errno != 0 {
			c.listener.Reply(n.Call, 0, errno)
		}
		for mine && n != nil {
			if !c.answer(n) {
				c.putBack(n)
			}
			n = c.next()
		}
	}
}

// answer does the work of a call, and ends it. It returns false if the connection must be tried again later.
func (c *Connector) answer(n *notification) bool {
	result, errno := 0, unix.EPERM // the filter reports no other call
	switch n.Number {
	case unix.SYS_CONNECT:
		errno = c.connect(n)
		if errno == errWaits {
			return false
		}
		if c.redirect != nil {
			c.redirect.leave(n.entrance)
		}
		switch errno {
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
	c.listener.Reply(n.Call, result, errno)
	return true
}

// connect makes one connection.
func (c *Connector) connect(n *notification) syscall.Errno {
	conn, err := c.find(n)
	defer conn.close()
	if err != nil {
		return errnoOf(err)
	}
	if c.redirect != nil {
		conn.entrance = n.entrance
		errno, done := c.redirect.redirected(conn)
		n.entrance = conn.entrance
		if done {
			return errno
		}
	}
	return conn.make()
}

// errWaits means that the peer of a connection cannot accept it yet.
const errWaits = unix.ERESTART

// errnoOf returns the kernel's error that an error wraps.
func errnoOf(err error) syscall.Errno {
	errno := unix.EPERM
	_ = errors.As(err, &errno)
	return errno
}

// connection contains copies of the arguments that a thread has passed to connect.
type connection struct {
	socket  int // a duplicate of the command's socket
	file    int // the Unix socket in the file system; -1: none
	address []byte
	since   time.Time // when the call arrived
	// entrance is where a redirected connection leads; nil: to the listener.
	entrance *entrance
}

// find copies the data for a connection from the thread that waits for it. The caller must close
// the connection, even after an error.
func (c *Connector) find(n *notification) (conn *connection, err error) {
	conn = &connection{file: -1, socket: -1, since: n.since}
	size := int32(n.Args[2])
	if size < 0 || size > maxAddress {
		return conn, unix.EINVAL
	}
	conn.address = make([]byte, size)
	if err := notify.ReadMemory(int(n.TID), n.Args[1], conn.address); err != nil {
		return conn, err
	}
	if conn.socket, err = notify.Descriptor(int(n.TID), int(int32(n.Args[0]))); err != nil {
		return conn, err
	}
	if err := unmarked(int(n.TID)); err != nil {
		return conn, err
	}
	name := socketPath(conn.address)
	if name != "" {
		if conn.file, err = openFor(int(n.TID), name); err != nil {
			return conn, err
		}
	}
	// The thread has waited all the time. So the address and the descriptor came from this thread,
	// and not from another one that has its id now.
	if err := c.listener.Valid(n.Call); err != nil {
		return conn, err
	}
	if family, err := unix.GetsockoptInt(conn.socket, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || family == unix.AF_NETLINK {
		// The launcher, which owns the namespace, has capabilities there that the command has not.
		return conn, unix.EPERM
	}
	if err := c.ownNetwork(conn.socket); err != nil {
		return conn, err
	}
	if name != "" {
		if err := c.check(int(n.TID), conn.file); err != nil {
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

// maxWait bounds how long a thread waits for a peer at a time. Scenario: a hundred processes connect to a listener
// that has a full backlog and accepts nothing, and are killed. A thread in connect is not notified when the process
// for which it waits has ended, so all threads would wait forever. Even while those processes exist, the launcher
// must make other connections.
const maxWait = 250 * time.Millisecond

// make makes the connection, or returns errWaits. In that case, if the command's socket is a blocking one, the
// calling thread keeps waiting, and the launcher tries again until the timeout of the socket has passed.
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

// makeOnce calls connect once.
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
