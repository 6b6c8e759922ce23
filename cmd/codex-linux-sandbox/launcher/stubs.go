//go:build linux

package launcher

import (
	"errors"
	"path"
	"slices"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// stubs are what the plan's covers are mounted on. They are removed by the
// launcher when the sandbox has ended, or, when the launcher is killed, by a
// janitor: a process that does nothing but wait for that.
type stubs struct {
	held    []*sandbox.Stub
	alive   [2]int // a pipe whose other end the launcher and the sandbox hold
	janitor int
}

// placeStubs makes or joins the stubs of the plan, and drops covers where the
// user has something of their own.
func (l *launch) placeStubs() (*stubs, error) {
	s := &stubs{alive: [2]int{-1, -1}}
	mounts := l.plan.Mounts
	defer func() {
		l.plan.Mounts = slices.DeleteFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Kind == 0 })
	}()
	for i := range mounts {
		m := &mounts[i]
		if !m.Cover {
			continue
		}
		stub, err := sandbox.TakeStub(m.Target, !m.File)
		if errors.Is(err, sandbox.ErrNotNeeded) {
			if m.Kind != sandbox.BindReadOnly {
				m.Kind = 0
			}
			continue
		}
		if err != nil {
			s.remove()
			return nil, err
		}
		switch {
		case stub != nil:
			s.held = append(s.held, stub)
			m.File = !stub.IsDir()
			if m.Kind != sandbox.BindReadOnly {
				m.Kind = sandbox.EmptyDir
				if m.File {
					m.Kind = sandbox.EmptyFile
				}
			}
		case m.Kind != sandbox.BindReadOnly:
			s.remove()
			return nil, errors.New("cannot make the sandbox: " + m.Target + " was made while the sandbox was being prepared; try again")
		}
	}
	if len(s.held) == 0 {
		return s, nil
	}
	if err := s.startJanitor(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// startJanitor forks the janitor.
func (s *stubs) startJanitor() error {
	if err := unix.Pipe2(s.alive[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	p := &program{}
	keep := []int{s.alive[0]}
	for _, stub := range s.held {
		parent, fd := stub.FDs()
		keep = append(keep, parent, fd)
	}
	slices.Sort(keep)
	p.do("make a session", "", unix.SYS_SETSID)
	// It must hold nothing else: its end is not the end of the output.
	next := 0
	for _, fd := range slices.Compact(keep) {
		if fd > next {
			p.do("close", "descriptors", unix.SYS_CLOSE_RANGE, val(next), val(fd-1), val(0))
		}
		next = fd + 1
	}
	p.do("close", "descriptors", unix.SYS_CLOSE_RANGE, val(next), val(^uint32(0)), val(0))
	// A byte says that the launcher has done the work.
	p.do("wait for", "the launcher", unix.SYS_READ, val(s.alive[0]), slice(p, make([]byte, 1)), val(1)).none = true
	for _, stub := range s.held {
		parent, fd := stub.FDs()
		flags := 0
		if stub.IsDir() {
			flags = unix.AT_REMOVEDIR
		}
		p.try(func() {
			p.do("lock", stub.Path, unix.SYS_FLOCK, val(fd), val(unix.LOCK_EX|unix.LOCK_NB))
			p.do("remove", stub.Path, unix.SYS_UNLINKAT, val(parent), p.text(path.Base(stub.Path)), val(flags))
		})
	}
	c := &crew{init: p, status: -1}
	pid, errno := c.startAlone()
	if errno != 0 {
		return errno
	}
	s.janitor = pid
	_ = unix.Close(s.alive[0])
	s.alive[0] = -1
	return nil
}

// startAlone forks a child that runs the init's program and ends.
func (c *crew) startAlone() (int, unix.Errno) {
	all, old := ^uint64(0), uint64(0)
	sigprocmask(&all, &old)
	pid, errno := c.forkAlone()
	sigprocmask(&old, nil)
	return pid, errno
}

//go:nosplit
//go:norace
//go:noinline
func (c *crew) forkAlone() (int, unix.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	_, _ = c.init.run()
	c.end(0)
	return 0, 0
}

// remove lets go of the stubs, and of the janitor. It may be called on nil,
// and more than once.
func (s *stubs) remove() {
	if s == nil {
		return
	}
	for _, stub := range s.held {
		stub.Release()
	}
	s.held = nil
	for i, fd := range s.alive {
		if fd < 0 {
			continue
		}
		if i == 1 {
			_, _ = unix.Write(fd, []byte{1})
		}
		_ = unix.Close(fd)
		s.alive[i] = -1
	}
	if s.janitor > 0 {
		_, _ = wait(s.janitor)
		s.janitor = 0
	}
}
