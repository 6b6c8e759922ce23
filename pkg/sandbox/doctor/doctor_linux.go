package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/bwrap"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Names of backends with special rules.
const (
	namespacesName = "namespaces"
	bwrapName      = "bwrap"
	brokerName     = "broker"
	landlockName   = "landlock"
)

// Examine asks the launcher for its results, and runs the other checks itself. It takes at most a
// second, unless a child hangs; then it gives up on the child after childTime.
func Examine(ctx context.Context) *Report {
	e := &examination{ctx: ctx, facts: readFacts(os.DirFS("/"))}
	if self, err := os.Executable(); err == nil {
		e.facts.self = self
	}
	r := &e.report
	*r = Report{
		Schema: Schema, System: runtime.GOOS, Arch: runtime.GOARCH, Kernel: e.facts.kernel,
		UID: os.Getuid(), Container: e.facts.container, Backends: []Backend{}, Notes: []string{},
	}
	dir, err := os.MkdirTemp("", "codex-doctor-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		// The path of the temporary directory may contain a link.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		e.note("Nothing can be written in the temporary directory (%v), so no sandbox was tried; set TMPDIR to a directory that can.", err)
		dir = ""
	}
	e.dir = dir
	e.backends()
	e.helpers()
	e.namespaces()
	e.seccomp()
	e.landlock()
	e.broker()
	e.bubblewrap()
	e.terminal()
	e.cgroup()
	e.tasks()
	e.memory()
	e.inotify()
	e.conclude()
	return r
}

// examination is one run of Examine.
type examination struct {
	ctx    context.Context
	facts  *facts
	dir    string // for files; empty: none
	report Report

	probed   map[string]runner.ProbeResult // the launcher's answer, by backend
	abi      int                           // the version of Landlock from the same answer; 0: none
	did      []string                      // what a command could do with the first backend that permits writing
	launches bool                          // the launcher answers
}

func (e *examination) note(format string, args ...any) {
	e.report.Notes = append(e.report.Notes, fmt.Sprintf(format, args...))
}

// backend returns the result for the backend with a name.
func (e *examination) backend(name string) *Backend {
	for i := range e.report.Backends {
		if e.report.Backends[i].Name == name {
			return &e.report.Backends[i]
		}
	}
	return &Backend{Name: name}
}

// backends asks the launcher which backends work, and makes each of them enforce the policies that
// it can.
func (e *examination) backends() {
	sandboxes, err := runner.NewRuntime(runner.Options{Self: true})
	if err != nil {
		e.note("The sandbox's launcher was not found (%v), so nothing can be confined; install codex again.", err)
		return
	}
	defer sandboxes.Close()
	results, abi, err := sandboxes.Probe()
	if err != nil {
		e.note("The sandbox's launcher does not work (%v), so nothing can be confined.", err)
		return
	}
	e.launches, e.abi, e.probed = true, abi, make(map[string]runner.ProbeResult)
	for _, p := range results {
		e.probed[p.Name] = p
		b := Backend{Name: p.Name, Works: p.Works, Reason: p.Reason}
		if b.Works && e.dir != "" {
			e.enforce(&b)
		}
		e.report.Backends = append(e.report.Backends, b)
	}
	if own := e.report.Backends; slices.ContainsFunc(own, workspaceWrites) && !slices.ContainsFunc(own, redirects) {
		e.note("In a sandbox with a network proxy, programs without proxy support reach no host. That needs the backend namespaces " +
			"or bwrap, and what connections to a command's own Unix sockets need.")
	}
	e.report.Auto.Reason = strings.TrimSuffix(sandboxes.Status().Reason, "; ")
}

// helpers reports where the launcher and the helper are. codex is both itself, also without files of their names, so
// nothing is wrong if there are none. But a program that embeds the server confines nothing without them.
func (e *examination) helpers() {
	if dir := runner.SeparatePrograms(e.facts.self); dir != "" {
		e.ok(Helpers, "codex-linux-sandbox and codex-fs are files in "+dir)
		return
	}
	e.ok(Helpers, "this program acts as codex-linux-sandbox and codex-fs; another program that embeds the server needs files of these names in its directory")
}

