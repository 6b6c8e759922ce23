package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/bwrap"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// bubblewrap is the backend that lets the system's bwrap make the namespaces, for hosts that allow
// only bwrap to do that. bwrap gets the plan as arguments. Inside, it starts the launcher again.
// This second stage confines itself and executes the command, because older versions of bwrap have
// no options for argv[0] and for the filter.
type bubblewrap struct{}

func (bubblewrap) refuse(l *launch) error {
	if err := bwrapRefusal(); err != nil || l == nil {
		return err
	}
	return bwrap.Refusal(l.plan)
}

// stagePath is the path of the launcher in the sandbox. It is in the view's own /dev, which every
// view has. The program codex recognizes by this name that it must act as the launcher.
const stagePath = "/dev/codex-linux-sandbox"

// maxStderr bounds the standard error of bwrap that is read, in bytes.
const maxStderr = 64 << 10

func (b bubblewrap) run(l *launch) (int, error) {
	others := []string{l.policyCwd, l.commandCwd}
	for _, m := range l.plan.Mounts {
		if m.Kind == plan.BindWritable && !m.Pin {
			others = append(others, m.Target)
		}
	}
	program, err := bwrap.Find(others...)
	if err != nil {
		return 0, &unavailable{err}
	}
	made, err := l.makePlaceholders(true)
	if err != nil {
		return 0, err
	}
	defer made.close()
	if err := made.undo.Watch(); err != nil {
		return 0, err
	}
	w := &wrapped{l: l, placeholders: made, terminal: l.ownTerminal()}
	defer w.close()
	code, err := w.run(program)
	if appeared := made.stopWatch(); err == nil && appeared && code == 0 {
		code = 1
	}
	return code, err
}

// wrapped is a run of bwrap.
type wrapped struct {
	l            *launch
	placeholders *placed
	terminal     bool
	init         int        // a pidfd of the sandbox's first process; 0: not open
	files        []*os.File // files to close at the end
	talk         [2]int     // the second stage sends its process id here
	complain     [2]int     // bwrap writes its own messages here
	came         uint64     // the set of signals that were passed on
	failed       string     // the reason why the second stage has not run the command
	binds        []byte     // paths that the second stage must find mounted
}

func (w *wrapped) close() {
	for _, f := range w.files {
		_ = f.Close()
	}
	for _, fd := range []int{w.talk[0], w.talk[1], w.complain[0], w.complain[1], w.init} {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
}

// Numbers of bwrap's descriptors after the standard three.
const (
	talkFD = iota + 3
	stderrFD
	execFD
	environFD
	filterFD
	bindsFD
	inheritedFD
	firstEmpty
)

// run starts bwrap and waits for it.
func (w *wrapped) run(program string) (int, error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	files, err := w.descriptors()
	if err != nil {
		return 0, err
	}
	args, files, err := w.arguments(files)
	if err != nil {
		return 0, err
	}
	if w.terminal {
		if err := giveUpTerminal(); err != nil {
			return 0, err
		}
	}
	return w.start(program, args, files)
}

// descriptors returns the descriptors for bwrap. The index is the number in bwrap.
func (w *wrapped) descriptors() ([]uintptr, error) {
	standard, again, err := w.l.standard()
	if err != nil {
		return nil, err
	}
	files := make([]uintptr, firstEmpty)
	files[0], files[1], files[2], files[stderrFD] = standard[0], standard[1], uintptr(w.complain[1]), standard[2]
	files[talkFD], files[execFD] = uintptr(w.talk[1]), standard[2]
	if w.l.execFD >= 0 {
		files[execFD] = uintptr(w.l.execFD)
	}
	binds, err := bwrap.Binds(w.l.plan)
	if err != nil {
		return nil, &changed{fmt.Errorf("cannot make the sandbox: %w", err)}
	}
	for _, r := range w.placeholders.undo.Names() {
		binds = fmt.Appendf(binds, "%d %d %s\x00", r.Dev, r.Ino, path.Dir(r.Path))
	}
	binds = bwrap.AppendWall(binds, w.l.plan, w.l.helper)
	w.binds = binds
	outer := w.rules()
	if outer.Sockets >= plan.SocketsLoopback || outer.Asks() {
		// The second stage runs under this filter as well. It creates sockets, and then installs
		// the filter that asks the launcher about connections.
		outer.Network = plan.NetworkOn
	}
	filter := outer.Filter()
	for fd, data := range map[int][]byte{
		environFD: []byte(strings.Join(w.l.commandEnv(), "\x00") + "\x00"), bindsFD: binds, inheritedFD: again,
		filterFD: unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(filter)*int(unsafe.Sizeof(filter[0]))),
	} {
		if files[fd], err = w.memory(data); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// arguments returns the arguments of bwrap. given are files, and the descriptors that the arguments name.
func (w *wrapped) arguments(files []uintptr) (args []string, given []uintptr, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the launcher itself: %w", err)
	}
	view := w.l.plan
	if !mounting {
		view = &plan.Plan{Root: plan.RootWritable, Network: view.Network}
	}
	args = append([]string{"--seccomp", strconv.Itoa(filterFD)}, bwrap.Arguments(view, !w.l.unsized)...)
	args = slices.DeleteFunc(args, func(a string) bool {
		kind, found := strings.CutPrefix(a, "--unshare-")
		return found && mistake(kind)
	})
	if !w.terminal {
		args = append(args, "--new-session")
	}
	args = append(args, "--ro-bind", self, stagePath, "--remount-ro", "/dev", "--chdir", w.l.commandCwd)
	for i, a := range args {
		if a != bwrap.EmptyFD {
			continue
		}
		fd, err := w.memory(nil)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, fd)
		args[i] = strconv.Itoa(len(files) - 1)
	}
	if j := w.placeholders.janitor; j != nil {
		// bwrap holds the janitor's connection too: it creates missing mount points, so
		// the janitor must not clean up before bwrap has ended.
		files = append(files, uintptr(j.FD))
	}
	// The command can read the arguments of bwrap, the first process inside, in /proc. They would
	// show which paths are denied. So bwrap reads them from a descriptor.
	hidden, err := w.memory([]byte(strings.Join(args, "\x00") + "\x00"))
	if err != nil {
		return nil, nil, err
	}
	files = append(files, hidden)
	args = []string{"bwrap", "--args", strconv.Itoa(len(files) - 1)}
	args = append(args, "--", stagePath, "--second-stage", w.spec(), "--env-fd", strconv.Itoa(environFD), "--argv0="+w.l.argv0(), "--")
	return append(args, w.l.command...), files, nil
}

