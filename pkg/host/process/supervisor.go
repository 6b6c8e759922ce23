// Package process starts programs and supervises them: pipes or a terminal, an
// ordered log of output, exit and close, signals, and the killing of every
// descendant.
//
// A Supervisor owns all processes. A Group is a set of processes that end together. A Process is
// one of them. Its events go to a Sink. A slow Sink slows only its own process.
//
// How descendants are killed depends on the machine:
//   - With a writable cgroup v2 every process has its own cgroup, and none of
//     its descendants can leave it. Terminate and Group.Close end all of them,
//     and so does the watchdog if this program is killed.
//   - Without a cgroup, descendants are found as children of children, by their
//     session and by their group. Terminate does not find a descendant in its own
//     session whose parent has ended. With Options.Subreaper such a descendant
//     becomes this program's child and ends with Supervisor.Close.
//   - The process itself always ends when this program does, by its
//     parent-death signal.
package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options configure a Supervisor. With the zero value a Supervisor affects only its own processes.
type Options struct {
	// Logger receives records about failures and fallbacks. Nil: no log.
	Logger *slog.Logger
	// Subreaper makes orphaned descendants children of this program, which then
	// reaps them. It is only for programs that have no other children, because
	// every child that the Supervisor did not start is reaped.
	Subreaper bool
	// Cgroups gives each process a cgroup if this program may make cgroups.
	Cgroups bool
	// NoLimits is the reason why cgroups must not limit processes; "": they may.
	NoLimits string
	// Watchdog is a command whose main function is RunWatchdog. It is started with the first
	// process, and ends the remaining processes if this program is killed. Empty: no watchdog.
	Watchdog []string
	// Limiter is a command whose main function is limiter.Run (pkg/host/limiter). It sets the resource
	// limits of processes that have some. Empty: no limits are set.
	Limiter []string
	// KillFirst makes the kernel kill processes before this program when memory is short. It also
	// affects processes that this program starts by other means at the same moment.
	KillFirst bool
	// Launch starts programs instead of the operating system, for a simulation. These programs have
	// neither limits nor terminals. Nil: the operating system starts them.
	Launch func(context.Context, *Spec) (Program, error)
}

// Supervisor starts processes and waits for them. Its methods may be called
// from any goroutine.
type Supervisor struct {
	opts     Options
	log      *slog.Logger
	dirs     sync.Once
	root     *cgroupRoot // nil: no cgroups; see cgroups
	limits   limitState
	watchdog watchdog
	oom      oomScore
	kills    memoryKills
	// commandTasks caches the result of CommandTasks.
	commandTasks func() uint64
	table        usageTable
	wg           sync.WaitGroup // every goroutine of every process

	// forks is held for reading during a fork until the pid is recorded, and for writing while an
	// orphan is reaped. So a new child is never mistaken for an orphan.
	forks sync.RWMutex

	mu     sync.Mutex
	pids   map[int]bool // children that a goroutine waits for
	groups map[*Group]bool
	closed bool
	// stopping means that the supervisor is about to be closed.
	stopping bool
	// janitors are the running janitors.
	janitors map[*Janitor]bool
	// keepers are children that outlive this program; see StartKeeper.
	keepers map[int]bool

	ending       chan struct{}  // one for each process that has reported its exit and is not reaped
	ignored      chan os.Signal // see resetIgnoredSignals
	child        chan os.Signal
	checkOrphans chan struct{}
	stop         chan struct{}
}

