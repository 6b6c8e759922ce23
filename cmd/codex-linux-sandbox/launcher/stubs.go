//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// stubs are what the plan's covers are mounted on, and the names that are
// removed when they appear. The launcher does that when the sandbox has ended,
// or, when the launcher is killed, a janitor: a process that does nothing but
// wait for that.
type stubs struct {
	held    []*sandbox.Stub
	undo    *sandbox.Undo
	alive   [2]int // a pipe whose other end the launcher and the sandbox hold
	janitor int
}

// placeStubs makes or joins the stubs of the plan, and drops covers where the
// user has something of their own. The launcher outlives whoever started it
// until the janitor is there: nobody else knows of the stubs. Without mounts
// there are no stubs.
func (l *launch) placeStubs(mounts bool) (*stubs, error) {
	wanted := mounts && slices.ContainsFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Cover })
	if !wanted && len(l.plan.Undo) == 0 {
		return &stubs{alive: [2]int{-1, -1}}, nil
	}
	parent := unix.Getppid()
	death := deathSignal()
	// The janitor inherits the name.
	restore := rename(sandbox.JanitorName)
	setDeathSignal(0)
	s, err := l.takeStubs(wanted)
	setDeathSignal(death)
	restore()
	if err == nil && death != 0 && unix.Getppid() != parent {
		s.remove()
		return nil, errors.New("cannot make the sandbox: who started it has ended")
	}
	return s, err
}

// deathSignal is what the launcher gets when its parent ends; 0 if nothing. It
// belongs to the thread that was the first.
func deathSignal() int32 {
	var sig int32
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0)
	return sig
}

func setDeathSignal(sig int32) { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(sig), 0, 0, 0) }

// rename names the thread, as ps shows it, and returns what restores its name.
func rename(name string) func() {
	var old [16]byte // the kernel's limit
	_ = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&old)), 0, 0, 0)
	text := append([]byte(name), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&old)), 0, 0, 0) }
}

func (l *launch) takeStubs(wanted bool) (*stubs, error) {
	s := &stubs{alive: [2]int{-1, -1}}
	var mounts []sandbox.Mount
	if wanted {
		mounts = l.plan.Mounts
	}
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
		var unmasked *sandbox.Unmasked
		if errors.As(err, &unmasked) {
			l.plan.Undo = append(l.plan.Undo, unmasked.UndoName)
			if err = nil; unmasked.Foreign {
				m.Kind = 0
				continue
			}
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
			return nil, &changed{fmt.Errorf("cannot make the sandbox: %s was made while the sandbox was being prepared", m.Target)}
		}
	}
	undo, err := sandbox.OpenUndo(l.plan.Undo)
	if s.undo = undo; err == nil && (len(s.held) > 0 || undo != nil) {
		err = s.startJanitor()
	}
	if err != nil {
		s.remove()
		if errors.Is(err, sandbox.ErrAppeared) {
			err = &changed{err}
		}
		return nil, err
	}
	return s, nil
}

// startJanitor forks the janitor.
func (s *stubs) startJanitor() error {
	if err := unix.Pipe2(s.alive[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	j := &janitor{prepare: &program{}, pipe: uintptr(s.alive[0]), stubs: s.held}
	keep := []int{s.alive[0]}
	for _, stub := range s.held {
		parent, fd := stub.FDs()
		keep = append(keep, parent, fd)
	}
	for _, r := range s.undo.Names() {
		keep = append(keep, r.FD())
		j.undo = append(j.undo, r)
	}
	slices.Sort(keep)
	p := j.prepare
	p.do("make a session", "", unix.SYS_SETSID)
	p.try(func() { p.do("change directory to", "/", unix.SYS_CHDIR, p.text("/")) })
	// It must hold nothing else: its end is not the end of the output.
	next := 0
	for _, fd := range slices.Compact(keep) {
		if fd > next {
			p.do("close", "descriptors", unix.SYS_CLOSE_RANGE, val(next), val(fd-1), val(0))
		}
		next = fd + 1
	}
	p.do("close", "descriptors", unix.SYS_CLOSE_RANGE, val(next), val(^uint32(0)), val(0))
	all, old := ^uint64(0), uint64(0)
	sigprocmask(&all, &old)
	pid, errno := j.fork()
	sigprocmask(&old, nil)
	if errno != 0 {
		return fmt.Errorf("start the janitor: %w", errno)
	}
	s.janitor = pid
	_ = unix.Close(s.alive[0])
	s.alive[0] = -1
	return nil
}

// watch tells the janitor whose end is the end of all in the sandbox. It comes
// before the command runs.
func (s *stubs) watch(init int) error {
	if s == nil || s.alive[1] < 0 {
		return nil
	}
	pid := int32(init)
	_, err := unix.Write(s.alive[1], unsafe.Slice((*byte)(unsafe.Pointer(&pid)), unsafe.Sizeof(pid)))
	if err != nil {
		return fmt.Errorf("tell the janitor: %w", err)
	}
	return nil
}

// janitor is a forked child, like the init, that removes stubs, and names that
// must not be created, when the launcher has been killed and nobody is left in
// the sandbox.
type janitor struct {
	prepare *program
	pipe    uintptr
	stubs   []*sandbox.Stub
	undo    []*sandbox.Removal
	remover sandbox.Remover
	message int32
	poll    unix.PollFd
}

//go:nosplit
//go:norace
//go:noinline
func (j *janitor) fork() (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	_, _ = j.prepare.run()
	if j.wait() {
		for i := range j.undo {
			j.remover.Remove(j.undo[i])
			j.remover.Tidy(j.undo[i])
		}
		for i := range j.stubs {
			j.remover.RemoveStub(j.stubs[i])
		}
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// wait waits for the end of the launcher, and then of the sandbox. It reports
// whether there is something to do: a single byte says that the launcher does
// it, four are the process whose end is that of the sandbox.
//
//go:nosplit
//go:norace
func (j *janitor) wait() bool {
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, j.pipe, uintptr(unsafe.Pointer(&j.message)), 4)
		switch {
		case errno == unix.EINTR:
		case errno != 0 || n == 1:
			return false
		case n == 4:
			if fd, _, errno := syscall.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(j.message), 0, 0); errno == 0 {
				j.poll.Fd, j.poll.Events = int32(fd), unix.POLLIN
			}
		default:
			for j.poll.Events != 0 {
				_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&j.poll)), 1, 0, 0, 8, 0)
				if errno != unix.EINTR {
					break
				}
			}
			return true
		}
	}
}

// appeared ends the watch of names that must not be created, and reports
// whether any was. It may be called on nil.
func (s *stubs) appeared() bool { return s != nil && s.undo.Stop() }

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
	s.undo.Stop()
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
