package launcher

import (
	"fmt"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/proxybridge"
	"golang.org/x/sys/unix"
)

// stageWords is the part of the sandbox's description that the first stage passes to the second in the
// argument of --second-stage.
type stageWords struct {
	rules            plan.Rules
	proxies          *proxies
	terminal, noProc bool
}

// stageWords reads the argument of --second-stage.
func (l *launch) stageWords() (*stageWords, error) {
	w := &stageWords{proxies: &proxies{Routes: &proxybridge.Routes{}, theirs: talkFD}}
	l.execFD, l.plan = -1, &plan.Plan{}
	for word := range strings.SplitSeq(l.stage, ",") {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, &usageError{"invalid --second-stage"}
		}
		switch key {
		case "network":
			w.rules.Network, l.plan.Network = plan.Network(n), plan.Network(n)
		case "nesting":
			w.rules.Nesting, l.nesting = true, true
		case "files":
			w.rules.Files = true
		case "netlink":
			w.rules.Netlink = true
		case "rootonly":
			w.rules.RootOnly = true
		case "unix":
			w.rules.UnixSockets = true
		case "connect":
			w.rules.Connect = true
		case "handed":
			w.rules.Handed = true
		case "tasks":
			l.tasks = n
		case "sockets":
			w.rules.Sockets = plan.Sockets(n)
		case "root":
			l.plan.Root = plan.RootKind(n)
		case "terminal":
			w.terminal = true
		case "exec":
			l.execFD = execFD
		case "plain":
			l.plain = true
		case "noproc":
			w.noProc = true
		case "port":
			w.proxies.Ports = append(w.proxies.Ports, uint16(n))
		}
	}
	return w, nil
}

// secondStage runs the launcher inside of bwrap's view: it confines itself and executes the
// command.
func (l *launch) secondStage() (int, error) {
	words, err := l.stageWords()
	if err != nil {
		return 0, err
	}
	if len(l.command) == 0 {
		return 0, errNoCommand
	}
	if err := l.environment(); err != nil {
		return 0, err
	}
	e, err := initproc.PrepareExec(l.command, l.env, l.arg0, l.execFD)
	if err != nil {
		return 0, fmt.Errorf("prepare the command: %w", err)
	}
	// Until now descriptor 2 was the pipe for bwrap's own errors.
	if err := unix.Dup3(stderrFD, 2, 0); err != nil {
		return 0, fmt.Errorf("restore the standard error: %w", err)
	}
	closeGiven()
	grants, err := checkMounts(words.noProc)
	if err != nil {
		return 0, fmt.Errorf("cannot make the sandbox: %w", err)
	}
	files, err := standardAgain()
	if err != nil {
		return 0, err
	}
	if err := l.reserve(); err != nil {
		return 0, err
	}
	if err := words.proxies.listenHere(); err != nil {
		return 0, err
	}
	p := initproc.New()
	reopen(p, files)
	p.Do("wait for", "the launcher", unix.SYS_READ, initproc.Val(talkFD), initproc.Slice(p, make([]byte, 1)), initproc.Val(1)).Full = true
	if words.terminal {
		leadSession(p, true) // without one, bwrap has made a session
	}
	wall := l.wall(p, words.rules)
	passed, _ := inheritedDescriptors() // an error is ignored: without /proc the command cannot open them again, so it needs no grants
	wall.grantInherited(passed)
	wall.grantProgram(l.execFD)
	wall.grantPaths(grants)
	dropPrivileges(p)
	wall.enforce()
	mediate.InstallFilter(p, words.rules, talkFD, l.reserved)
	restoreLimit(p)
	limitTasks(p, l.tasks)
	if err := p.Run(); err != nil {
		return 0, fmt.Errorf("cannot confine the command: %w", err)
	}
	s := &supervisor{l: l}
	return s.explain(initproc.Report{Stage: initproc.StageExec, Errno: int32(e.Run())})
}

// closeGiven makes the kernel close bwrap's descriptors when the command is executed.
func closeGiven() {
	for fd := talkFD; fd < firstEmpty; fd++ {
		unix.CloseOnExec(fd)
	}
	if unix.CloseRange(firstEmpty, 1<<30, unix.CLOSE_RANGE_CLOEXEC) != nil {
		// Linux before 5.11 lacks this call. Only the few descriptors that bwrap was given are open.
		for fd := firstEmpty; fd < maxGiven; fd++ {
			unix.CloseOnExec(fd)
		}
	}
}
