package mediate

import (
	"fmt"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"golang.org/x/sys/unix"
)

// A client reaches ports inside a sandbox through the server (docs/spec/wire.md §11.7). For that
// the server needs sockets of the sandbox's network. It cannot create them itself: the network
// belongs to a user namespace, and only a process with one thread can enter that. So the server
// starts the launcher with a descriptor of the network. A child without a Go runtime enters the
// network, creates the sockets, sends them over the server's socket, and ends. The child is in no
// PID namespace of the sandbox, so no process inside can see it. The server connects the sockets
// itself; they stay in their network.

// ReachSockets creates one TCP socket of each family in a network and sends them over a socket,
// IPv4 first. If the network has no IPv6, it creates only the IPv4 socket.
func ReachSockets(network, over int) error {
	owner, err := unix.IoctlRetInt(network, unix.NS_GET_USERNS)
	if err != nil {
		return fmt.Errorf("find the owner of the sandbox's network: %w", err)
	}
	var fixed [2]int // the descriptor numbers of the sockets
	for i := range fixed {
		if fixed[i], err = unix.FcntlInt(uintptr(over), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return fmt.Errorf("reserve a descriptor: %w", err)
		}
	}
	p := initproc.New()
	p.Undumpable()
	// A bwrap that root started creates a network without a user namespace, so none can be entered.
	p.Try(func() {
		p.Do("enter", "the user namespace", unix.SYS_SETNS, initproc.Val(owner), initproc.Val(unix.CLONE_NEWUSER))
	})
	p.Do("enter", "the network", unix.SYS_SETNS, initproc.Val(network), initproc.Val(unix.CLONE_NEWNET))
	open := func(family, to int) {
		fd := p.Get("make a socket", "", unix.SYS_SOCKET, initproc.Val(family), initproc.Val(unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC), initproc.Val(0))
		p.Do("keep", "the socket", unix.SYS_DUP3, fd.Arg(), initproc.Val(to), initproc.Val(unix.O_CLOEXEC))
	}
	open(unix.AF_INET, fixed[0])
	p.Either(func() {
		open(unix.AF_INET6, fixed[1])
		p.HandOut("the sockets", over, fixed[:]...)
	}, func() { p.HandOut("the socket", over, fixed[0]) })
	p.Do("end", "", unix.SYS_EXIT_GROUP, initproc.Val(0))
	return initproc.RunAlone(p, 0)
}
