//go:build linux

package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// bubblewrap is the backend that lets the system's bwrap make the namespaces,
// where a host allows it that and nobody else. It is given the plan as
// arguments. What it starts inside is the launcher again, whose second stage
// confines itself and executes the command: older versions cannot be told the
// command's name for itself, or what to filter.
type bubblewrap struct{}

func (bubblewrap) refuse(*launch) error { return nil }

// stagePath is where the launcher is found inside: in the view's own /dev,
// which every view has. Its name is that by which codex knows what it is.
const stagePath = "/dev/codex-linux-sandbox"

// maxStderr bounds what is kept of what bwrap says.
const maxStderr = 64 << 10

// findBwrap returns the bwrap of the system. What lies below the current
// directory is not taken: a workspace could bring its own.
func findBwrap() (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "bwrap"))
		if err != nil || cwd != "/" && within(real, cwd) || unix.Access(real, unix.X_OK) != nil {
			continue
		}
		return real, nil
	}
	return "", errors.New("bubblewrap is unavailable: there is no bwrap on PATH; install your system's bubblewrap")
}

func (b bubblewrap) run(l *launch) (int, error) {
	program, err := findBwrap()
	if err != nil {
		return 0, &unavailable{err}
	}
	stubs, err := l.placeStubs()
	if err != nil {
		return 0, err
	}
	defer stubs.remove()
	undo, err := startUndo(l.plan.Undo)
	if err != nil {
		return 0, err
	}
	defer undo.stop()
	w := &wrapped{l: l, terminal: ownTerminal()}
	defer w.close()
	code, err := w.run(program)
	if made := undo.stop(); err == nil && made && code == 0 {
		code = 1
	}
	return code, err
}

// wrapped is a run of bwrap.
type wrapped struct {
	l        *launch
	terminal bool
	files    []*os.File // closed at the end
	talk     [2]int     // the second stage tells its process id here
	complain [2]int     // what bwrap says about itself
}

func (w *wrapped) close() {
	for _, f := range w.files {
		_ = f.Close()
	}
	for _, fd := range append(w.talk[:], w.complain[:]...) {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
}

// arguments are those of bwrap for the plan.
func (w *wrapped) arguments(self string) []string {
	plan := w.l.plan
	args := []string{"bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"}
	if plan.Network != sandbox.NetworkOn {
		args = append(args, "--unshare-net")
	}
	switch plan.Root {
	case sandbox.RootEmpty:
		args = append(args, "--perms", "0755", "--tmpfs", "/")
	case sandbox.RootWritable:
		args = append(args, "--bind", "/", "/")
	default:
		args = append(args, "--ro-bind", "/", "/")
	}
	args = append(args, "--dev", "/dev", "--ro-bind", self, stagePath)
	for _, m := range plan.Mounts {
		args = append(args, mountArguments(m)...)
	}
	if plan.NoProc {
		if plan.Root != sandbox.RootEmpty {
			args = append(args, "--perms", "0555", "--tmpfs", "/proc", "--remount-ro", "/proc")
		}
	} else {
		args = append(args, "--proc", "/proc")
		for _, name := range hostOwned {
			if _, err := os.Stat("/proc/" + name); err == nil {
				args = append(args, "--ro-bind", "/proc/"+name, "/proc/"+name)
			}
		}
	}
	if plan.Root == sandbox.RootEmpty {
		args = append(args, "--remount-ro", "/")
	}
	return append(args, "--chdir", w.l.commandCwd)
}

func mountArguments(m sandbox.Mount) []string {
	mode := fmt.Sprintf("%04o", m.Mode)
	switch m.Kind {
	case sandbox.BindReadOnly:
		return []string{"--ro-bind", m.Source, m.Target}
	case sandbox.BindWritable:
		return []string{"--bind", m.Source, m.Target}
	case sandbox.Link:
		return []string{"--symlink", m.Source, m.Target}
	case sandbox.EmptyFile:
		// An empty file that nobody may open: /dev/null is none.
		return []string{"--perms", mode, "--ro-bind-data", emptyFD, m.Target}
	default:
		args := []string{"--perms", mode, "--tmpfs", m.Target}
		for _, h := range m.Holes {
			if h.File {
				args = append(args, "--file", emptyFD, filepath.Join(m.Target, h.Path))
			} else {
				args = append(args, "--dir", filepath.Join(m.Target, h.Path))
			}
		}
		return append(args, "--remount-ro", m.Target)
	}
}

// emptyFD stands for a descriptor of an empty file, one for each use.
const emptyFD = "EMPTY"

// descriptors of bwrap, after the standard three.
const (
	talkFD = iota + 3
	stderrFD
	execFD
	firstEmpty
)

// run starts bwrap and waits for it.
func (w *wrapped) run(program string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the launcher itself: %w", err)
	}
	if err := w.open(); err != nil {
		return 0, err
	}
	var heard []os.Signal
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			heard = append(heard, sig)
		}
	}
	files := []uintptr{0, 1, uintptr(w.complain[1]), uintptr(w.talk[1]), 2, 2}
	if w.l.execFD >= 0 {
		files[execFD] = uintptr(w.l.execFD)
	}
	args := w.arguments(self)
	for i, a := range args {
		if a != emptyFD {
			continue
		}
		fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
		if err != nil {
			return 0, fmt.Errorf("make an empty file: %w", err)
		}
		w.files = append(w.files, os.NewFile(uintptr(fd), "empty"))
		files = append(files, uintptr(fd))
		args[i] = strconv.Itoa(len(files) - 1)
	}
	// The command's environment is nothing for bwrap, which runs outside.
	env, err := w.environment()
	if err != nil {
		return 0, err
	}
	files = append(files, env.Fd())
	args = append(args, "--", stagePath, "--second-stage", w.spec(), "--argv0="+w.arg0(), "--env-fd", strconv.Itoa(len(files)-1), "--")
	args = append(args, w.l.command...)
	if w.terminal {
		// The command's session takes the terminal over; see supervisor.run.
		signal.Ignore(unix.SIGHUP)
		if err := unix.IoctlSetInt(0, unix.TIOCNOTTY, 0); err != nil {
			return 0, fmt.Errorf("give up the terminal: %w", err)
		}
	}
	signals := make(chan os.Signal, len(forwarded))
	if len(heard) > 0 { // none would be all
		signal.Notify(signals, heard...)
	}
	defer signal.Stop(signals)
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: files,
		// A signal to the launcher's group is not for bwrap, which would die of it.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	})
	if err != nil {
		return 0, &unavailable{fmt.Errorf("start %s: %w", program, err)}
	}
	return w.supervise(pid, signals)
}

