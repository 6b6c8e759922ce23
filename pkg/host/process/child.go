package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is a helper program of this program. It has pipes instead of an event log and has no
// cgroup, and it ends with this program. Its owner calls Wait exactly once. Kill may be called at
// any time, from any goroutine.
type Child struct {
	// Stdin, Stdout and Stderr are this program's ends of the pipes. The owner closes
	// them.
	Stdin, Stdout, Stderr *os.File

	s       *Supervisor
	standby *Standby // nil: the program was started
	pid     int
	pidfd   int

	mu     sync.Mutex
	reaped bool // its pid may belong to another process
}

// StartChild starts a program in its own session. It uses Argv, Arg0, Dir, Env, ExtraFiles and
// Standby of the spec, and ignores the other fields. The error is a *ShortageError if a later start
// may succeed.
func (s *Supervisor) StartChild(spec Spec) (*Child, error) {
	c, err := s.startChild(spec)
	return c, explainShortage(err)
}

func (s *Supervisor) startChild(spec Spec) (*Child, error) {
	defer spec.Standby.Close() // unless it is used
	spec.PipeStdin, spec.TTY = true, false
	if err := spec.check(); err != nil {
		return nil, err
	}
	program, err := spec.find(context.Background())
	if err != nil {
		return nil, err
	}
	s.watchdog.start(s)
	e, err := openEnds(&spec)
	if err != nil {
		return nil, err
	}
	c := &Child{s: s, Stdin: asFile(e.stdin), Stdout: asFile(e.streams[0].file), Stderr: asFile(e.streams[1].file)}
	err = c.fork(&spec, e, program)
	e.closeChild()
	if err != nil {
		e.closeOurs()
		return nil, err
	}
	s.watchdog.started(c.pid, true)
	return c, nil
}

// asFile returns an end that was made by openEnds.
func asFile(end File) *os.File {
	f, _ := end.(*os.File)
	return f
}

// fork starts the program, or passes the spec to its standby. It registers the pid, so that the
// child is not reaped as an orphan.
func (c *Child) fork(spec *Spec, e *ends, program string) (err error) {
	s := c.s
	// giveJob is called without the lock, because it waits for an answer. The supervisor already
	// knows the pid.
	if spec.giveJob(e, -1, false, false) {
		c.standby, c.pid, c.pidfd = spec.Standby, spec.Standby.pid, -1
		return nil
	}
	s.forks.RLock()
	defer s.forks.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	c.pid, c.pidfd, err = s.forkSpec(spec, e, program, -1)
	if err == nil {
		s.pids[c.pid] = true
	}
	return err
}

// Kill ends the program with SIGKILL.
func (c *Child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
	}
}

// Wait waits for the end of the program and returns how it ended.
func (c *Child) Wait() (syscall.WaitStatus, error) {
	c.standby.await(c.pid, c.pidfd)
	c.s.watchdog.ended(c.pid)
	status, err := c.reap()
	c.s.mu.Lock()
	delete(c.s.pids, c.pid)
	c.s.mu.Unlock()
	c.s.lookForOrphans()
	if err != nil {
		return 0, fmt.Errorf("wait for process %d: %w", c.pid, err)
	}
	return status, nil
}

// Output runs a command of the server itself, such as a probe, and returns its standard output. The
// caller bounds the time by the command's context. A program with a supervisor must not call
// cmd.Output: routineOrphans would reap the unknown child as an orphan, and cmd.Wait would find no
// child.
func (s *Supervisor) Output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := s.startCommand(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	s.mu.Lock()
	delete(s.pids, cmd.Process.Pid)
	s.mu.Unlock()
	s.lookForOrphans()
	return out.Bytes(), err
}

// startCommand starts a command and registers its pid.
func (s *Supervisor) startCommand(cmd *exec.Cmd) error {
	s.forks.RLock()
	defer s.forks.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.pids[cmd.Process.Pid] = true
	return nil
}

func (c *Child) reap() (status syscall.WaitStatus, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	for {
		_, err = syscall.Wait4(c.pid, &status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}