// NewSupervisor returns a supervisor without processes. Close must be called
// when it is no longer needed.
func NewSupervisor(opts Options) (*Supervisor, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{
		opts: opts, log: opts.Logger, kills: newMemoryKills(),
		pids: make(map[int]bool), groups: make(map[*Group]bool), janitors: make(map[*Janitor]bool), keepers: make(map[int]bool),
		ending: make(chan struct{}, maxEnding), ignored: make(chan os.Signal, 1),
		child: make(chan os.Signal, 1), checkOrphans: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.commandTasks = sync.OnceValue(s.findCommandTasks)
	resetIgnoredSignals(s.ignored)
	closeInheritedOnExec()
	if opts.Subreaper {
		adopts, err := becomeSubreaper()
		if err != nil {
			return nil, fmt.Errorf("become a subreaper: %w", err)
		}
		s.opts.Subreaper = adopts
	}
	if s.opts.Subreaper {
		signal.Notify(s.child, syscall.SIGCHLD)
		s.wg.Go(s.routineOrphans)
	}
	return s, nil
}

// cgroups returns the directory in which cgroups are created, or nil if that is not possible. It
// creates the directory with the first process, so that this does not delay the server's start.
func (s *Supervisor) cgroups() *cgroupRoot {
	s.dirs.Do(func() {
		if !s.opts.Cgroups {
			return
		}
		if limits, err := s.limitRoot(); err == nil {
			s.root = &limits.cgroupRoot
			return
		}
		root, err := newCgroupRoot()
		if err != nil {
			s.log.Info("no cgroups: descendants are found by their parents and sessions", "reason", err)
			return
		}
		s.root = root
		s.watchdog.send("c " + root.path)
	})
	return s.root
}

// launchers returns the cgroup for launchers that are started ahead. It is the zero value if there
// is no such cgroup.
func (s *Supervisor) launchers() cgroupDir {
	if root, err := s.limitRoot(); err == nil {
		return root.launchers
	}
	return cgroupDir{}
}

// CommandTasks returns the RLIMIT_NPROC of commands. 0 means that they have this program's limit,
// because a cgroup bounds them or because the kernel would not apply it. A Supervisor sets the
// limit for processes that it starts. A sandbox launcher must set it for its command before it
// creates the user namespace.
func (s *Supervisor) CommandTasks() uint64 { return s.commandTasks() }

func (s *Supervisor) findCommandTasks() uint64 {
	if s.opts.Launch != nil || os.Geteuid() == 0 {
		return 0
	}
	if root, err := s.limitRoot(); err == nil && root.have[pidsController] {
		return 0
	}
	return without(thisMachine().bound(), userTasks)
}

// Stopping announces Close. Processes whose groups are closed after this call end with
// CauseSupervisorClosed.
func (s *Supervisor) Stopping() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
}

// Close ends every process and waits for all of them.
func (s *Supervisor) Close() {
	s.Stopping()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	groups := make([]*Group, 0, len(s.groups))
	for g := range s.groups {
		groups = append(groups, g)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(g.Close)
	}
	wg.Wait()
	s.closeJanitors()
	if s.opts.Subreaper {
		s.killOrphans()
		signal.Stop(s.child)
	}
	s.removeCgroups()
	s.watchdog.close()
	close(s.stop)
	s.wg.Wait()
	s.oom.close()
	signal.Stop(s.ignored)
}

// Group is a set of processes that end together, such as those of a session.
type Group struct {
	s  *Supervisor
	cg cgroupDir
	// limitedCG is the cgroup for processes with limits that controllers enforce.
	limitedCG cgroupDir

	mu      sync.Mutex
	procs   map[*Process]bool
	leaders []int // ended session leaders, for groups without a cgroup
	closed  bool
	left    map[*Process]bool // have closed, but have a clock and descendants
}

// NewGroup returns an empty group. Close must be called when it is no longer
// needed.
func (s *Supervisor) NewGroup() *Group {
	g := &Group{s: s, procs: make(map[*Process]bool)}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.closed = s.closed
	s.groups[g] = true
	return g
}

// errClosed means that the group or the supervisor of a start is closed.
var errClosed = fmt.Errorf("no process can be started: %w", os.ErrClosed)

// Start starts a process. Its events go to sink after OpenGate is called. The context applies only
// to the start. The error is a *ShortageError if a later start may succeed.
func (g *Group) Start(ctx context.Context, spec Spec, sink Sink) (*Process, error) {
	defer spec.Standby.Close() // unless it is used
	p, err := g.start(ctx, spec, sink)
	return p, explainShortage(err)
}

func (g *Group) start(ctx context.Context, spec Spec, sink Sink) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	program, err := spec.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := g.s
	s.watchdog.start(s)
	held, limits, err := s.hold(&spec.Limits)
	if err != nil {
		return nil, err
	}
	if s.opts.Launch != nil {
		p := g.newProcess(spec, sink, held)
		if err := g.launch(ctx, p); err != nil {
			return nil, err
		}
		p.run(-1)
		return p, nil
	}
	e, err := openEnds(&spec)
	if err != nil {
		return nil, err
	}
	limited, err := s.limitedStart(&spec, program)
	if err != nil {
		e.closeChild()
		e.closeOurs()
		return nil, err
	}
	p := g.newProcess(spec, sink, held)
	p.streams, p.tty = e.streams, e.master
	p.stdin.file, p.stdin.tty, p.stdin.wg = e.stdin, e.master != nil, &s.wg
	if limited != nil {
		program = ownProgram(s.opts.Limiter[0])
	}
	pidfd := -1
	if p.cg, p.account, err = g.cgroup(limits, &spec.Limits); err == nil {
		pidfd, err = g.fork(p, e, program)
	}
	e.closeChild()
	if err != nil {
		e.closeOurs()
		p.removeCgroup()
		limited.close()
		return nil, err
	}
	s.watchdog.started(p.pid, p.cg.path == "")
	if err := limited.await(&spec); err != nil {
		g.undo(p, pidfd, e)
		return nil, err
	}
	p.addMisses()
	p.run(pidfd)
	return p, nil
}