func workspaceWrites(b Backend) bool { return b.WorkspaceWrite }

// redirects reports whether the launcher redirects connections that bypass a network proxy to the
// proxy. The launcher makes these connections itself, as it does with connections to a command's
// own Unix sockets.
func redirects(b Backend) bool {
	return b.Name != landlockName && b.Name != brokerName && b.WorkspaceWrite && b.OwnSockets
}

// ok adds a check that succeeded.
func (e *examination) ok(name, detail string) {
	e.report.Checks = append(e.report.Checks, Check{Name: name, Status: OK, Detail: detail, Causes: []string{}, Fixes: []string{}})
}

// bad adds a check that failed. detail is the failure, and matters is its consequence.
func (e *examination) bad(name string, status Status, detail, matters string, all []blame) {
	c := Check{Name: name, Status: status, Detail: detail, Matters: matters, Causes: []string{}, Fixes: []string{}}
	for _, b := range all {
		c.Causes, c.Fixes = append(c.Causes, b.cause), append(c.Fixes, b.fix)
	}
	e.report.Checks = append(e.report.Checks, c)
}

// namespaces reports how far the launcher got with the backend namespaces. The launcher creates all
// namespaces at once, maps the user, and sets up a view. Steps after the failed one are not
// reported.
func (e *examination) namespaces() {
	p, known := e.probed[namespacesName]
	if !known {
		return
	}
	status, matters := Failed, "the backends namespaces and bwrap cannot work"
	for _, other := range []string{brokerName, bwrapName} {
		if e.backend(other).WorkspaceWrite {
			status, matters = Warning, "the backend namespaces cannot work; "+other+" does"
		}
	}
	fail := func(name string, a act) { e.bad(name, status, p.Reason, matters, e.facts.blames(a, p.Errno)) }
	const made = "can be made"
	if p.Step == runner.StepClone {
		fail(e.facts.refusedNamespace(p.Errno), makingNamespaces)
		return
	}
	e.ok(UserNamespace, made)
	if p.Step == runner.StepMap {
		fail(UserMapping, mappingUsers)
		return
	}
	e.ok(UserMapping, "this user can be mapped")
	switch {
	case p.Step == runner.StepMount && errors.Is(p.Errno, unix.ENOSYS):
		fail(MountAPI, mounting)
	case p.Step == runner.StepMount:
		fail(MountNamespace, mounting)
	default:
		e.ok(MountNamespace, "with mounts of its own")
		e.ok(MountAPI, "mount_setattr works")
	}
	e.ok(PIDNamespace, made)
	switch {
	case e.did == nil: // no sandbox has started
	case slices.Contains(e.did, didFreshProc):
		e.ok(FreshProc, "can be mounted in a new PID namespace")
	case slices.Contains(e.did, didProc):
		e.bad(FreshProc, Warning, "none can be mounted; a command sees this machine's or container's /proc, read-only",
			"a command can read names and arguments of processes outside, and finds itself under other numbers than its own; it can neither signal these processes "+
				"nor read their memory, environment and files", e.facts.blames(mountingProc, unix.EPERM))
	default:
		e.bad(FreshProc, Warning, "/proc is empty in a sandbox", "programs that look into /proc fail", e.facts.blames(mountingProc, unix.EPERM))
	}
	network := made
	if slices.Contains(e.did, didLoopback) {
		network += ", with its loopback up"
	}
	e.ok(NetworkNamespace, network)
	e.ok(OtherNamespaces, made)
}

// seccomp reports whether the launcher could install its filter.
func (e *examination) seccomp() {
	p := e.probed[namespacesName]
	switch {
	case p.Step == runner.StepFilter:
		var all []blame
		if errors.Is(p.Errno, unix.EINVAL) || errors.Is(p.Errno, unix.ENOSYS) {
			all = []blame{{"the kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER=y"}}
		}
		e.bad(Seccomp, Failed, p.Reason, "nothing can be confined at all", all)
	case p.Works || slices.ContainsFunc(e.report.Backends, func(b Backend) bool { return b.ReadOnly }):
		well := "filters work"
		if e.facts.seccompMode == 2 {
			well += fmt.Sprintf("; this process is under %d already", max(1, e.facts.seccompFilters))
		}
		e.ok(Seccomp, well)
	}
}

