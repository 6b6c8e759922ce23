package process

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/host/warmstart"
	"golang.org/x/sys/unix"
)

// Standby is a program that was started before its work is known (pkg/host/warmstart). It replaces
// one program that would otherwise be started from a Spec. It is a child of this program with the
// same session, parent-death signal and exit status. It gets the arguments, descriptors and
// terminal of the spec. It keeps the name, environment and working directory with which it was
// started, and its cgroup, which is the cgroup for launchers if that exists. It starts its own
// children in the process's cgroup.
//
// A goroutine waits for its end. The caller must use the standby in Spec.Standby, or close it,
// before the Supervisor is closed.
type Standby struct {
	s      *Supervisor
	pid    int
	ended  chan struct{} // closed when the program has ended; it is not reaped
	mu     sync.Mutex
	socket int  // -1: it has a job, or is closed
	taken  bool // a Process or a Child reaps it
	over   bool // ended is closed, or is about to be
	// report is the socket of a standby that has a job and may report its exit code. It is nil if
	// the standby has no job, or if awaitReport has returned.
	report *os.File
}

// StartStandby starts a standby from the Argv, Arg0, Env and Dir of a spec. Its ExtraFiles become
// the descriptors 3 and up, and the next descriptor is its socket. StartStandby appends the number
// of the socket as the last argument.
func (s *Supervisor) StartStandby(spec Spec) (*Standby, error) {
	ours, theirs, err := warmstart.Pair()
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(theirs), "standby")
	defer socket.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = unix.Close(ours)
		return nil, err
	}
	defer null.Close()
	cgroup, err := s.launchers().open()
	if err != nil {
		_ = unix.Close(ours)
		return nil, err
	}
	if cgroup >= 0 {
		defer unix.Close(cgroup)
	}
	spec.ExtraFiles = append(spec.ExtraFiles[:len(spec.ExtraFiles):len(spec.ExtraFiles)], socket)
	spec.Argv = append(spec.Argv[:len(spec.Argv):len(spec.Argv)], fmt.Sprint(2+len(spec.ExtraFiles)))
	fd := int(null.Fd())
	st := &Standby{s: s, socket: ours, ended: make(chan struct{})}
	pidfd := -1
	s.forks.RLock()
	s.mu.Lock()
	if err = errClosed; !s.closed {
		st.pid, pidfd, err = s.forkSpec(&spec, &ends{files: [3]int{fd, fd, fd}}, spec.Argv[0], cgroup)
	}
	if err == nil {
		s.pids[st.pid] = true
	}
	s.mu.Unlock()
	s.forks.RUnlock()
	if err != nil {
		_ = unix.Close(ours)
		return nil, err
	}
	s.wg.Go(func() { st.routineWaiter(pidfd) })
	return st, nil
}

// routineWaiter waits for the end, and reaps the program unless a Process or a Child does.
func (st *Standby) routineWaiter(pidfd int) {
	awaitEnd(st.pid, pidfd)
	st.mu.Lock()
	taken := st.taken
	st.over = true
	if !taken {
		st.closeSocket()
		waitStatus(st.pid)
	}
	st.stopReport()
	st.mu.Unlock()
	close(st.ended)
	if !taken {
		st.s.mu.Lock()
		delete(st.s.pids, st.pid)
		st.s.mu.Unlock()
		st.s.lookForOrphans()
	}
}

// Close ends a standby that was not used, without waiting. It does nothing if the standby was used
// or closed, or is nil.
func (st *Standby) Close() {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closeSocket()
}

func (st *Standby) closeSocket() {
	if st.socket >= 0 {
		_ = unix.Close(st.socket)
		st.socket = -1
	}
}

// Ended is closed when the program has ended.
func (st *Standby) Ended() <-chan struct{} { return st.ended }

// giveJob passes the spec to the standby, and reports whether the standby has accepted it. If so,
// the caller reaps the program after its end. If not, the standby is useless, and the caller must
// start the program. cgroup is the directory of the cgroup in which the standby starts its
// children, or -1. limited means that the standby must not start them elsewhere. With report, the
// caller calls awaitReport.
func (st *Standby) giveJob(spec *Spec, e *ends, cgroup int, limited, report bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.socket < 0 || !spec.reachable() {
		return false
	}
	defer st.closeSocket()
	o := &warmstart.Job{Args: spec.Argv[1:], Terminal: spec.TTY, Cgroup: cgroup >= 0, Limited: limited, Report: report, Files: e.files[:]}
	for _, f := range spec.ExtraFiles {
		o.Files = append(o.Files, int(f.Fd()))
	}
	if o.Cgroup {
		o.Files = append(o.Files, cgroup)
	}
	if err := warmstart.Send(st.socket, o); err != nil {
		_ = syscall.Kill(st.pid, syscall.SIGKILL)
		st.s.log.Warn("a program that was started ahead of need cannot be used", "pid", st.pid, "error", err)
		return false
	}
	st.taken = true
	if report && unix.SetNonblock(st.socket, true) == nil {
		st.report, st.socket = os.NewFile(uintptr(st.socket), "report"), -1
		if st.over {
			st.stopReport()
		}
	}
	return true
}

// stopReport makes awaitReport return, because the program has ended and its exit status replaces
// the report. st.mu must be held.
func (st *Standby) stopReport() {
	if st.report != nil {
		_ = st.report.SetReadDeadline(time.Unix(1, 0))
	}
}

// awaitReport waits for the exit code that a program reports before it ends. It returns false if
// there is no report; the caller then uses the exit status. A program that has reported must still
// be waited for and reaped.
func (st *Standby) awaitReport() (end ending, reported bool) {
	if st == nil {
		return end, false
	}
	st.mu.Lock()
	f := st.report
	st.mu.Unlock()
	if f == nil {
		return end, false
	}
	code, used, err := warmstart.ReadReport(f)
	st.mu.Lock()
	st.report = nil
	st.mu.Unlock()
	_ = f.Close()
	return ending{code: code, usage: usageOfReport(used)}, err == nil
}

// reachable reports whether the working directory can be entered. If not, the start of the program
// determines the reason.
func (spec *Spec) reachable() bool {
	return lookUp(context.Background(), func() error {
		var st unix.Stat_t
		if err := unix.Stat(spec.Dir, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.ENOTDIR
		}
		return unix.Faccessat(unix.AT_FDCWD, spec.Dir, unix.X_OK, unix.AT_EACCESS)
	}) == nil
}

// giveJob passes the spec to its standby, if it has one. If the standby does not accept it, giveJob
// removes the standby from the spec.
func (spec *Spec) giveJob(e *ends, cgroup int, limited, report bool) bool {
	if spec.Standby != nil && spec.Standby.giveJob(spec, e, cgroup, limited, report) {
		return true
	}
	spec.Standby = nil
	return false
}

// await returns when a program has ended, as awaitEnd does.
func (st *Standby) await(pid, pidfd int) bool {
	if st == nil {
		return awaitEnd(pid, pidfd)
	}
	<-st.ended
	return true
}
