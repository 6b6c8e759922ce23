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
	alive   [2]int // a pair of sockets: the janitor's, and that which the launcher and the sandbox hold
	janitor int
	cgroup  int // see options
}

// placeStubs makes or joins the stubs of the plan, and drops covers where the
// user has something of their own. The launcher outlives the program that started
// it until the janitor runs: no other process knows of the stubs. Without mounts
// there are no stubs.
func (l *launch) placeStubs(mounts bool) (*stubs, error) {
	wanted := mounts && slices.ContainsFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Cover || m.Perhaps })
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
		return nil, errors.New("cannot make the sandbox: the program that started the launcher has ended")
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

// takeStubs starts the janitor before it makes the first stub: a launcher may be
// killed at any moment.
func (l *launch) takeStubs(wanted bool) (*stubs, error) {
	s := &stubs{alive: [2]int{-1, -1}, cgroup: l.cgroup}
	var mounts []sandbox.Mount
	if wanted {
		mounts = l.plan.Mounts
	}
	defer func() {
		l.plan.Mounts = slices.DeleteFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Kind == 0 })
	}()
	opened := make([]*sandbox.Stub, len(mounts))
	var err error
	for i := range mounts {
		if m := &mounts[i]; err == nil && (m.Cover || m.Perhaps) {
			opened[i], err = m.OpenStub()
		}
	}
	if err == nil {
		err = s.watchOver(l.plan.Undo, opened)
	}
	names := len(l.plan.Undo)
	if err == nil {
		err = l.holdStubs(s, mounts, opened)
	}
	if err == nil && len(l.plan.Undo) > names {
		old := &stubs{alive: s.alive, janitor: s.janitor}
		s.undo.Stop()
		err = s.watchOver(l.plan.Undo, s.held)
		old.dismiss()
	}
	if err != nil {
		for _, stub := range opened {
			stub.Close()
		}
		s.remove()
		return nil, ifAppeared(err)
	}
	return s, nil
}

// watchOver opens the directories of names that must be missing, and starts a
// janitor for them and for stubs. Those that are nil are none.
func (s *stubs) watchOver(names []sandbox.UndoName, opened []*sandbox.Stub) (err error) {
	s.alive, s.janitor = [2]int{-1, -1}, 0
	if s.undo, err = sandbox.OpenUndo(names); err != nil {
		return err
	}
	if s.undo == nil && !slices.ContainsFunc(opened, func(o *sandbox.Stub) bool { return o != nil }) {
		return nil
	}
	return s.startJanitor(opened)
}

// holdStubs makes or joins the stubs that were opened for mounts, and takes them out
// of the list.
func (l *launch) holdStubs(s *stubs, mounts []sandbox.Mount, opened []*sandbox.Stub) error {
	for i := range mounts {
		m := &mounts[i]
		if !m.Cover && !m.Perhaps {
			continue
		}
		stub, err := opened[i], error(nil)
		if opened[i] = nil; stub != nil {
			stub, err = stub.Hold(m, func(fd int) error { return s.share(i, fd) })
		}
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
			return err
		}
		switch {
		case stub != nil:
			s.held = append(s.held, stub)
			// Only the placeholder may be there when the view is made.
			m.File, m.ID = !stub.IsDir(), stub.ID()
			if m.Kind != sandbox.BindReadOnly {
				m.Kind = sandbox.EmptyDir
				if m.File {
					m.Kind = sandbox.EmptyFile
				}
			}
		case m.Cover && m.Kind != sandbox.BindReadOnly:
			return &changed{fmt.Errorf("cannot make the sandbox: %s was made while the sandbox was being prepared", m.Target)}
		}
	}
	return nil
}

// share gives the janitor a descriptor of a stub: until the janitor has read it,
// the socket holds it.
func (s *stubs) share(i, fd int) error {
	message := [2]int32{int32(i)}
	err := unix.Sendmsg(s.alive[1], unsafe.Slice((*byte)(unsafe.Pointer(&message)), unsafe.Sizeof(message)), unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
	if err != nil {
		return fmt.Errorf("tell the janitor: %w", err)
	}
	return nil
}

// ifAppeared returns an error that has the plan made again if something has moved.
func ifAppeared(err error) error {
	if errors.Is(err, sandbox.ErrAppeared) {
		return &changed{err}
	}
	return err
}

// startJanitor forks the janitor.
func (s *stubs) startJanitor(opened []*sandbox.Stub) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	s.alive = pair
	j := &janitor{prepare: &program{}, cgroup: s.cgroup, socket: uintptr(s.alive[0]), stubs: opened}
	j.vector.Base, j.vector.Len = (*byte)(unsafe.Pointer(&j.message)), uint64(unsafe.Sizeof(j.message))
	j.header.Iov, j.header.Iovlen, j.header.Control = &j.vector, 1, &j.control[0]
	keep := []int{s.alive[0]}
	for _, stub := range opened {
		if stub == nil {
			continue
		}
		parent, fd := stub.FDs()
		if keep = append(keep, parent); fd >= 0 {
			keep = append(keep, fd)
		}
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
// must not be created, when the launcher has been killed and no process is left in
// the sandbox.
type janitor struct {
	prepare *program
	cgroup  int // see options
	socket  uintptr
	stubs   []*sandbox.Stub // some are nil
	undo    []*sandbox.Removal
	remover sandbox.Remover
	message [2]int32
	control [rightsSize]byte
	vector  unix.Iovec
	header  unix.Msghdr
	poll    unix.PollFd
}

// rightsSize is the size of a control message with one descriptor.
const rightsSize = (unix.SizeofCmsghdr + 4 + 7) &^ 7

//go:nosplit
//go:norace
//go:noinline
func (j *janitor) fork() (int, syscall.Errno) {
	pid, errno := clone(0, j.cgroup)
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
			if j.stubs[i] != nil {
				j.remover.RemoveStub(j.stubs[i])
				j.remover.RemoveHalfMade(j.stubs[i])
			}
		}
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// wait waits for the end of the launcher, and then of the sandbox. It reports
// whether there is something to do. A message of one byte says that the launcher
// does it, one of four is the process whose end is that of the sandbox, and one of
// eight brings the descriptor of a stub.
//
//go:nosplit
//go:norace
func (j *janitor) wait() bool {
	for {
		j.header.Controllen = rightsSize
		n, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, j.socket, uintptr(unsafe.Pointer(&j.header)), unix.MSG_CMSG_CLOEXEC)
		switch {
		case errno == unix.EINTR:
		case errno != 0 || n == 1:
			return false
		case n == 4:
			if fd, _, errno := syscall.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(j.message[0]), 0, 0); errno == 0 {
				j.poll.Fd, j.poll.Events = int32(fd), unix.POLLIN
			}
		case n == 8:
			fd := *(*int32)(unsafe.Pointer(&j.control[unix.SizeofCmsghdr]))
			if i := int(j.message[0]); i >= 0 && i < len(j.stubs) && j.stubs[i] != nil && j.header.Controllen > unix.SizeofCmsghdr {
				j.stubs[i].Adopt(int(fd))
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
	s.dismiss()
}

// dismiss tells the janitor that there is nothing to do for it, and waits for its
// end.
func (s *stubs) dismiss() {
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