// terminal checks that a line written to a PTY arrives at its other end.
func (e *examination) terminal() {
	err := tryTerminal()
	if err == nil {
		e.ok(Terminal, "PTYs work")
		return
	}
	var all []blame
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		all = []blame{{"/dev/ptmx or devpts is missing", "mount it: mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && ln -sf pts/ptmx /dev/ptmx"}}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EIO) && e.facts.ptyUsed >= e.facts.ptyMax:
		all = []blame{{fmt.Sprintf("%d of %d PTYs are in use", e.facts.ptyUsed, e.facts.ptyMax), sysctl("kernel.pty.max", "8192")}}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		all = []blame{{"/dev/ptmx or /dev/pts may not be opened by this user", "chmod 0666 /dev/ptmx, and mount /dev/pts with ptmxmode=0666"}}
	}
	e.bad(Terminal, Warning, err.Error(), "no command can have a terminal", all)
}

func tryTerminal() error {
	ours, theirs, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a PTY: %w", err)
	}
	defer ours.Close()
	defer theirs.Close()
	const line = "x\n"
	if _, err := ours.WriteString(line); err != nil {
		return fmt.Errorf("write to a PTY: %w", err)
	}
	got := make([]byte, len(line))
	if n, err := theirs.Read(got); err != nil || string(got[:n]) != line {
		return fmt.Errorf("read from a PTY: got %q, %v", got[:n], err)
	}
	return nil
}

// fewInstances is a limit of inotify instances that sandboxes alone can exhaust. Each sandbox that
// watches for a missing .git takes one instance.
const fewInstances = 16

// inotify checks that a directory can be watched.
func (e *examination) inotify() {
	const matters = "only so many sandboxes at a time can keep .git from being made in a part of a git work tree; more do not start"
	raise := sysctl("fs.inotify.max_user_instances", "1024")
	err := tryInotify()
	n := e.facts.inotifyInstances
	switch {
	case errors.Is(err, unix.EMFILE):
		e.bad(Inotify, Warning, err.Error(), matters,
			[]blame{{fmt.Sprintf("this user has all inotify instances in use that it may (fs.inotify.max_user_instances is %d)", n), raise}})
	case errors.Is(err, unix.ENOSPC):
		e.bad(Inotify, Warning, err.Error(), matters,
			[]blame{{"this user has all inotify watches in use that it may", sysctl("fs.inotify.max_user_watches", "524288")}})
	case err != nil:
		e.bad(Inotify, Warning, err.Error(), matters, nil)
	case n == unset:
		e.ok(Inotify, "works")
	case n < fewInstances:
		e.bad(Inotify, Warning, fmt.Sprintf("works; at most %d at a time for this user", n), matters,
			[]blame{{fmt.Sprintf("sysctl fs.inotify.max_user_instances is %d", n), raise}})
	default:
		e.ok(Inotify, fmt.Sprintf("works; at most %d at a time for this user", n))
	}
}

func tryInotify() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, "/", unix.IN_CREATE)
	return os.NewSyscallError("inotify_add_watch", err)
}

// broker reports whether the launcher can change files for a command where no namespaces can be made.
func (e *examination) broker() {
	p, known := e.probed[brokerName]
	switch {
	case !known:
	case p.Works:
		e.ok(Broker, "the launcher can change files for a command, without namespaces; unpacking many files takes 5 to 8 times as long then")
	default:
		e.bad(Broker, e.unlessNeeded(), p.Reason, "without namespaces, no policy that lets something be written can be enforced", nil)
	}
}