// start starts bwrap, forwards signals to the command, and waits for its end.
func (w *wrapped) start(program string, args []string, files []uintptr) (int, error) {
	signals := make(chan os.Signal, len(initproc.Forwarded))
	for _, sig := range initproc.Forwarded {
		if !initproc.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // this process becomes the parent of bwrap's leftover processes: see supervise
	restore := lowerTasks(w.l.tasks)
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		// bwrap runs in a process group of its own: signals to the launcher's group would end it.
		Files: files, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, UseCgroupFD: w.l.cgroupFD > 0, CgroupFD: w.l.cgroupFD},
	})
	restore()
	if err != nil {
		return 0, &unavailable{fmt.Errorf("start %s: %w", program, err)}
	}
	code, err := w.supervise(pid, signals)
	if err != nil {
		// A signal that ends the command has arrived. The next try must not run the command.
		signal.Stop(signals)
		for len(signals) > 0 {
			w.came |= initproc.Bit((<-signals).(syscall.Signal))
		}
		endBy(w.came)
	}
	return code, err
}

// memory writes data to a memory file that bwrap inherits.
func (w *wrapped) memory(data []byte) (uintptr, error) {
	fd, err := unix.MemfdCreate("codex-linux-sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	w.files = append(w.files, f)
	if _, err := f.WriteAt(data, 0); err != nil {
		return 0, fmt.Errorf("fill a file in memory: %w", err)
	}
	return uintptr(fd), nil
}

// checkMounts returns an error if bwrap's mounts differ from the plan. Otherwise it returns the
// grants of the second wall. Without /proc it checks only a part, and the first stage checks the
// rest: see checkFromOutside.
func checkMounts(noProc bool) ([]plan.Grant, error) {
	text, err := inherited("list of mounts", bindsFD, maxProfile)
	if err == nil {
		err = bwrap.CheckBinds(text, mounting)
	}
	if err == nil && !noProc && mounting {
		err = bwrap.CheckWritable(text, "self")
	}
	return bwrap.ParseWall(text), err
}

// checkFromOutside checks the mounts of a second stage that has no /proc.
func (w *wrapped) checkFromOutside(inner int) error {
	if !w.l.plan.NoProc || !mounting {
		return nil
	}
	if err := bwrap.CheckWritable(w.binds, strconv.Itoa(inner)); err != nil {
		return fmt.Errorf("cannot make the sandbox: %w", err)
	}
	return nil
}

// open creates the channel to the second stage and the pipe for bwrap's messages.
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

// supervise receives the process id of the second stage, forwards signals to it and waits. If there
// is no second stage, bwrap has failed.
func (w *wrapped) supervise(pid int, signals chan os.Signal) (int, error) {
	_ = unix.Close(w.talk[1])
	_ = unix.Close(w.complain[1])
	w.talk[1], w.complain[1] = -1, -1
	said := w.readComplaints()
	ended, passed := make(chan struct{}), make(chan struct{})
	inner := 0
	late := make(chan string, 1)
	go func() {
		defer close(passed)
		if inner = w.hello(); inner == 0 {
			late <- ""
			return
		}
		to, captured := w.begin(inner)
		go func() { late <- failureIn(mediate.Receive(w.talk[0], to, captured...)) }()
		w.came = passSignals(signals, inner, ended)
	}()
	status, err := initproc.Wait(pid)
	close(ended)
	<-passed
	if err != nil {
		return 0, err
	}
	if w.init > 0 {
		// bwrap may end before the last process inside, and does not wait for the first process. So
		// this process waits for it, and getrusage then includes its usage.
		_ = poll(w.init)
		_ = unix.Waitid(unix.P_PIDFD, w.init, nil, unix.WEXITED, nil)
	}
	_ = unix.Shutdown(w.talk[0], unix.SHUT_RD)
	if failed := <-late; w.failed == "" {
		w.failed = failed
	}
	switch {
	case w.failed != "":
		return 0, w.unlessMoved(errors.New(w.failed), nil)
	case inner == 0:
		return 0, w.bwrapFailed(bytes.TrimSpace(<-said))
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// readComplaints reads bwrap's own messages. It sends them on the channel when bwrap has ended.
func (w *wrapped) readComplaints() <-chan []byte {
	complaints := os.NewFile(uintptr(w.complain[0]), "stderr of bwrap")
	w.complain[0] = -1
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(complaints, maxStderr))
		_ = complaints.Close()
		said <- text
	}()
	return said
}

// passSignals forwards signals to the process group of the command until bwrap has ended. The first process inside, which bwrap
// runs, may be in that group; the kernel does not deliver them to it. It returns the signals that have arrived.
func passSignals(signals <-chan os.Signal, command int, ended <-chan struct{}) (came uint64) {
	for {
		select {
		case sig := <-signals:
			came |= initproc.Bit(sig.(syscall.Signal))
			if group, err := unix.Getpgid(command); err == nil {
				_ = unix.Kill(-group, sig.(syscall.Signal))
			}
		case <-ended:
			return came
		}
	}
}

// begin lets the second stage execute the command. Before that it reports the first process inside to the janitor.
// That process is the parent of the second stage: when it ends, all processes inside have ended. It returns the
// redirection of connections and its listeners, or nil if connections are not redirected.
func (w *wrapped) begin(inner int) (to *mediate.Redirect, captured []int) {
	init := bwrap.ParentOf(inner)
	if fd, err := unix.PidfdOpen(init, 0); err == nil {
		w.init = fd
	}
	if w.l.redirects() {
		to, _ = mediate.NewRedirect(w.l.egressFD)
	}
	if entered := enterNamespacesOf(inner, to); to != nil && entered {
		captured = to.Fixed[:]
	} else if to != nil {
		// A set-user-ID bwrap has made namespaces that belong to root.
		to.Release()
		to = nil
	}
	err := w.l.checkOwnOf(inner)
	if err == nil {
		err = w.checkFromOutside(inner)
	}
	if err == nil {
		err = w.placeholders.commit(init)
	}
	if err == nil {
		err = w.placeholders.awaitJanitor()
	}
	if err != nil {
		// The second stage runs the command only if it gets this byte.
		w.failed = err.Error()
		_ = unix.Shutdown(w.talk[0], unix.SHUT_WR)
	} else {
		_, _ = unix.Write(w.talk[0], []byte{1})
	}
	return to, captured
}

// poll waits until the process of a pidfd has ended.
func poll(pidfd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// rules returns the rules of the command's filter. bwrap's first process inside could be traced: it is no process of this program.
func (w *wrapped) rules() plan.Rules {
	r := w.l.viewRules()
	r.Tracing = false
	return r
}

// spec returns the argument of --second-stage.
func (w *wrapped) spec() string {
	rules := w.rules()
	spec := []string{"network=" + strconv.Itoa(int(w.l.plan.Network)), "sockets=" + strconv.Itoa(int(w.l.sockets())),
		"tasks=" + strconv.Itoa(w.l.tasks), "root=" + strconv.Itoa(int(w.l.plan.Root))}
	for word, said := range map[string]bool{
		"nesting": w.l.nesting, "terminal": w.terminal, "noproc": w.l.plan.NoProc, "plain": w.l.plain,
		"files": rules.Files, "netlink": rules.Netlink, "rootonly": rules.RootOnly, "unix": w.l.unixSockets, "connect": w.l.connects(), "handed": w.l.handed, "exec": w.l.execFD >= 0,
	} {
		if said {
			spec = append(spec, word+"=1")
		}
	}
	if w.l.proxies != nil {
		for _, port := range w.l.proxies.Ports {
			spec = append(spec, "port="+strconv.Itoa(int(port)))
		}
	}
	return strings.Join(spec, ",")
}

// probe determines whether bwrap works here, by running it.
func (b bubblewrap) probe() error {
	program, err := bwrap.Find()
	if err == nil {
		err = b.refuse(nil)
	}
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
	args := []string{
		"bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/",
		"--dev", "/dev", "--proc", "/proc", "--", "/proc/self/exe", "--help",
	}
	pid, err := syscall.ForkExec(program, args, &syscall.ProcAttr{
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(complain[1])},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	_ = unix.Close(complain[1])
	said := os.NewFile(uintptr(complain[0]), "stderr of bwrap")
	defer said.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	text, _ := io.ReadAll(io.LimitReader(said, maxStderr))
	status, err := initproc.Wait(pid)
	if err == nil && (!status.Exited() || status.ExitStatus() != 0) {
		err = fmt.Errorf("%s failed: %s", program, bytes.TrimSpace(text))
	}
	return err
}