// environment puts the command's environment into memory.
func (w *wrapped) environment() (*os.File, error) {
	fd, err := unix.MemfdCreate("environment", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("pass the environment: %w", err)
	}
	f := os.NewFile(uintptr(fd), "environment")
	w.files = append(w.files, f)
	var text []byte
	for _, kv := range w.l.env {
		text = append(append(text, kv...), 0)
	}
	if _, err := f.Write(text); err != nil {
		return nil, fmt.Errorf("pass the environment: %w", err)
	}
	return f, nil
}

func (w *wrapped) arg0() string {
	if w.l.hasArg0 {
		return w.l.arg0
	}
	return w.l.command[0]
}

// open makes the channels to the second stage and from bwrap.
func (w *wrapped) open() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	w.talk = pair
	if err := unix.SetsockoptInt(w.talk[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return fmt.Errorf("prepare a socket: %w", err)
	}
	if err := unix.Pipe2(w.complain[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	return nil
}

// supervise learns from the second stage which process it is, passes signals
// to it and waits. If there is no second stage, bwrap has failed.
func (w *wrapped) supervise(pid int, signals chan os.Signal) (int, error) {
	_ = unix.Close(w.talk[1])
	_ = unix.Close(w.complain[1])
	w.talk[1], w.complain[1] = -1, -1
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(os.NewFile(uintptr(w.complain[0]), "stderr of bwrap"), maxStderr))
		w.complain[0] = -1
		said <- text
	}()
	started := make(chan int, 1)
	go func() { started <- w.hello() }()
	ended := make(chan struct{})
	passed := make(chan struct{})
	inner := 0
	go func() {
		defer close(passed)
		if inner = <-started; inner == 0 {
			return
		}
		for {
			select {
			case sig := <-signals:
				if unix.Kill(-inner, sig.(syscall.Signal)) != nil {
					_ = unix.Kill(inner, sig.(syscall.Signal))
				}
			case <-ended:
				return
			}
		}
	}()
	status, err := wait(pid)
	close(ended)
	<-passed
	if err != nil {
		return 0, err
	}
	if inner == 0 {
		text := bytes.TrimSpace(<-said)
		return 0, &unavailable{fmt.Errorf("bwrap failed: %s", text)}
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// hello waits for the second stage and returns its process id as seen here;
// 0 if there will be none. Proxied, it brings the listeners.
func (w *wrapped) hello() int {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4*maxRoutes))
	n, size, _, _, err := unix.Recvmsg(w.talk[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return 0
	}
	messages, err := unix.ParseSocketControlMessage(oob[:size])
	if err != nil {
		return 0
	}
	pid := 0
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		}
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && w.l.proxies != nil {
			w.l.proxies.adopt(fds)
		}
	}
	return pid
}

