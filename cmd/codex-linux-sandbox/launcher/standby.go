package launcher

import (
	"fmt"

	"codex.internal/pkg/host/warmstart"
	"golang.org/x/sys/unix"
)

// A server starts launchers ahead of need (pkg/host/warmstart): the start of a Go
// program takes 2 ms of the 5 ms of a sandboxed start. Such a launcher gets its arguments
// and descriptors when it is needed, and is then like any other: it makes one sandbox and
// ends with it.
//
// The alternative was one launcher that forks the inits of all sandboxes. It saves
// no more, as the fork and the namespaces remain, and it would be the parent of
// every sandbox: exit codes, signals, terminals and clean-up would have to go
// through it, and what one request leaves in its memory is there for the next.

// awaitOrder waits for the order of a launcher that was started ahead, and returns
// its options. Their descriptors are those that came.
func awaitOrder(socket int) (*options, error) {
	unix.CloseOnExec(socket) // the command must not have it
	order, err := warmstart.Receive(socket)
	if err != nil {
		return nil, err
	}
	return takeOrder(socket, &order)
}

// takeOrder takes the descriptors of an order, and returns its options.
func takeOrder(socket int, order *warmstart.Order) (*options, error) {
	for fd := range standardFiles {
		if err := unix.Dup3(order.Files[fd], fd, 0); err != nil {
			return nil, fmt.Errorf("take the standard descriptors: %w", err)
		}
		_ = unix.Close(order.Files[fd])
	}
	if !order.Report {
		_ = unix.Close(socket)
	}
	if order.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return nil, fmt.Errorf("take the terminal: %w", err)
		}
	}
	o, err := orderOptions(order)
	if err == nil && order.Report {
		o.reportFD = socket
	}
	return o, err
}

// orderOptions returns the options of an order.
func orderOptions(order *warmstart.Order) (*options, error) {
	o, err := parse(order.Args)
	if err != nil {
		return nil, err
	}
	files := order.Files
	if order.Cgroup {
		last := len(files) - 1
		o.cgroupFD, files = files[last], files[:last]
		o.limited = order.Limited
	}
	return o, o.renumber(files)
}

// renumber replaces the numbers that descriptors would have had in a launcher that
// inherits them by those that they have.
func (o *options) renumber(files []int) error {
	for _, fd := range []*int{&o.profileFD, &o.execFD, &o.envFD, &o.selfFD, &o.refusalFD, &o.janitorFD, &o.egressFD} {
		switch {
		case *fd < 0:
		case *fd < standardFiles || *fd >= len(files):
			return &usageError{fmt.Sprintf("there is no descriptor %d", *fd)}
		default:
			*fd = files[*fd]
		}
	}
	return nil
}
