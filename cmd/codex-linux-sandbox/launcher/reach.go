package launcher

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A client reaches ports inside a sandbox through the server (docs/spec/wire.md §11.7).
// The server needs sockets of the sandbox's network for that, and cannot make them: the
// network belongs to a user namespace, which only a process with one thread can enter.
// So the server starts the launcher with a descriptor of the network. A child without a
// Go runtime enters it, makes the sockets, hands them out over the server's socket, and
// ends. It is in no PID namespace of the sandbox: nothing there can see it. The server
// itself connects the sockets; they stay in their network.

// reachSockets makes one TCP socket of each family in a network and sends them over a
// socket, IPv4 first. Where the network has no IPv6 there is one.
func reachSockets(network, over int) error {
	owner, err := unix.IoctlRetInt(network, unix.NS_GET_USERNS)
	if err != nil {
		return fmt.Errorf("find the owner of the sandbox's network: %w", err)
	}
	var fixed [2]int // the numbers of the sockets
	for i := range fixed {
		if fixed[i], err = unix.FcntlInt(uintptr(over), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return fmt.Errorf("reserve a descriptor: %w", err)
		}
	}
	status := [2]int{}
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	p := newProgram()
	p.undumpable()
	// As root, bwrap makes a network without a user namespace: there is none to enter.
	p.try(func() { p.do("enter", "the user namespace", unix.SYS_SETNS, val(owner), val(unix.CLONE_NEWUSER)) })
	p.do("enter", "the network", unix.SYS_SETNS, val(network), val(unix.CLONE_NEWNET))
	open := func(family, to int) {
		fd := p.get("make a socket", "", unix.SYS_SOCKET, val(family), val(unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC), val(0))
		p.do("keep", "the socket", unix.SYS_DUP3, fd.arg(), val(to), val(unix.O_CLOEXEC))
	}
	open(unix.AF_INET, fixed[0])
	p.either(func() {
		open(unix.AF_INET6, fixed[1])
		p.handOut("the sockets", over, fixed[:]...)
	}, func() { p.handOut("the socket", over, fixed[0]) })
	p.do("end", "", unix.SYS_EXIT_GROUP, val(0))
	return runAlone(p, status)
}

// runAlone runs a program that ends its process in a child, and waits for it.
func runAlone(p *program, status [2]int) error {
	c := &processes{init: p, status: status[1]}
	all, old := ^uint64(0), uint64(0)
	sigprocmask(&all, &old)
	pid, errno := c.fork()
	sigprocmask(&old, nil)
	_ = unix.Close(status[1])
	if errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	var told report
	n, err := unix.Read(status[0], unsafe.Slice((*byte)(unsafe.Pointer(&told)), unsafe.Sizeof(told)))
	code, waitErr := wait(pid)
	switch {
	case err == nil && n == int(unsafe.Sizeof(told)) && told.stage == stageInit:
		return p.steps[told.step].fail(syscall.Errno(told.errno))
	case err != nil || waitErr != nil:
		return errors.Join(err, waitErr)
	case code != 0:
		return fmt.Errorf("the child ended with %v", code)
	}
	return nil
}