// landlock reports the version of Landlock that the launcher has found. The backend landlock and
// the second wall need it.
func (e *examination) landlock() {
	if !e.launches {
		return
	}
	var all []blame
	p := e.probed[landlockName]
	switch {
	case e.abi > 0:
		all = []blame{{"the kernel " + e.facts.kernel + " is too old", "use Linux 6.12 or newer"}}
	case errors.Is(p.Errno, unix.EOPNOTSUPP):
		list := "landlock"
		if len(e.facts.lsms) > 0 {
			list += "," + strings.Join(e.facts.lsms, ",")
		}
		all = []blame{{"the kernel has Landlock, but it was not enabled at boot", "boot with lsm=" + list + " on the kernel's command line"}}
	case e.facts.seccompMode == 2 && (errors.Is(p.Errno, unix.ENOSYS) || errors.Is(p.Errno, unix.EPERM)):
		all = []blame{e.facts.seccomp()}
	case errors.Is(p.Errno, unix.ENOSYS):
		all = []blame{{"the kernel has no Landlock", "use Linux 6.12 or newer with CONFIG_SECURITY_LANDLOCK=y"}}
	}
	e.secondWall(p.Reason, all)
	if p.Works {
		e.ok(Landlock, fmt.Sprintf("version %d", e.abi))
	} else {
		e.bad(Landlock, e.unlessNeeded(), p.Reason, "the backend landlock, which enforces read-only policies without namespaces, cannot work", all)
	}
}

// secondWall reports whether Landlock can confine commands in addition to the mounts. An older
// version of Landlock is enough for this than for the backend landlock.
func (e *examination) secondWall(reason string, all []blame) {
	switch {
	case e.abi == 0:
	case e.abi < plan.WallABI:
		reason = fmt.Sprintf("this kernel has version %d of Landlock; %d is needed", e.abi, plan.WallABI)
		all = []blame{{"the kernel " + e.facts.kernel + " is too old", "use Linux 5.19 or newer"}}
	default:
		well := fmt.Sprintf("Landlock version %d, on top of the mounts of namespaces and bwrap", e.abi)
		if e.abi < plan.LandlockABI {
			well += "; without its scopes for signals, which came with version 6 (Linux 6.12)"
		}
		e.ok(SecondWall, well)
		return
	}
	e.bad(SecondWall, Warning, reason,
		"only the mounts keep a command from writing outside: FIFOs there can be written to, and no other mechanism catches a mistake in a mount", all)
}

// unlessNeeded returns the status of a failure that affects only a later backend.
func (e *examination) unlessNeeded() Status {
	if e.backend(namespacesName).WorkspaceWrite || e.backend(brokerName).WorkspaceWrite {
		return Absent
	}
	return Failed
}

