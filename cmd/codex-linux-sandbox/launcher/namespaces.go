package launcher

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/nofile"
	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// namespaces is the backend that makes everything itself, with namespaces and
// the mount API of Linux 5.12.
type namespaces struct{}

func (namespaces) refuse(*launch) error { return nil }

// loopbackName is the only interface of a new network.
const loopbackName = "lo"

// run starts the init in its namespaces. It builds the view, gives up every
// privilege and starts the command, while the launcher passes signals on and
// waits.
func (namespaces) run(l *launch) (int, error) {
	s, err := l.prepare(false)
	if err != nil {
		return 0, err
	}
	defer s.release()
	c := s.processes
	c.flags = l.namespaces()
	if err := s.connect(); err != nil {
		return 0, err
	}
	s.build()
	return s.run()
}

// namespaces are the flags of clone for those of the plan.
func (l *launch) namespaces() uintptr {
	if l.plan.OwnNetwork() {
		return allNamespaces
	}
	return allNamespaces &^ unix.CLONE_NEWNET
}

const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// connect makes what the launcher needs to make the command's connections, if it does.
func (s *supervisor) connect() (err error) {
	if !s.l.rules().Asks() && !s.l.redirects() {
		return nil
	}
	if s.connector, err = s.l.newConnector(); err != nil {
		return err
	}
	return s.l.reserve()
}

// build appends what the init does: it enters the namespaces, makes the view, and
// gives up every privilege.
func (s *supervisor) build() {
	l, p := s.l, s.processes.init
	enter(p)
	s.entered = len(p.steps)
	wall := l.wall(p, l.rules())
	if mounting {
		(&mounter{program: p, plan: l.plan, wall: wall, helper: l.helper, reading: l.reading}).view()
	}
	if l.plan.OwnNetwork() {
		p.loopback()
	}
	s.confine(wall)
}

// confine appends what the init does when the view is there: it looks for what the plan
// forbids, enters the directory of the command, and gives up every privilege.
func (s *supervisor) confine(wall *ruleset) {
	l, p, rules := s.l, s.processes.init, s.l.rules()
	for _, r := range s.stubs.undo.Names() {
		// The command must not work in another directory than is watched.
		p.look(path.Dir(r.Path), r.Dev, r.Ino)
	}
	for _, name := range l.plan.Absent {
		p.absent(name)
	}
	wall.grantInherited(l.kept)
	wall.grantPaths(l.plan.WallGrants())
	p.reopen(l.inherited)
	p.do("change directory to", l.commandCwd, unix.SYS_CHDIR, p.text(l.commandCwd))
	if l.proxies != nil {
		l.proxies.listen(p)
	}
	if s.connector != nil && s.connector.redirect != nil {
		s.connector.redirect.capture(p, s.connector.theirs)
		rules.Redirect = true
	}
	p.undumpable()
	p.dropPrivileges()
	wall.enforce()
	if s.connector == nil {
		p.install(rules.Filter())
	} else {
		p.filterOwn(rules, s.connector.theirs, l.reserved)
	}
}

// enter appends the first steps inside: the mapping of the user and the group
// into the new user namespace, and its limits.
func enter(p *program) {
	uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())
	p.write("/proc/self/setgroups", "deny")
	p.write("/proc/self/uid_map", uid+" "+uid+" 1")
	p.write("/proc/self/gid_map", gid+" "+gid+" 1")
	p.limit()
}

// undumpable appends what keeps others from looking into this process.
func (p *program) undumpable() {
	p.do("set dumpable", "", unix.SYS_PRCTL, val(unix.PR_SET_DUMPABLE), val(0), val(0), val(0), val(0))
}

// loopback appends what brings up the loopback interface. It is no failure if
// the host forbids it: then there is no network at all.
func (p *program) loopback() {
	p.try(func() {
		var request struct {
			name  [unix.IFNAMSIZ]byte
			flags uint16
			_     [22]byte
		}
		copy(request.name[:], loopbackName)
		request.flags = unix.IFF_UP | unix.IFF_RUNNING
		fd := p.get("make a socket", "", unix.SYS_SOCKET, val(unix.AF_INET), val(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), val(0))
		p.do("bring up", loopbackName, unix.SYS_IOCTL, fd.arg(), val(unix.SIOCSIFFLAGS), pointer(p, &request))
		p.close(fd)
	})
}

// prepareCommand appends what the command's process does between its start
// and its exec. With a terminal of its own it takes it over.
func (p *program) prepareCommand(terminal bool) {
	p.do("make a session", "", unix.SYS_SETSID)
	if terminal {
		p.do("take the terminal", "", unix.SYS_IOCTL, val(0), val(unix.TIOCSCTTY), val(0))
	}
	p.restoreLimit()
}

// restoreLimit appends what gives the command the limit of open files that
// the launcher was started with.
func (p *program) restoreLimit() {
	if nofile.Known {
		limit := nofile.Limit
		p.do("restore the limit of open files", "", unix.SYS_PRLIMIT64, val(0), val(unix.RLIMIT_NOFILE), pointer(p, &limit), val(0))
	}
}

// probe finds out whether namespaces can be made here, by making them.
func (namespaces) probe() error {
	s := &supervisor{processes: &processes{init: newProgram(), command: newProgram(), exec: &execution{fd: -1, argv: make([]*byte, 1), envp: make([]*byte, 1)}}}
	if err := s.openPipes(); err != nil {
		return err
	}
	defer s.release()
	c := s.processes
	c.flags = allNamespaces
	s.begin()
	enter(c.init)
	// With a mask, as every policy has one that lets something be written.
	mask := []sandbox.Mount{{Kind: sandbox.EmptyDir, Target: "/proc", Mode: 0o555}}
	(&mounter{program: c.init, plan: &sandbox.Plan{Confined: true, Mounts: mask}}).view()
	c.init.install((&sandbox.Rules{}).Filter())
	s.entered = len(c.init.steps)
	// The command of a probe is to end.
	c.command.do("end", "", unix.SYS_EXIT_GROUP, val(0))
	code, err := s.run()
	if err == nil && code != 0 {
		err = fmt.Errorf("the probe ended with %d", code)
	}
	return err
}

// explainClone says what is likely to forbid namespaces.
func explainClone(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w; a limit of namespaces is reached (sysctl user.max_*_namespaces)", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w; user namespaces are forbidden here (`codex doctor` says by what)", err)
	default:
		return err
	}
}
