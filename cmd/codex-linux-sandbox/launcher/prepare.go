package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// A launcher that waits for an order can be told of a policy that is likely to be that of
// the order: the one of the last commands. It then makes the sandbox ahead, up to what
// depends on the command and what others would notice: the placeholders of names that are
// missing, and the command's directory, descriptors and environment. Namespaces and the
// view take most of the time of a start.
//
// The order says all of its policy, and the launcher plans it as always; if the policy is the
// one of the prepared sandbox, it asks the file system all that it asked for that plan, which is
// the same if the answers are (sandbox.Kept). The prepared sandbox is used only if it is what this
// plan would make now:
//
//   - the plan has the same mounts of the same files (fits), but for those that are made with the order
//     (mountahead.go), and nothing has been mounted or unmounted on the host since;
//   - each mount is still where it was made (mounter.checkKept). Scenario: /w/secret is masked, and
//     is removed and made again while the sandbox waits. The kernel takes the mask away with
//     the old file, and the new one may have the same inode number. In the view its path leads
//     to another mount then.
//
// Otherwise the sandbox is thrown away, and one is made as if none had been prepared.
// No command has run in a prepared sandbox, and it is used once.
//
// The sandbox of file requests that change nothing is made before their policy is known: it hides what the server hides, and has
// spare masks for what the policy of the order denies.
//
// The init shares its table of descriptors with the launcher until the order has come, and
// has a copy from then on, as any child has.

const (
	// preparedMounts bounds the mounts of a plan that is prepared: each is some ten steps.
	preparedMounts = 256
	// preparedSteps and preparedRegisters are what such a plan and its command need. If
	// they are too few, the sandbox is made when it is needed.
	preparedSteps     = 32 * preparedMounts
	preparedRegisters = 8 * preparedMounts
	commandSteps      = 128
	// sparedNamespaces is how many namespaces of a kind a user must be allowed to have for
	// one to be made ahead: a sandbox that waits must not keep another from starting.
	sparedNamespaces = 256
)

// prepared is a sandbox whose init waits for the rest of its program.
type prepared struct {
	s        *supervisor
	kept     *sandbox.Kept // its plan; nil: it must be made again
	view     *mounter
	masks    []madeMask // of the view, as they were made
	wall     *ruleset
	arena    *arena
	pid      int
	ended    int // readable when the init has ended
	made     surroundings
	reserved int     // for the wall; see launch
	mounts   int     // tells of changes of the launcher's mounts
	mounted  bool    // it has told of one
	launcher int     // the launcher itself, for the init
	now      *launch // of the order
	// actions are what the launcher did before with the signals that it ignores, as the
	// init has them for the command; nil: it does not ignore them yet.
	actions []action
}

// errUnprepared says that no sandbox is made ahead for a policy.
var errUnprepared = errors.New("no sandbox is made ahead for this policy")

// prepare makes the sandbox of an order that is to come. After an error that is not
// errUnprepared the launcher must end.
func prepare(order *warmstart.Order) (*prepared, error) {
	o, err := orderOptions(order)
	if err != nil {
		return nil, err
	}
	l := &launch{options: o, stderr: io.Discard}
	// The launch closes what it reads.
	defer l.closeOrder(order)
	a := &prepared{}
	// Before the plan, so that no mount is missed.
	if a.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("watch the mounts: %w", err)
	}
	if err := l.policy(); err != nil {
		return nil, err
	}
	if !l.usual() {
		_ = unix.Close(a.mounts)
		return nil, errUnprepared
	}
	if l.reading {
		err = l.makePlan() // the order's is another one
	} else {
		l.plan, a.kept, err = sandbox.MakeKept(l.prof, l.scope)
	}
	if err != nil {
		return nil, err
	}
	if !l.preparable() || !namespacesToSpare() {
		_ = unix.Close(a.mounts)
		return nil, errUnprepared
	}
	if err := errors.Join(l.reserve(), a.build(l)); err != nil {
		return nil, err
	}
	if err := a.start(); err != nil {
		return nil, err
	}
	l.rehearse(order.Args)
	if a.kept != nil {
		_ = a.kept.Again()
	}
	return a, nil
}

// rehearse does once what comes with the order, and drops it. The fork has made the memory of
// the launcher one that is copied page by page when it is written to, which takes half a
// millisecond of a start otherwise.
func (l *launch) rehearse(args []string) {
	o, err := parse(args)
	if err != nil {
		return
	}
	// These are not the numbers of descriptors here, and what they were has been read.
	o.envFD, o.profileFD, o.profile = -1, -1, l.profile
	r := &launch{options: o, stderr: io.Discard}
	if errors.Join(r.policy(), r.makePlan()) != nil {
		return
	}
	_, _ = inheritedDescriptors()
	_, _ = prepareExec(r.command, os.Environ(), r.command[0], -1)
	s := &supervisor{l: r, processes: &processes{init: newProgram(), command: newProgram()}, stubs: &stubs{}}
	s.processes.command.prepareCommand(false)
	s.processes.command.restoreSignals(new(uint64))
	s.confine(nil)
}