// spec is what the second stage is told.
func (w *wrapped) spec() string {
	spec := []string{"network=" + strconv.Itoa(int(w.l.plan.Network))}
	if w.l.nesting {
		spec = append(spec, "nesting=1")
	}
	if w.terminal {
		spec = append(spec, "terminal=1")
	}
	if w.l.execFD >= 0 {
		spec = append(spec, "exec=1")
	}
	if w.l.proxies != nil {
		for _, port := range w.l.proxies.ports {
			spec = append(spec, "port="+strconv.Itoa(int(port)))
		}
	}
	return strings.Join(spec, ",")
}

// secondStage is the launcher inside of bwrap's view: it confines itself and
// executes the command.
func (l *launch) secondStage() (int, error) {
	r := rules{}
	x := &proxies{theirs: talkFD}
	terminal := false
	l.execFD = -1
	for word := range strings.SplitSeq(l.stage, ",") {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return 0, &usageError{"invalid --second-stage"}
		}
		switch key {
		case "network":
			r.network = sandbox.Network(n)
		case "nesting":
			r.nesting = true
		case "terminal":
			terminal = true
		case "exec":
			l.execFD = execFD
		case "port":
			x.ports = append(x.ports, uint16(n))
		}
	}
	if len(l.command) == 0 {
		return 0, errNoCommand
	}
	if err := l.environment(); err != nil {
		return 0, err
	}
	e, err := prepareExec(l.command, l.env, l.arg0, l.execFD)
	if err != nil {
		return 0, fmt.Errorf("prepare the command: %w", err)
	}
	// What bwrap says is kept apart from what the command says.
	if err := unix.Dup3(stderrFD, 2, 0); err != nil {
		return 0, fmt.Errorf("restore the standard error: %w", err)
	}
	for fd := talkFD; fd < firstEmpty; fd++ {
		unix.CloseOnExec(fd)
	}
	_ = unix.CloseRange(firstEmpty, 1<<30, unix.CLOSE_RANGE_CLOEXEC)
	if err := x.listenHere(); err != nil {
		return 0, err
	}
	p := &program{}
	p.try(func() { p.do("make a session", "", unix.SYS_SETSID) })
	if terminal {
		p.do("take the terminal", "", unix.SYS_IOCTL, val(0), val(unix.TIOCSCTTY), val(0))
	}
	p.dropPrivileges()
	p.install(r.filter())
	p.restoreLimits()
	if step, errno := p.run(); step >= 0 {
		return 0, fmt.Errorf("cannot confine the command: %w", &failure{p.steps[step].what, p.steps[step].path, errno})
	}
	s := &supervisor{l: l}
	return s.explain(report{stage: stageExec, errno: int32(e.run())})
}

// probe finds out whether bwrap works here, by using it.
func (bubblewrap) probe() error {
	program, err := findBwrap()
	if err != nil {
		return err
	}
	var complain [2]int
	if err := unix.Pipe2(complain[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	args := []string{"bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "/proc/self/exe", "--help"}
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{uintptr(null), uintptr(null), uintptr(complain[1])},
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	_ = unix.Close(complain[1])
	said := os.NewFile(uintptr(complain[0]), "stderr of bwrap")
	defer said.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	text, _ := io.ReadAll(io.LimitReader(said, maxStderr))
	status, err := wait(pid)
	if err == nil && (!status.Exited() || status.ExitStatus() != 0) {
		err = fmt.Errorf("%s failed: %s", program, bytes.TrimSpace(text))
	}
	return err
}
