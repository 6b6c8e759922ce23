package launcher

import (
	"fmt"
	"os"
	"os/signal"

	"codex.internal/pkg/host/warmstart"
	"golang.org/x/sys/unix"
)

// A server starts launchers ahead of need (pkg/host/warmstart), because the start of a Go program
// takes 2 ms of the 5 ms of a sandboxed start. Such a launcher gets its arguments and descriptors
// when it is needed. From then on it is like any other: it makes one sandbox and ends with it.
//
// The alternative was one launcher that forks the inits of all sandboxes. It saves no more time,
// because the fork and the namespaces remain. It would also be the parent of every sandbox: exit
// codes, signals, terminals and clean-up would have to go through it, and data that one request
// leaves in its memory would be there for the next.

// awaitJob waits for the job of a launcher that was started ahead of need. It returns the job's
// options, with the received descriptors.
func awaitJob(socket int) (*options, error) {
	unix.CloseOnExec(socket) // the command must not inherit it
	// Make the Go runtime start its thread for signals now, which takes 0.7 ms. SIGCONT does nothing meanwhile.
	ahead := make(chan os.Signal, 1)
	signal.Notify(ahead, unix.SIGCONT)
	signal.Stop(ahead)
	job, err := warmstart.Receive(socket)
	if err != nil {
		return nil, err
	}
	return takeJob(socket, &job)
}

// takeJob receives the descriptors of a job, and returns its options.
func takeJob(socket int, job *warmstart.Job) (*options, error) {
	for fd := range standardFiles {
		if err := unix.Dup3(job.Files[fd], fd, 0); err != nil {
			return nil, fmt.Errorf("take the standard descriptors: %w", err)
		}
		_ = unix.Close(job.Files[fd])
	}
	if !job.Report {
		_ = unix.Close(socket)
	}
	if job.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return nil, fmt.Errorf("take the terminal: %w", err)
		}
	}
	o, err := jobOptions(job)
	if err == nil && job.Report {
		o.reportFD = socket
	}
	return o, err
}

// jobOptions returns the options of a job.
func jobOptions(job *warmstart.Job) (*options, error) {
	o, err := parse(job.Args)
	if err != nil {
		return nil, err
	}
	files := job.Files
	if job.Cgroup {
		last := len(files) - 1
		o.cgroupFD, files = files[last], files[:last]
		o.limited = job.Limited
	}
	return o, o.renumber(files)
}

// renumber translates descriptor numbers. The options have the numbers that the descriptors would
// have in a launcher that inherits them; renumber replaces these by the received descriptors.
func (o *options) renumber(files []int) error {
	for _, fd := range []*int{&o.profileFD, &o.execFD, &o.envFD, &o.selfFD, &o.refusalFD, &o.janitorFD, &o.egressFD} {
		switch {
		case *fd < 0:
		case *fd < standardFiles || *fd >= len(files):
			return &usageError{fmt.Sprintf("descriptor %d is not open", *fd)}
		default:
			*fd = files[*fd]
		}
	}
	return nil
}
