package launcher

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/cmd/codex-linux-sandbox/nofile"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// namespaces is the backend that makes namespaces and mounts itself, with the mount API of Linux
// 5.12.
type namespaces struct{}

func (namespaces) refuse(*launch) error { return nil }

// loopbackName is the only interface of a new network.
const loopbackName = "lo"

// run starts the init in its namespaces. The init builds the view, gives up every privilege and
// starts the command. The launcher passes signals on and waits.
func (namespaces) run(l *launch) (int, error) {
	s, err := l.prepare(false)
	if err != nil {
		return 0, err
	}
	defer s.release()
	c := s.processes
	c.Flags = l.namespaces()
	for kind, flag := range namespaceFlags {
		if mistake(kind) {
			c.Flags &^= flag
		}
	}
	if err := s.connect(); err != nil {
		return 0, err
	}
	if err := s.build(); err != nil {
		return 0, err
	}
	return s.run()
}

// namespaces returns the clone flags for the namespaces of the plan.
func (l *launch) namespaces() uintptr {
	if l.plan.OwnNetwork() {
		return allNamespaces
	}
	return allNamespaces &^ unix.CLONE_NEWNET
}

const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// connect prepares the connector, if the launcher makes connections for the command.
func (s *supervisor) connect() (err error) {
	if !s.l.rules().Asks() {
		return nil
	}
	server := -1
	if s.l.redirects() {
		server = s.l.egressFD
	}
	if s.connector, err = mediate.NewConnector(server); err != nil {
		return err
	}
	return s.l.reserve()
}

// build appends the steps of the init: it enters the namespaces, builds the view, and drops all
// privileges.
func (s *supervisor) build() error {
	l, p := s.l, s.processes.Init
	if err := checkOwn(p, l.ownKinds()); err != nil {
		return err
	}
	enter(p)
	s.entered = len(p.Steps)
	wall := l.wall(p, l.rules())
	if mounting {
		(&mounter{Program: p, plan: l.plan, wall: wall, helper: l.helper, reading: l.reading, terminal: l.terminalFile(), rootsFiles: l.sshFiles()}).view()
	}
	if l.plan.OwnNetwork() {
		raiseLoopback(p)
	}
	s.confine(wall)
	return nil
}

// confine appends the steps of the init after it has built the view. The init checks for files that
// the plan forbids, enters the directory of the command, and drops all privileges.
func (s *supervisor) confine(wall *ruleset) {
	l, p, rules := s.l, s.processes.Init, s.l.viewRules()
	for _, r := range s.placeholders.undo.Names() {
		// The directory in the view must be the one that the launcher watches.
		p.Look(path.Dir(r.Path), r.Dev, r.Ino)
	}
	for _, name := range l.plan.Absent {
		p.Absent(name)
	}
	wall.grantInherited(l.passed)
	wall.grantProgram(l.execFD)
	wall.grantPaths(l.plan.WallGrants())
	reopen(p, l.reopened)
	p.Do("change directory to", l.commandCwd, unix.SYS_CHDIR, p.Text(l.commandCwd))
	if l.proxies != nil {
		l.proxies.listen(p)
	}
	if s.connector != nil {
		s.connector.Capture(p)
	}
	p.Undumpable()
	dropPrivileges(p)
	wall.enforce()
	if s.connector == nil {
		p.InstallFilter(rules.Filter())
	} else {
		s.connector.InstallFilter(p, rules, l.reserved)
	}
}

// enter appends the first steps inside: the mapping of the user and the group
// into the new user namespace, and its limits.
func enter(p *initproc.Program) {
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	writeFile(p, "/proc/self/setgroups", "deny")
	writeFile(p, "/proc/self/uid_map", uid+" "+uid+" 1")
	writeFile(p, "/proc/self/gid_map", gid+" "+gid+" 1")
	limitNamespace(p)
}

// raiseLoopback appends steps that bring up the loopback interface. If the host forbids this, it is
// not an error: the command then has no network at all.
func raiseLoopback(p *initproc.Program) {
	p.Try(func() {
		var request struct {
			name  [unix.IFNAMSIZ]byte
			flags uint16
			_     [22]byte
		}
		copy(request.name[:], loopbackName)
		request.flags = unix.IFF_UP | unix.IFF_RUNNING
		fd := p.Get("make a socket", "", unix.SYS_SOCKET, initproc.Val(unix.AF_INET), initproc.Val(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), initproc.Val(0))
		p.Do("bring up", loopbackName, unix.SYS_IOCTL, fd.Arg(), initproc.Val(unix.SIOCSIFFLAGS), initproc.Pointer(p, &request))
		p.Close(fd)
	})
}

// leadSession appends steps that make a session. If the command has its own terminal, it becomes the
// controlling terminal of the session.
func leadSession(p *initproc.Program, terminal bool) {
	p.Do("make a session", "", unix.SYS_SETSID)
	if terminal {
		p.Do("take the terminal", "", unix.SYS_IOCTL, initproc.Val(0), initproc.Val(unix.TIOCSCTTY), initproc.Val(0))
	}
}

// restoreLimit appends a step that gives the command the limit of open files
// with which the launcher was started.
func restoreLimit(p *initproc.Program) {
	if nofile.Known {
		limit := nofile.Limit
		p.Do("restore the limit of open files", "", unix.SYS_PRLIMIT64, initproc.Val(0), initproc.Val(unix.RLIMIT_NOFILE), initproc.Pointer(p, &limit), initproc.Val(0))
	}
}

// probe determines whether this host permits the namespaces, by creating them.
func (namespaces) probe() error { return probeView(false) }

// probeView creates the namespaces and a view. With freshProc it fails if the view does not get a
// new /proc.
func probeView(freshProc bool) error {
	s := &supervisor{processes: &initproc.Processes{Init: initproc.New(), Command: initproc.New()}}
	if err := s.openPipes(); err != nil {
		return err
	}
	defer s.release()
	c := s.processes
	c.Flags = allNamespaces
	s.begin()
	enter(c.Init)
	// Include a mask, because every policy that permits writing needs one.
	mask := []plan.Mount{{Kind: plan.EmptyDir, Target: "/proc", Mode: 0o555}}
	(&mounter{Program: c.Init, plan: &plan.Plan{Confined: true, Mounts: mask}, freshProc: freshProc}).view()
	c.Init.InstallFilter((&plan.Rules{}).Filter())
	s.entered = len(c.Init.Steps)
	// The command of a probe ends at once.
	c.Command.Do("end", "", unix.SYS_EXIT_GROUP, initproc.Val(0))
	code, err := s.run()
	if err == nil && code != 0 {
		err = fmt.Errorf("the probe ended with %d", code)
	}
	return err
}

// explainClone adds the probable reason to an error of clone.
func explainClone(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w; a limit of namespaces is reached (sysctl user.max_*_namespaces)", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w; user namespaces are forbidden here (`codex doctor` prints the cause)", err)
	default:
		return err
	}
}
