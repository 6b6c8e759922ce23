package process

import (
	"errors"
	"os"
)

// ErrNoKeepers is the error of StartKeeper on a supervisor that cannot have keepers.
var ErrNoKeepers = errors.New("a program may outlive this one only with Options.Subreaper")

// StartKeeper starts a program that continues however this program ends. The program leads its own
// session, is in none of the Supervisor's cgroups, gets no parent-death signal, and neither Close
// nor the watchdog ends it. If it ends before this program, it is reaped. StartKeeper uses Argv,
// Arg0, Dir, Env and ExtraFiles of the spec, and returns the pid. stdin and stderr belong to the
// caller; standard output is the null device. The error is a *ShortageError if a later start may
// succeed.
func (s *Supervisor) StartKeeper(spec Spec, stdin, stderr *os.File) (pid int, err error) {
	if !s.opts.Subreaper {
		return 0, ErrNoKeepers
	}
	spec.outlives, spec.TTY = true, false
	if err := spec.check(); err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	s.forks.RLock()
	defer s.forks.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	files := [3]int{int(stdin.Fd()), int(null.Fd()), int(stderr.Fd())}
	pid, pidfd, err := spec.fork(&ends{files: files}, ownProgram(spec.Argv[0]), -1)
	if err != nil {
		return 0, explainShortage(err)
	}
	if pidfd >= 0 {
		_ = os.NewFile(uintptr(pidfd), "pidfd").Close()
	}
	s.keepers[pid] = true
	return pid, nil
}

// isKeeper reports whether a child is a keeper that has not been reaped.
func (s *Supervisor) isKeeper(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepers[pid]
}
