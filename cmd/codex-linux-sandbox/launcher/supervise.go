package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// supervisor is the launcher's state while the command runs. It stores what must be undone
// afterwards, forwards signals and waits.
type supervisor struct {
	l         *launch
	processes *initproc.Processes
	entered   int // index of a step of the init; if an earlier step fails, the backend does not work here
	// The init waits for a byte from gate twice. It does nothing before the launcher knows its
	// process id, and starts no command before the launcher forwards signals.
	gate         [2]int
	status       [2]int
	terminal     bool
	placeholders *placed
	// connector is nil unless the launcher makes the command's connections.
	connector *mediate.Connector
	serve     func(pid int) // if not nil, it is called when the init has been started; it must return at once
}

// prepare creates the resources that every backend with an init needs. subreap is for backends
// without a PID namespace.
func (l *launch) prepare(subreap bool) (*supervisor, error) {
	e, err := initproc.PrepareExec(l.command, l.commandEnv(), l.argv0(), l.execFD)
	if err != nil {
		return nil, fmt.Errorf("prepare the command: %w", err)
	}
	s := &supervisor{l: l, processes: &initproc.Processes{Init: initproc.New(), Command: initproc.New(), Exec: e, Subreap: subreap, Cgroup: l.cgroupFD, InCgroup: l.limited}}
	if l.execFD >= 0 {
		unix.CloseOnExec(l.execFD)
	}
	if s.placeholders, err = l.makePlaceholders(!subreap); err != nil {
		return nil, err
	}
	if err := s.openPipes(); err != nil {
		s.release()
		return nil, err
	}
	if err = s.placeholders.undo.Watch(); err != nil {
		s.release()
		return nil, err
	}
	s.terminal = l.ownTerminal()
	s.begin()
	if subreap {
		// Set it before the process leaves the process group. Scenario: a SIGKILL to the group ends
		// the launcher and the init, but not the command, which is in its own group.
		setParentDeathSignal(s.processes.Command, unix.SIGKILL)
	}
	if s.ownSession() {
		leadSession(s.processes.Command, s.terminal)
	}
	restoreLimit(s.processes.Command)
	limitTasks(s.processes.Command, l.tasks)
	return s, nil
}

// begin appends the first steps of the init. They make it end with the launcher, and wait until the
// launcher knows its process id.
func (s *supervisor) begin() {
	p := s.processes.Init
	death := unix.SIGKILL
	if s.processes.Subreap {
		death = initproc.Orphaned
	}
	setParentDeathSignal(p, death)
	leadSession(p, s.terminal && !s.ownSession())
	p.Do("close", "the gate", unix.SYS_CLOSE, initproc.Val(s.gate[1]))
	if s.l != nil && s.l.reportFD > 0 {
		p.Do("close", "the server's socket", unix.SYS_CLOSE, initproc.Val(s.l.reportFD))
	}
	s.await()
}

// await appends a step in which the init waits until the launcher lets it continue.
func (s *supervisor) await() {
	p := s.processes.Init
	p.Do("wait for", "the launcher", unix.SYS_READ, initproc.Val(s.gate[0]), initproc.Slice(p, make([]byte, 1)), initproc.Val(1)).Full = true
}

// awaitStart appends steps in which the init waits until the command may run.
func (s *supervisor) awaitStart() {
	p := s.processes.Init
	s.await()
	// The launcher may have ended before the init set its parent-death signal, and the launcher's byte
	// is readable even then. So check for a hangup, which the kernel reports if no writer is left.
	lookForLauncher(p, s.gate[0])
	p.Do("close", "the gate", unix.SYS_CLOSE, initproc.Val(s.gate[0]))
}

// setParentDeathSignal appends a step that requests a signal when the thread that started
// this process ends.
func setParentDeathSignal(p *initproc.Program, s syscall.Signal) {
	p.Do("set the parent-death signal", "", unix.SYS_PRCTL, initproc.Val(unix.PR_SET_PDEATHSIG), initproc.Val(uint(s)), initproc.Val(0), initproc.Val(0), initproc.Val(0))
}