// closeOrder closes the descriptors of an order that is not carried out and that it has not read.
func (l *launch) closeOrder(order *warmstart.Order) {
	closeSelf(l.options)
	for _, fd := range order.Files[:standardFiles] {
		_ = unix.Close(fd)
	}
	if l.cgroup > 0 {
		_ = unix.Close(l.cgroup)
	}
}

// await waits until an order comes, and reports whether the sandbox is still of use then.
// When something is mounted or unmounted on the host, it is thrown away at once: it would keep a file
// system in use that its user has just unmounted.
func (a *prepared) await(socket int) bool {
	for {
		events := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}, {Fd: int32(a.mounts), Events: unix.POLLPRI}, {Fd: int32(a.ended), Events: unix.POLLIN}}
		_, err := unix.Poll(events, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || events[1].Revents != 0 || events[2].Revents != 0:
			a.discard()
			return false
		case events[0].Revents != 0:
			return true
		}
	}
}

// build appends what the init does before the order.
func (a *prepared) build(l *launch) (err error) {
	if a.arena, err = newArena(); err != nil {
		return err
	}
	if a.launcher, err = unix.PidfdOpen(os.Getpid(), 0); err != nil {
		return fmt.Errorf("open the launcher: %w", err)
	}
	p := a.arena.program(preparedSteps, preparedRegisters)
	c := &processes{
		init: p, command: a.arena.program(commandSteps, commandSteps), exec: &room[execution](a.arena, 1)[0],
		cgroup: l.cgroup, limited: true, flags: l.namespaces() | unix.CLONE_FILES,
	}
	a.s, a.made, a.reserved = &supervisor{l: l, processes: c}, l.surroundings(), l.reserved
	if err := a.s.openPipes(); err != nil {
		return err
	}
	p.endWith(unix.SIGKILL)
	// It may have ended before that. The gate does not tell, as the init holds both ends of it.
	p.lookFor(a.launcher, unix.POLLIN)
	enter(p)
	a.s.entered = len(p.steps)
	a.wall = l.wall(p, l.rules())
	a.view = &mounter{program: p, plan: l.plan, wall: a.wall, helper: l.helper, reading: l.reading, keeping: true}
	if l.reading {
		a.view.spare = sandbox.SpareMasks
	}
	a.view.ahead()
	a.masks = slices.Clone(a.view.masks)
	if l.plan.OwnNetwork() {
		p.loopback()
	}
	p.dropBounding()
	a.s.bounded = true
	p.undumpable()
	a.wait()
	if a.arena.full {
		return errors.New("the plan is too long")
	}
	return nil
}

// wait appends that the init tells the launcher that it has come to its gate, and waits there.
func (a *prepared) wait() {
	p := a.s.processes.init
	p.do("tell", "the launcher", unix.SYS_WRITE, val(a.s.status[1]), pointer(p, &report{stage: stageWaiting}), val(unsafe.Sizeof(report{}))).full = true
	a.s.await()
}

// start forks the init, and waits until it waits.
func (a *prepared) start() error {
	// A signal ends the launcher, as any that waits, until the init passes them on.
	pid, errno := a.s.processes.start(false)
	if errno != 0 {
		return forkError("make namespaces", errno)
	}
	var err error
	a.pid = pid
	if a.ended, err = unix.PidfdOpen(pid, 0); err != nil {
		return fmt.Errorf("watch the sandbox: %w", err)
	}
	return a.arrived()
}

// arrived waits until the init has come to its gate. The error is that of the step
// that failed.
func (a *prepared) arrived() error {
	// The launcher has the other end of the pipe as well, so that the end of the init does not
	// close it.
	events := []unix.PollFd{{Fd: int32(a.s.status[0]), Events: unix.POLLIN}, {Fd: int32(a.ended), Events: unix.POLLIN}}
	_, err := unix.Poll(events, -1)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(events, -1)
	}
	var told *report
	if err == nil && events[0].Revents != 0 {
		told, err = a.s.told()
	}
	switch {
	case err != nil:
		return err
	case told == nil:
		return &changed{errors.New("the sandbox that was made ahead has ended")}
	case told.stage != stageWaiting:
		_, err = a.s.explain(*told)
		return err
	}
	return nil
}

// discard ends the init, and lets go of all that was made for it. A signal that was to end the
// launcher, and that has come to the init alone, ends the launcher now.
func (a *prepared) discard() {
	came := uint64(0)
	for i, old := range a.actions {
		setAction(forwarded[i], &old)
	}
	if len(a.actions) > 0 {
		came = pendingSignals(a.pid)
	}
	_ = unix.Kill(a.pid, unix.SIGKILL)
	_, _ = wait(a.pid)
	a.closeShared()
	a.s.release()
	endBy(came)
}