// newProcess returns a process that has not been started.
func (g *Group) newProcess(spec Spec, sink Sink, held []Held) *Process {
	return &Process{
		group: g, spec: spec, held: held, sink: sink, gate: make(chan struct{}), finished: make(chan struct{}),
		win: window{size: clampWindow(spec.Window)}, killed: g.s.kills.count(),
	}
}

// undo waits for the end of a process whose program could not be executed.
func (g *Group) undo(p *Process, pidfd int, e *ends) {
	g.s.reap(p, pidfd)
	e.closeOurs()
	p.removeCgroup()
	g.remove(p)
	close(p.finished)
}

// cgroup creates a cgroup for one process, inside the group's cgroup. If limits is not nil, the
// cgroup has controllers, and the account with their counters is returned.
func (g *Group) cgroup(limits *limitRoot, l *Limits) (cgroupDir, *account, error) {
	if limits != nil {
		return g.limited(limits, l)
	}
	root := g.s.cgroups()
	if root == nil {
		return cgroupDir{}, nil, nil
	}
	g.mu.Lock()
	if g.cg.path == "" {
		g.cg = root.session()
	}
	parent := g.cg
	g.mu.Unlock()
	return parent.child(root), nil, nil
}

// removeCgroup removes the cgroup of the process if it is empty.
func (p *Process) removeCgroup() {
	p.account.close()
	p.cg.remove()
}

// fork starts the program, or passes the spec to its standby. It registers the process. The pidfd
// is -1 for a standby. The error is a *LimitError if the process needs a cgroup and has none.
func (g *Group) fork(p *Process, e *ends, program string) (pidfd int, err error) {
	s := g.s
	if err := p.refuseMisses(); err != nil {
		return -1, err
	}
	cgroup, err := p.cg.open()
	if err != nil {
		return -1, err
	}
	if cgroup >= 0 {
		defer unix.Close(cgroup)
	}
	// giveJob is called without the lock, because it waits for an answer. The supervisor already
	// knows the pid.
	given := p.spec.giveJob(e, cgroup, p.account != nil, true)
	s.forks.RLock()
	defer s.forks.RUnlock()
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	switch {
	case given:
		p.pid, pidfd = p.spec.Standby.pid, -1
	case closed:
		return -1, errClosed
	default:
		p.pid, pidfd, err = s.forkSpec(&p.spec, e, program, cgroup)
	}
	if err != nil && p.cg.path != "" && p.account == nil && !p.needsCgroup() {
		// The system may refuse to start a process in this cgroup.
		p.cg.remove()
		p.cg = cgroupDir{}
		p.pid, pidfd, err = s.forkSpec(&p.spec, e, program, -1)
	}
	if err != nil {
		return -1, err
	}
	// Argv and Env may be large, and the process is remembered for some time after its end.
	p.spec.Argv, p.spec.Env = nil, nil
	s.mu.Lock()
	s.pids[p.pid] = true
	s.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.procs[p] = true
	if g.closed {
		// Close ran before the process was registered.
		p.unblockOutput()
		p.killTree()
	}
	return pidfd, nil
}

// remove removes a closed process from the group.
func (g *Group) remove(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.procs, p)
	if g.cg.path == "" && p.program == nil && len(g.leaders) < rememberedLeaders {
		g.leaders = append(g.leaders, p.pid)
	}
}

// Close ends the group's processes and all their descendants, including
// descendants of processes that have closed. It waits until the processes have
// closed.
func (g *Group) Close() {
	cause := CauseGroupClosed
	g.s.mu.Lock()
	if g.s.stopping {
		cause = CauseSupervisorClosed
	}
	g.s.mu.Unlock()
	g.mu.Lock()
	g.closed = true
	procs := make([]*Process, 0, len(g.procs))
	for p := range g.procs {
		procs = append(procs, p)
	}
	leaders := g.leaders
	g.leaders = nil
	g.mu.Unlock()
	g.stopLeft()
	var wg sync.WaitGroup
	for _, p := range procs {
		p.setCause(cause)
		wg.Go(p.killWithGrace)
	}
	wg.Wait()
	g.cg.kill()
	g.limitedCG.kill()
	for _, p := range procs {
		wg.Go(func() {
			p.unblockOutput()
			p.kill()
		})
	}
	wg.Wait()
	for _, p := range procs {
		<-p.finished
	}
	g.s.killSessions(leaders)
	g.cg.removeAll()
	g.limitedCG.removeAll()
	g.s.mu.Lock()
	delete(g.s.groups, g)
	g.s.mu.Unlock()
}
