package process

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Janitor is a program that cleans up after other programs, even if this program is killed: it gets
// no parent-death signal, and its name is JanitorName. After the other end of its socket is closed,
// it finishes its work and ends; Supervisor.Close gives it janitorTime for that. A goroutine waits
// for its end. Its methods may be called from any goroutine.
type Janitor struct {
	s     *Supervisor
	pid   int
	ended chan struct{} // closed when the program has ended

	mu     sync.RWMutex
	socket int // -1: closed
	reaped bool
}

// StartJanitor starts a janitor from the Argv, Arg0, Env, Dir and ExtraFiles of a spec. socket is
// this program's end of the janitor's socket. The Janitor takes it over, and closes it if there is
// an error.
func (s *Supervisor) StartJanitor(spec Spec, socket int) (*Janitor, error) {
	spec.outlives = true
	j := &Janitor{s: s, socket: socket, ended: make(chan struct{})}
	pidfd, err := j.start(&spec)
	if err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	s.wg.Go(func() { j.routineWaiter(pidfd) })
	return j, nil
}

// start forks the program and registers it.
func (j *Janitor) start(spec *Spec) (pidfd int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return -1, err
	}
	defer null.Close()
	fd := int(null.Fd())
	s := j.s
	s.forks.RLock()
	defer s.forks.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return -1, errClosed
	}
	j.pid, pidfd, err = spec.fork(&ends{files: [3]int{fd, fd, fd}}, spec.Argv[0], -1)
	if err != nil {
		return -1, err
	}
	s.pids[j.pid], s.janitors[j] = true, true
	return pidfd, nil
}

// routineWaiter waits for the end, and reaps the program.
func (j *Janitor) routineWaiter(pidfd int) {
	awaitEnd(j.pid, pidfd)
	j.mu.Lock()
	j.closeSocket()
	waitStatus(j.pid)
	j.reaped = true
	j.mu.Unlock()
	close(j.ended)
	j.s.mu.Lock()
	delete(j.s.pids, j.pid)
	delete(j.s.janitors, j)
	j.s.mu.Unlock()
	j.s.lookForOrphans()
}

// Use calls f with the socket, and returns its error. The error is
// os.ErrProcessDone if the program has ended or must end.
func (j *Janitor) Use(f func(socket int) error) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.socket < 0 {
		return fmt.Errorf("the janitor: %w", os.ErrProcessDone)
	}
	return f(j.socket)
}

// closeSocket closes the socket, if it is open. j.mu must be held.
func (j *Janitor) closeSocket() {
	if j.socket >= 0 {
		_ = unix.Close(j.socket)
		j.socket = -1
	}
}

// Kill kills the program. The files that it would have removed remain.
func (j *Janitor) Kill() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closeSocket()
	if !j.reaped {
		_ = syscall.Kill(j.pid, syscall.SIGKILL)
	}
}

// closeJanitors tells the janitors to end, and kills those that have not ended
// after janitorTime. The processes that they clean up after have already ended.
func (s *Supervisor) closeJanitors() {
	s.mu.Lock()
	janitors := slices.Collect(maps.Keys(s.janitors))
	s.mu.Unlock()
	for _, j := range janitors {
		j.mu.Lock()
		j.closeSocket()
		j.mu.Unlock()
	}
	timer := time.NewTimer(janitorTime)
	defer timer.Stop()
	for _, j := range janitors {
		select {
		case <-j.ended:
		case <-timer.C:
			s.log.Warn("a sandbox's placeholders may be left: they were not removed in time", "time", janitorTime)
			timer.Reset(0) // for the others as well
			j.Kill()
		}
	}
}