// endBy ends the launcher if a signal that ends it is among those that have come, to which nobody listens any more, for a
// command that has not run.
func endBy(came uint64) {
	for _, s := range ending {
		if came&bit(s) != 0 && !ignored(s) {
			setAction(s, &action{}) // the Go runtime prints a trace for SIGQUIT
			_ = unix.Kill(os.Getpid(), s)
		}
	}
}

// closeShared closes what the launcher has for an init that waits, and what that has opened in
// the table of descriptors that it shared with the launcher, and has not closed. The reserved one
// leads into the view. The init has a copy of the table, or has ended.
func (a *prepared) closeShared() {
	for _, fd := range []int{a.mounts, a.launcher, a.ended, a.reserved} {
		_ = unix.Close(fd)
	}
	held := []register{a.view.root}
	for _, k := range a.masks {
		held = append(held, k.fd)
	}
	if a.wall != nil {
		held = append(held, a.wall.fd)
	}
	for _, r := range held {
		if r != 0 {
			_ = unix.Close(int(a.s.processes.init.regs[r-1]))
		}
	}
}

// run lets the init go on, with the command of the launch that it fits, and returns how
// that ended. An error that is a *changed says that the sandbox could not be used, and that
// nothing has run.
func (a *prepared) run() (int, error) {
	code, err := a.finish()
	var not *unavailable
	if errors.As(err, &not) {
		err = &changed{not.err}
	}
	return code, err
}

func (a *prepared) finish() (int, error) {
	s, l := a.s, a.now
	defer s.release()
	s.l = l
	if err := s.connect(); err != nil {
		a.discard()
		return 0, err
	}
	if err := a.takeOver(); err != nil {
		a.discard()
		return 0, err
	}
	// The init looks at its view while the launcher makes placeholders.
	if err := a.complete(); err != nil {
		a.discard()
		return 0, err
	}
	if err := a.arrived(); err != nil {
		a.discard()
		return 0, err
	}
	a.closeShared()
	l.begun() // the janitor answers meanwhile
	if err := s.stubs.await(); err != nil {
		return 0, err
	}
	if err := s.open(); err != nil {
		return 0, err
	}
	if s.connector != nil {
		s.connector.serve()
	}
	return s.outcome(&relay{pid: a.pid})
}

// takeOver has the init take a copy of the descriptors, those of the order among them, and
// look whether its view is what it was.
func (a *prepared) takeOver() error {
	s, p := a.s, a.s.processes.init
	p.dropSignals()
	p.do("stop sharing", "descriptors", unix.SYS_UNSHARE, val(unix.CLONE_FILES))
	for _, fd := range []int{s.gate[1], a.mounts, a.launcher, a.ended, s.l.report} {
		if fd > 0 {
			p.do("close", "a descriptor of the launcher", unix.SYS_CLOSE, val(fd))
		}
	}
	a.view.checkKept()
	a.wait()
	if a.arena.full {
		return &changed{errors.New("the command is too long for a sandbox that was made ahead")}
	}
	for _, sig := range forwarded {
		a.actions = append(a.actions, ignore(sig))
	}
	return s.open()
}

// complete makes placeholders, and appends all that the init does with the order.
func (a *prepared) complete() (err error) {
	s, l, c := a.s, a.now, a.s.processes
	if s.stubs, err = l.placeStubs(true); err != nil {
		return err
	}
	// The janitor takes note while the rest is written.
	if err = s.stubs.complete(a.pid); err != nil {
		return err
	}
	if err = s.stubs.undo.Watch(); err != nil {
		return err
	}
	if a.view.lacksMask(l.plan.Mounts) {
		return &changed{errors.New("a placeholder of another kind than was expected is there")}
	}
	a.view.plan = l.plan
	a.view.late()
	s.confine(a.wall)
	c.init.do("close", "the gate", unix.SYS_CLOSE, val(s.gate[0]))
	c.command.prepareCommand(false)
	if l.static {
		c.command.restoreLimits(true)
	}
	c.command.restoreSignals(&c.mask)
	if err := a.command(); err != nil {
		return err
	}
	if a.arena.full {
		return &changed{errors.New("the command is too long for a sandbox that was made ahead")}
	}
	return nil
}

// command writes what is executed to where the init finds it.
func (a *prepared) command() error {
	l := a.now
	e, err := prepareExec(l.command, l.env, l.argv0(), l.execFD)
	if err != nil {
		return fmt.Errorf("prepare the command: %w", err)
	}
	e.share(a.arena)
	*a.s.processes.exec = *e
	return nil
}
