package broker

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// Broker makes the permitted changes of one sandbox.
type Broker struct {
	listener notify.Listener
	policy   *Policy
	abi      int  // the version of Landlock
	offline  bool // the network is off
	init     int  // the process from which the processes of the sandbox descend, a child of this one

	// umask is that of the command's first process. While no process has called umask, it is that of all.
	umask      uint32
	umaskCalls atomic.Bool

	routines sync.WaitGroup
	threads  atomic.Int32 // the answering threads
	idle     atomic.Int32 // those that wait for a call
	waiting  chan *waiting
	sockets  sockets
	shared   sharedFiles
	// terminals are the pseudoterminals that the command has made.
	terminals terminals
}

// New returns a broker for the calls that a listener reports. abi is the version of Landlock, and init the init of the sandbox. umask is
// that of the command; the process of the broker must have 0. offline means that the network is off.
// The calling thread and the command must be in the broker's Landlock domain.
func New(listener int, policy *Policy, abi, init int, umask uint32, offline bool) *Broker {
	return &Broker{listener: notify.Listener(listener), policy: policy, abi: abi, init: init, umask: umask, waiting: make(chan *waiting, maxFIFOs),
		offline: offline, sockets: sockets{own: make(map[inode]int)}, shared: sharedFiles{held: make(map[inode]int)}}
}

// Serve answers calls until no process with the filter is left. Before Linux 6.11 the kernel does not report that: then Serve
// does not return, and ends with the launcher.
func (b *Broker) Serve() error {
	if err := b.listener.WakeSynchronously(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("set the flags of the listener: %w", err)
	}
	for range usualThreads {
		b.add()
	}
	stop := make(chan struct{})
	var fifos sync.WaitGroup
	fifos.Go(func() { b.makeWaiting(stop) })
	b.routines.Wait()
	close(stop)
	fifos.Wait()
	return nil
}

// add adds an answering thread, unless there are maxThreads.
func (b *Broker) add() {
	if b.threads.Add(1) > maxThreads {
		b.threads.Add(-1)
		return
	}
	b.idle.Add(1)
	b.routines.Go(b.routine)
}

// confine drops the capabilities of this thread, so that it has the rights of the command, and blocks all signals: one that
// interrupts the thread must not end the call of a command with EINTR.
func confine() error {
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0])
}

// routine answers calls.
func (b *Broker) routine() {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	if confine() != nil {
		return // the command's calls wait, and end with the sandbox
	}
	for {
		c, errno := b.listener.Receive()
		switch errno {
		case 0:
		case unix.ENOENT, unix.EINTR: // the caller was killed
			continue
		default:
			return
		}
		if b.idle.Add(-1) == 0 {
			b.add() // the file system of a call may not answer
		}
		b.answer(c)
		b.idle.Add(1)
	}
}

// reply is how a call ends.
type reply struct {
	result int
	errno  syscall.Errno
	goOn   bool // the kernel makes the call. It must be harmless with any arguments: see README.md.
	file   *int // the result is this descriptor, which is closed
	flags  int  // of that descriptor
	// answered means that the call has ended, or another thread ends it.
	answered bool
}

func failed(err error) reply {
	if Control && errors.Is(err, errChecked) {
		return goesOn
	}
	return reply{errno: errnoOf(err)}
}

var goesOn, answered = reply{goOn: true}, reply{answered: true}

// errnoOf returns the kernel's error that an error wraps.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	errno := unix.EPERM
	_ = errors.As(err, &errno)
	return errno
}

// answer makes a call, and ends it.
func (b *Broker) answer(c *notify.Call) {
	handle := calls[uint32(c.Number)]
	if handle == nil {
		b.listener.Reply(c, 0, unix.EPERM) // the filter reports no other call
		return
	}
	b.end(c, handle(&caller{Broker: b, Call: c}))
}

// end ends a call.
func (b *Broker) end(c *notify.Call, r reply) {
	switch {
	case r.answered:
	case r.goOn:
		b.listener.Continue(c)
	case r.file != nil:
		// The broker's copy is closed before the caller goes on. Otherwise a program that writes an executable file, closes it and
		// executes it at once gets ETXTBSY.
		number, errno := b.listener.Give(c, *r.file, r.flags)
		_ = unix.Close(*r.file)
		b.listener.Reply(c, number, errno)
	default:
		b.listener.Reply(c, r.result, r.errno)
	}
}