// lookForLauncher appends a check that fails if a descriptor reports a hangup. A hangup means that
// the launcher has ended.
func lookForLauncher(p *initproc.Program, fd int) {
	p.Do("look for", "the launcher", unix.SYS_PPOLL, initproc.Pointer(p, &unix.PollFd{Fd: int32(fd)}),
		initproc.Val(1), initproc.Pointer(p, &unix.Timespec{}), initproc.Val(0), initproc.Val(0)).Zero = true
}

func (s *supervisor) openPipes() error {
	for _, p := range []*[2]int{&s.gate, &s.status} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
	}
	s.processes.Status = s.status[1]
	return nil
}

// ownTerminal reports whether the launcher was started with a terminal of its own: it leads the
// session whose controlling terminal is its standard input. This is still true if a backend has
// given up the terminal and then could not be used.
func (l *launch) ownTerminal() bool {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return false
	}
	sid, err := unix.IoctlGetInt(0, unix.TIOCGSID)
	l.terminal = l.terminal || err == nil && sid == os.Getpid()
	return l.terminal
}

// giveUpTerminal gives up the controlling terminal, so that the command's session can take it. The
// kernel sends SIGHUP to a process that gives up a terminal. For that moment the launcher ignores
// SIGHUP, bypassing the Go runtime, which would forget the previous action.
func giveUpTerminal() error {
	old := initproc.Ignore(unix.SIGHUP)
	defer initproc.SetAction(unix.SIGHUP, &old)
	if err := unix.IoctlSetInt(0, unix.TIOCNOTTY, 0); err != nil && !errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("give up the terminal: %w", err)
	}
	return nil
}

// run starts the init and waits. It returns how the command ended.
func (s *supervisor) run() (code int, err error) {
	defer s.release()
	if s.terminal {
		if err := giveUpTerminal(); err != nil {
			return 0, err
		}
	}
	s.awaitStart()
	restore := func() {}
	if s.l != nil {
		restore = lowerTasks(s.l.tasks)
	}
	pid, errno := s.processes.Start()
	restore()
	if errno != 0 {
		return 0, &unavailable{explainClone(forkError("make namespaces", errno))}
	}
	if err := s.open(); err != nil {
		return 0, err
	}
	// The janitor processes the announcement while the init builds the view.
	if err := s.placeholders.commit(pid); err != nil {
		return 0, err
	}
	r := &relay{pid: pid}
	defer func() {
		if err != nil {
			// If a signal was meant to end the command, another try must not run the command.
			endBy(r.stop())
		}
	}()
	// Start the forwarding while the init builds the view, because the Go runtime needs 0.7 ms
	// for it. The command starts only afterwards: a Ctrl-C in response to its first output must
	// reach the command, and not end the launcher.
	r.start()
	if err := s.placeholders.awaitJanitor(); err != nil {
		return 0, err
	}
	if err := s.open(); err != nil {
		return 0, err
	}
	if s.l != nil && s.l.proxies != nil {
		s.l.proxies.serve()
	}
	if s.connector != nil {
		s.connector.Serve()
	}
	if s.serve != nil {
		s.serve(pid)
	}
	return s.outcome(r)
}

// open lets the init continue to its next wait.
func (s *supervisor) open() error {
	if _, err := unix.Write(s.gate[1], []byte{1}); err != nil {
		return fmt.Errorf("start the sandbox: %w", err)
	}
	return nil
}

// ownSession reports whether the command leads a session of its own. Else the init does, as bwrap does under Codex CLI: a
// process that leads a process group cannot call setsid, and the program setsid forks then, and ends before its command.
// Without a PID namespace, and without the scopes of Landlock, a command that sends SIGKILL to its process group would kill the init.
func (s *supervisor) ownSession() bool { return s.processes.Subreap && s.l.legacyLandlock }