// bubblewrap runs the bwrap that the launcher would start, and asks for its version. backends has
// already tried whether bwrap works.
func (e *examination) bubblewrap() {
	const matters = "the backend bwrap does not work; it is for hosts that permit namespaces only for bwrap"
	program, err := bwrap.Find()
	if err != nil {
		e.bad(Bubblewrap, e.unlessNeeded(), "bwrap is not on PATH", matters, []blame{{"bubblewrap is not installed", e.facts.install("bubblewrap")}})
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.WaitDelay = killDelay
	text, err := cmd.Output()
	version := strings.TrimPrefix(clip(string(text)), "bubblewrap ")
	if err != nil {
		version = err.Error()
	}
	b := e.backend(bwrapName)
	if b.WorkspaceWrite {
		e.ok(Bubblewrap, program+", version "+version)
		return
	}
	var all []blame
	// The check of the namespaces already reports what prevents them.
	if step := e.probed[namespacesName].Step; step == runner.StepClone || step == runner.StepMap || step == runner.StepMount {
		all = []blame{{"it needs the same namespaces", "as above"}}
	}
	e.bad(Bubblewrap, e.unlessNeeded(), program+", "+version+": "+b.Reason, matters, all)
}

// tasks adds a note if the processes and threads of commands cannot be limited: see
// pkg/host/process, tasks_linux.go.
func (e *examination) tasks() {
	if os.Geteuid() == 0 && !e.boundsTasks() {
		e.note("A command of a server of root can take all processes and threads here, and the server may end then: the cgroup has no controller pids " +
			"that could bound commands. Run the server as an ordinary user, or where it may make such cgroups.")
	}
}

// memory adds a note if the kernel kills a server together with its commands.
func (e *examination) memory() {
	if group := process.OOMGroup(); group != "" {
		e.note("When memory is short, the kernel kills a server together with all commands: memory.oom.group is 1 in %s. On Kubernetes set singleProcessOOMKill "+
			"in the configuration of the kubelet, under systemd OOMPolicy=continue in the unit.", group)
	}
}

// boundsTasks reports whether cgroups below this program's cgroup, or below one of its parents, may
// have the controller pids.
func (e *examination) boundsTasks() bool {
	text, err := os.ReadFile(filepath.Join(e.facts.cgroup, "cgroup.controllers"))
	return e.facts.cgroup != "" && err == nil && slices.Contains(strings.Fields(string(text)), "pids") && unix.Access(e.facts.cgroup, unix.W_OK) == nil
}

// cgroup creates a cgroup below this program's cgroup, starts a child in it and kills all its
// processes with cgroup.kill.
func (e *examination) cgroup() {
	if all, err := e.tryCgroup(); err != nil {
		e.bad(Cgroup, Warning, err.Error(), "a process that leaves its session and its parent can outlive what started it", all)
	} else {
		e.ok(Cgroup, "can be made below "+e.facts.cgroup+", and cgroup.kill works")
	}
}

// tryCgroup makes the test of cgroup. On failure it returns the error and its likely causes.
func (e *examination) tryCgroup() ([]blame, error) {
	delegate := e.facts.inContainer("start codex as a systemd service with Delegate=yes, or by systemd-run --user --scope -p Delegate=yes",
		"docker run --cgroupns private, with /sys/fs/cgroup mounted writable",
		"mount a writable cgroup v2 into the container; without it codex works too")
	if e.facts.cgroup == "" {
		return []blame{{"the host has no cgroup v2, or does not show it here", delegate}}, errors.New("no cgroup v2 is mounted here")
	}
	dir, err := os.MkdirTemp(e.facts.cgroup, "codex-doctor-")
	if err != nil {
		return []blame{{"this user may not make cgroups there", delegate}}, err
	}
	defer func() { _ = os.Remove(dir) }()
	kill, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return []blame{{"cgroup.kill came with Linux 5.14; this is " + e.facts.kernel, "use Linux 5.14 or newer"}}, err
	}
	defer kill.Close()
	place, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	ctx, cancel := context.WithTimeout(e.ctx, childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.facts.self, Arg, childWaits)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(place.Fd())}
	cmd.WaitDelay = killDelay
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		// RestrictNamespaces= of systemd refuses clone3, because a filter cannot inspect
		// its arguments.
		all := []blame{{"this user may not move processes there", delegate}}
		if errors.Is(err, unix.ENOSYS) && e.facts.seccompMode == 2 {
			all = []blame{e.facts.seccomp()}
		}
		return all, fmt.Errorf("start a process in a cgroup: %w", err)
	}
	if _, err := kill.WriteString("1"); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	_ = cmd.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("kill a cgroup: its process still exists after %v", childTime)
	}
	return nil, nil
}

// conclude sets the fields of the report that summarize the checks.
func (e *examination) conclude() {
	r := &e.report
	for _, b := range r.Backends {
		if b.Works && r.Auto.Backend == "" {
			r.Auto.Backend = b.Name
		}
		r.ReadOnly = r.ReadOnly || b.ReadOnly
		r.WorkspaceWrite = r.WorkspaceWrite || b.WorkspaceWrite
	}
	switch {
	case r.WorkspaceWrite:
		e.note("This host enforces read-only and workspace-write policies.")
	case r.ReadOnly:
		e.note("This host enforces read-only policies, but not workspace-write: Landlock alone cannot protect .git, .agents and .codex below what may be written. Requests for more are refused.")
	default:
		e.note("This host cannot confine anything: requests for a sandbox are refused. Without one, confine codex itself: a container, a VM, or a separate user.")
	}
}