// relay passes signals to a child of the launcher. It does so until the launcher ends, or is about
// to start another child.
type relay struct {
	pid     int
	mu      sync.Mutex
	reaped  bool
	signals chan os.Signal
	came    uint64        // the set of signals that have arrived
	ended   chan struct{} // closed when no more signals are forwarded
}

// start begins to pass signals on.
func (r *relay) start() {
	r.signals, r.ended = make(chan os.Signal, len(initproc.Forwarded)), make(chan struct{})
	for _, sig := range initproc.Forwarded {
		if !initproc.Ignored(sig) {
			signal.Notify(r.signals, sig)
		}
	}
	go func() {
		defer close(r.ended)
		for sig := range r.signals {
			r.mu.Lock()
			r.came |= initproc.Bit(sig.(syscall.Signal))
			if !r.reaped {
				_ = unix.Kill(r.pid, sig.(syscall.Signal))
			}
			r.mu.Unlock()
		}
	}()
}

// stop ends the forwarding of signals, and returns those that have arrived. It may be
// called before start.
func (r *relay) stop() (came uint64) {
	if r.signals == nil {
		return 0
	}
	signal.Stop(r.signals)
	close(r.signals)
	<-r.ended
	return r.came
}

// ending are the signals that end a launcher before the command has begun.
var ending = []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}

// endBy ends the launcher by a signal if one has arrived that must end it and the command has not run. No other code
// handles the signal any more.
func endBy(came uint64) {
	for _, s := range ending {
		if came&initproc.Bit(s) != 0 && !initproc.Ignored(s) {
			initproc.SetAction(s, &initproc.Action{}) // bypass the Go runtime, which prints a stack trace for SIGQUIT
			_ = unix.Kill(os.Getpid(), s)
		}
	}
}

// wait waits for the child. It stops forwarding signals before the child's process id can be
// reused.
func (r *relay) wait() (unix.WaitStatus, error) {
	for errors.Is(unix.Waitid(unix.P_PID, r.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
	return initproc.Wait(r.pid)
}

// outcome waits for the end of the sandbox. It returns how the command ended or why it did not
// start.
func (s *supervisor) outcome(r *relay) (int, error) {
	_ = unix.Close(s.status[1])
	s.status[1] = -1
	told := initproc.ReadReport(s.status[0])
	if told != nil && told.Stage == initproc.StageEnded {
		code := s.cleanUp(int(told.Step))
		s.tellEnd(code, &told.Usage)
		_, err := r.wait()
		return code, err
	}
	status, err := r.wait()
	switch {
	case err != nil:
		return 0, err
	case told != nil:
		return s.explain(*told)
	case status.Signaled():
		return s.cleanUp(128 + int(status.Signal())), nil
	}
	return s.cleanUp(status.ExitStatus()), nil
}

// cleanUp removes the sandbox's leftovers. No process of the sandbox may be running. It returns the
// launcher's exit code.
func (s *supervisor) cleanUp(code int) int {
	if made := s.placeholders.stopWatch(); made && code == 0 {
		code = 1
	}
	s.placeholders.removeBeforeReport()
	return code
}

// tellEnd reports the exit code to the server, if the server reads reports, before the kernel has
// freed the namespaces and this process. The server reads the command's output to its end, so this
// process must not keep the output open.
func (s *supervisor) tellEnd(code int, used *unix.Rusage) {
	if s.l == nil || s.l.reportFD <= 0 {
		return
	}
	for fd := range standardFiles {
		_ = unix.Close(fd)
	}
	_ = warmstart.Report(s.l.reportFD, code, warmstart.UsageOf(used))
}

// explain converts a report to an error and an exit code.
func (s *supervisor) explain(r initproc.Report) (int, error) {
	errno := syscall.Errno(r.Errno)
	switch r.Stage {
	case initproc.StageInit:
		st := &s.processes.Init.Steps[r.Step]
		err := st.Failure(errno)
		if int(r.Step) < s.entered {
			return 0, &unavailable{err}
		}
		all := fmt.Errorf("cannot make the sandbox: %w", err)
		if st.Number == unix.SYS_CHDIR && st.Path == s.l.commandCwd && errno == unix.ENOENT && hidden(s.l.commandCwd) {
			all = hiddenDirectory(s.l.commandCwd)
		}
		if reason := deniedBy(st.Path); errno == unix.EACCES && reason != "" {
			all = fmt.Errorf("%w; %s", all, reason)
		}
		switch {
		case errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.ELOOP || errno == unix.ESTALE:
			return 0, &changed{all}
		case st.Number == unix.SYS_CHDIR:
			return 0, all
		}
		// Nothing has run, and the next backend may not need this system call.
		return 0, &unavailable{all}
	case initproc.StageFork:
		return 0, forkError("start the command", errno)
	case initproc.StageCommand:
		return 0, &unavailable{fmt.Errorf("cannot confine the command: %w", s.processes.Command.Steps[r.Step].Failure(errno))}
	default:
		code := exitCannotExec
		if errno == unix.ENOENT || errno == unix.ENOTDIR {
			code = exitNotFound
		}
		return code, &notExecuted{s.l.command[0], errno}
	}
}

// notExecuted is the error of a command that could not be executed. Its text is that of Codex CLI.
type notExecuted struct {
	command string
	errno   syscall.Errno
}

func (e *notExecuted) Error() string {
	return fmt.Sprintf("Failed to execvp %s: %s", e.command, initproc.ErrnoText(e.errno))
}

// plain returns the text for a person, in the words of a shell.
func (e *notExecuted) plain() string {
	reason := e.errno.Error()
	if e.errno == unix.ENOENT {
		reason = "command not found"
	}
	return e.command + ": " + reason
}

// hidden reports whether a directory exists outside of the sandbox. If the command cannot enter it inside, the profile
// does not permit reading it.
func hidden(dir string) bool { return unix.Access(dir, unix.F_OK) == nil }

// hiddenDirectory returns the error of a command whose directory is not in the view.
func hiddenDirectory(dir string) error {
	return fmt.Errorf("cannot make the sandbox: the profile does not permit reading %s, the directory of the command; permit that, or choose another directory", dir)
}

// forkError returns the error of a failed fork.
func forkError(what string, errno syscall.Errno) error {
	if errno == unix.EAGAIN {
		return fmt.Errorf("%s: too many processes exist: %w", what, errno)
	}
	return fmt.Errorf("%s: %w", what, errno)
}

// release undoes what prepare did. It may be called more than once.
func (s *supervisor) release() {
	for _, p := range []*[2]int{&s.gate, &s.status} {
		for i := range p {
			if p[i] > 0 {
				_ = unix.Close(p[i])
				p[i] = -1
			}
		}
	}
	if s.connector != nil {
		s.connector.Release()
	}
	s.placeholders.close()
}

// execDirectly executes the command in this process. It makes no view and installs only the filter.
// If the profile requests no sandbox, it does not install the filter either.
func (l *launch) execDirectly() (int, error) {
	s := &supervisor{l: l, processes: &initproc.Processes{}}
	e, err := initproc.PrepareExec(l.command, l.commandEnv(), l.argv0(), l.execFD)
	if err != nil {
		return 0, fmt.Errorf("prepare the command: %w", err)
	}
	if err := os.Chdir(l.commandCwd); err != nil {
		return 0, err
	}
	p := initproc.New()
	if err := l.dropSockets(p); err != nil {
		return 0, err
	}
	if !l.plan.Unfiltered || l.plan.Network == plan.NetworkOff {
		noNewPrivileges(p)
		p.InstallFilter(l.rules().Filter())
	}
	restoreLimit(p)
	limitTasks(p, l.tasks)
	if err := p.Run(); err != nil {
		return 0, err
	}
	return s.explain(initproc.Report{Stage: initproc.StageExec, Errno: int32(e.Run())})
}
