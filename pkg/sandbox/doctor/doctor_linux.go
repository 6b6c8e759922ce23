package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// Names of backends that are treated in a way of their own.
const (
	namespacesName = "namespaces"
	bwrapName      = "bwrap"
	landlockName   = "landlock"
)

// landlockNeeded is the version of Landlock that the backend asks for.
const landlockNeeded = 6

// Examine tries everything. It takes a second at most, unless something hangs
// and has to be given up.
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
		// The temporary directory may lead elsewhere by a link.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		e.note("Nothing can be written in the temporary directory (%v), so no sandbox was tried; set TMPDIR to a directory that can.", err)
		dir = ""
	}
	e.dir = dir
	e.backends()
	e.namespaces()
	e.seccomp()
	e.landlock()
	e.bubblewrap()
	e.terminal()
	e.cgroup()
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
}

func (e *examination) note(format string, args ...any) {
	e.report.Notes = append(e.report.Notes, fmt.Sprintf(format, args...))
}

// backend is the result for a backend, by name.
func (e *examination) backend(name string) *Backend {
	for i := range e.report.Backends {
		if e.report.Backends[i].Name == name {
			return &e.report.Backends[i]
		}
	}
	return &Backend{Name: name}
}

// child runs a probe in a child with these clone flags, or says how it could
// not even be started.
func (e *examination) child(flags uintptr, mapped bool, args ...string) outcome {
	attr := &syscall.SysProcAttr{Cloneflags: flags}
	if mapped {
		// Only these ids, as an ordinary user may map no others.
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	o := e.run("/proc/self/exe", append([]string{"codex", Arg}, args...), os.Environ(), nil, attr)
	if o.Step == starting && flags != 0 {
		o.Step = cloning
	}
	return o
}

// Steps before a child is there.
const (
	starting = "start"
	cloning  = "make it"
)

// run runs a child that tells an outcome.
func (e *examination) run(path string, args, env []string, files []*os.File, attr *syscall.SysProcAttr) outcome {
	ctx, cancel := context.WithTimeout(e.ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	var out, errs bytes.Buffer
	cmd.Args, cmd.Env, cmd.ExtraFiles, cmd.SysProcAttr = args, env, files, attr
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, killDelay
	if err := cmd.Start(); err != nil {
		return failure(starting, err)
	}
	err := cmd.Wait()
	var o outcome
	switch {
	case ctx.Err() != nil:
		return outcome{Step: "run", Text: fmt.Sprintf("no answer within %v", probeTime)}
	case err != nil && errs.Len() > 0:
		return outcome{Step: "run", Text: clip(errs.String())}
	case err != nil:
		return outcome{Step: "run", Text: err.Error()}
	}
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return outcome{Step: "run", Text: "an answer that is none: " + clip(out.String())}
	}
	return o
}

// add adds a check that went well, or one that failed.
func (e *examination) add(name string, o outcome, well string, bad Status, matters string, all []blame) {
	c := Check{Name: name, Status: OK, Detail: well, Causes: []string{}, Fixes: []string{}}
	if o.failed() {
		c.Status, c.Detail, c.Matters = bad, o.String(), matters
		for _, b := range all {
			c.Causes, c.Fixes = append(c.Causes, b.cause), append(c.Fixes, b.fix)
		}
	}
	e.report.Checks = append(e.report.Checks, c)
}

// noNamespaces is what does not work without namespaces.
const noNamespaces = "the backends namespaces and bwrap cannot work, and with them no policy that lets something be written"

// namespaces tries each kind of namespace.
func (e *examination) namespaces() {
	const user = unix.CLONE_NEWUSER
	o := e.child(user, false, "nothing")
	e.add(UserNamespace, o, "can be made", Failed, noNamespaces, e.facts.blames(makingNamespaces, o.Errno))
	if o.failed() {
		// What follows from this is not said again.
		return
	}
	o = e.child(user, true, "nothing")
	if o.Step == cloning {
		o.Step = "map this user" // as without a map it can be made
	}
	e.add(UserMapping, o, "this user can be mapped", Failed, noNamespaces, e.facts.blames(mappingUsers, o.Errno))
	if o.failed() {
		return
	}
	try := func(name string, flags uintptr, probe, well string, a act, bad Status, matters string) {
		o := e.child(user|flags, true, probe)
		if a != makingNamespaces && o.Step == cloning {
			a = makingNamespaces
		}
		e.add(name, o, well, bad, matters, e.facts.blames(a, o.Errno))
	}
	try(MountNamespace, unix.CLONE_NEWNS, "mounts", "with mounts of its own", mounting, Failed, noNamespaces)
	api := Failed
	if e.backend(bwrapName).WorkspaceWrite {
		api = Warning
	}
	try(MountAPI, unix.CLONE_NEWNS, "mountAPI", "mount_setattr works", mounting, api,
		"the backend namespaces cannot work; bwrap does without")
	try(PIDNamespace, unix.CLONE_NEWPID, "nothing", "can be made", makingNamespaces, Failed, noNamespaces)
	try(FreshProc, unix.CLONE_NEWNS|unix.CLONE_NEWPID, "proc", "can be mounted in a new PID namespace", mountingProc, Warning,
		"/proc is empty in a sandbox, and programs that look into it fail")
	try(NetworkNamespace, unix.CLONE_NEWNET, "nothing", "can be made", makingNamespaces, Failed,
		"no policy that takes the network away can be enforced by namespaces or bwrap")
	if c := e.report.Check(NetworkNamespace); c.Status == OK {
		// Without its loopback a network is still none.
		if o := e.child(user|unix.CLONE_NEWNET, true, "loopback"); o.failed() {
			c.Detail += "; its loopback stays down (" + o.String() + ")"
		} else {
			c.Detail += ", with its loopback up"
		}
	}
	try(OtherNamespaces, unix.CLONE_NEWIPC|unix.CLONE_NEWUTS, "nothing", "can be made", makingNamespaces, Failed, noNamespaces)
}

// seccomp tries a filter.
func (e *examination) seccomp() {
	o := e.child(0, false, "seccomp")
	var all []blame
	if errors.Is(o.Errno, unix.EINVAL) || errors.Is(o.Errno, unix.ENOSYS) {
		all = []blame{{"the kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER=y"}}
	}
	well := "filters work"
	if e.facts.seccompMode == 2 {
		well += fmt.Sprintf("; this process is under %d already", max(1, e.facts.seccompFilters))
	}
	e.add(Seccomp, o, well, Failed, "nothing can be confined at all", all)
}

// terminal tries a PTY.
func (e *examination) terminal() {
	o := e.child(0, false, "terminal")
	var all []blame
	switch {
	case errors.Is(o.Errno, unix.ENOENT), errors.Is(o.Errno, unix.ENODEV):
		all = []blame{{"there is no /dev/ptmx or no devpts", "mount it: mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && ln -sf pts/ptmx /dev/ptmx"}}
	case errors.Is(o.Errno, unix.ENOSPC), errors.Is(o.Errno, unix.EIO) && e.facts.ptyUsed >= e.facts.ptyMax:
		all = []blame{{fmt.Sprintf("%d of %d PTYs are in use", e.facts.ptyUsed, e.facts.ptyMax), sysctl("kernel.pty.max", "8192")}}
	case errors.Is(o.Errno, unix.EACCES), errors.Is(o.Errno, unix.EPERM):
		all = []blame{{"/dev/ptmx or /dev/pts may not be opened by this user", "chmod 0666 /dev/ptmx, and mount /dev/pts with ptmxmode=0666"}}
	}
	e.add(Terminal, o, "PTYs work", Warning, "no command can have a terminal", all)
}

// fewInstances is a limit of inotify instances that sandboxes alone can reach:
// one that has to watch takes one.
const fewInstances = 16

// inotify tries a watch.
func (e *examination) inotify() {
	o := e.child(0, false, "inotify")
	var all []blame
	raise := sysctl("fs.inotify.max_user_instances", "1024")
	if errors.Is(o.Errno, unix.EMFILE) {
		all = []blame{{fmt.Sprintf("this user has all inotify instances in use that it may (fs.inotify.max_user_instances is %d)", e.facts.inotifyInstances), raise}}
	} else if errors.Is(o.Errno, unix.ENOSPC) {
		all = []blame{{"this user has all inotify watches in use that it may", sysctl("fs.inotify.max_user_watches", "524288")}}
	}
	well := "works"
	if n := e.facts.inotifyInstances; n != unset {
		well = fmt.Sprintf("works; at most %d at a time for this user", n)
		if !o.failed() && n < fewInstances {
			o = outcome{Step: "watch a directory", Text: well}
			all = []blame{{fmt.Sprintf("sysctl fs.inotify.max_user_instances is %d", n), raise}}
		}
	}
	e.add(Inotify, o, well, Warning, "only so many sandboxes at a time can keep .git from being made in a part of a git work tree; more do not start", all)
}

// landlock tries Landlock.
func (e *examination) landlock() {
	args := []string{"landlock"}
	if e.dir != "" {
		args = append(args, e.dir)
	}
	o := e.child(0, false, args...)
	var all []blame
	switch {
	case errors.Is(o.Errno, unix.EOPNOTSUPP):
		list := "landlock"
		if len(e.facts.lsms) > 0 {
			list += "," + strings.Join(e.facts.lsms, ",")
		}
		all = []blame{{"the kernel has Landlock, but it was not enabled at boot", "boot with lsm=" + list + " on the kernel's command line"}}
	case errors.Is(o.Errno, unix.ENOSYS) && e.facts.seccompMode == 2:
		all = []blame{e.facts.seccomp()}
	case errors.Is(o.Errno, unix.ENOSYS):
		all = []blame{{"the kernel has no Landlock", "use Linux 6.12 or newer with CONFIG_SECURITY_LANDLOCK=y"}}
	case errors.Is(o.Errno, unix.EPERM) && e.facts.seccompMode == 2:
		all = []blame{e.facts.seccomp()}
	}
	e.secondWall(o, all)
	if !o.failed() && o.Number < landlockNeeded {
		o = outcome{Step: "ask for Landlock", Text: fmt.Sprintf("version %d; %d is needed, to keep signals inside", o.Number, landlockNeeded)}
		all = []blame{{"the kernel " + e.facts.kernel + " is too old", "use Linux 6.12 or newer"}}
	}
	e.add(Landlock, o, fmt.Sprintf("version %d", o.Number), e.unlessNeeded(),
		"the backend landlock cannot work, which enforces read-only policies where there are no namespaces", all)
}

// secondWall says whether commands that the mounts confine are under Landlock as
// well. It comes before what only the backend landlock needs.
func (e *examination) secondWall(o outcome, all []blame) {
	if !o.failed() && o.Number < sandbox.WallABI {
		o = outcome{Step: "ask for Landlock", Text: fmt.Sprintf("version %d; %d is needed", o.Number, sandbox.WallABI)}
		all = []blame{{"the kernel " + e.facts.kernel + " is too old", "use Linux 5.19 or newer"}}
	}
	well := fmt.Sprintf("Landlock version %d, on top of the mounts of namespaces and bwrap", o.Number)
	if o.Number < landlockNeeded {
		well += "; without its scopes for signals, which came with version 6 (Linux 6.12)"
	}
	e.add(SecondWall, o, well, Warning,
		"only the mounts keep a command from writing outside: FIFOs there can be written to, and a mistake in a mount is caught by nothing else", all)
}

// unlessNeeded is the status of what only a later backend needs.
func (e *examination) unlessNeeded() Status {
	if e.backend(namespacesName).WorkspaceWrite {
		return Absent
	}
	return Failed
}

// bubblewrap looks for bwrap, as the launcher does, and asks for its version.
// Whether it works has been tried with the backends.
func (e *examination) bubblewrap() {
	const matters = "the backend bwrap cannot work, which is for hosts that allow namespaces to bwrap alone"
	program := findBwrap()
	if program == "" {
		e.add(Bubblewrap, outcome{Step: "look for bwrap on PATH", Text: "there is none"}, "", e.unlessNeeded(), matters,
			[]blame{{"bubblewrap is not installed", e.facts.install("bubblewrap")}})
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.WaitDelay = killDelay
	text, err := cmd.Output()
	version := strings.TrimPrefix(clip(string(text)), "bubblewrap ")
	if err != nil {
		version = err.Error()
	}
	b := e.backend(bwrapName)
	var o outcome
	var all []blame
	if !b.WorkspaceWrite {
		o = outcome{Step: program + ", " + version, Text: b.Reason}
		// What keeps namespaces from being made has been told.
		if slices.ContainsFunc(e.report.Checks, func(c Check) bool {
			return c.Status == Failed && slices.Contains([]string{UserNamespace, UserMapping, MountNamespace, PIDNamespace, NetworkNamespace, OtherNamespaces}, c.Name)
		}) {
			all = []blame{{"it needs the same namespaces", "as above"}}
		}
	}
	e.add(Bubblewrap, o, program+", version "+version, e.unlessNeeded(), matters, all)
}

// findBwrap returns the bwrap that the launcher would start; empty if there
// is none. One below the current directory is not taken.
func findBwrap() string {
	cwd, err := os.Getwd()
	if err != nil {
		return ""
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "bwrap"))
		if err != nil || !filepath.IsAbs(dir) || unix.Access(real, unix.X_OK) != nil {
			continue
		}
		if _, below := relative(cwd, real); !below || cwd == "/" {
			return real
		}
	}
	return ""
}

// cgroup makes a cgroup below its own, starts a child in it and kills the
// whole by cgroup.kill.
func (e *examination) cgroup() {
	o, all := e.tryCgroup()
	e.add(Cgroup, o, "can be made below "+e.facts.cgroup+", and cgroup.kill works", Warning,
		"a process that leaves its session and its parent can outlive what started it", all)
}

func (e *examination) tryCgroup() (outcome, []blame) {
	delegate := e.facts.inContainer("start codex as a systemd service with Delegate=yes, or by systemd-run --user --scope -p Delegate=yes",
		"docker run --cgroupns private, with /sys/fs/cgroup mounted writable",
		"mount a writable cgroup v2 into the container; without it codex works too")
	if e.facts.cgroup == "" {
		return outcome{Step: "look for a cgroup v2", Text: "none is mounted here"}, []blame{{"the host has no cgroup v2, or does not show it here", delegate}}
	}
	dir, err := os.MkdirTemp(e.facts.cgroup, "codex-doctor-")
	if err != nil {
		return failure("make a cgroup below "+e.facts.cgroup, err), []blame{{"this user may not make cgroups there", delegate}}
	}
	defer func() { _ = os.Remove(dir) }()
	kill, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return failure("open cgroup.kill", err), []blame{{"cgroup.kill came with Linux 5.14; this is " + e.facts.kernel, "use Linux 5.14 or newer"}}
	}
	defer kill.Close()
	place, err := os.Open(dir)
	if err != nil {
		return failure("open a cgroup", err), nil
	}
	defer place.Close()
	ctx, cancel := context.WithTimeout(e.ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Arg, "wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(place.Fd())}
	cmd.WaitDelay = killDelay
	in, err := cmd.StdinPipe()
	if err != nil {
		return failure("make a pipe", err), nil
	}
	defer in.Close()
	switch err := cmd.Start(); {
	case errors.Is(err, unix.ENOSYS) && e.facts.seccompMode == 2:
		// As RestrictNamespaces= of systemd does, which cannot look at the arguments of clone3.
		return failure("start a process in a cgroup", err), []blame{e.facts.seccomp()}
	case err != nil:
		return failure("start a process in a cgroup", err), []blame{{"this user may not move processes there", delegate}}
	}
	if _, err := kill.WriteString("1"); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return failure("write to cgroup.kill", err), nil
	}
	_ = cmd.Wait()
	if ctx.Err() != nil {
		return outcome{Step: "kill a cgroup", Text: fmt.Sprintf("its process is there after %v", probeTime)}, nil
	}
	return outcome{}, nil
}

// conclude sums up.
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
		e.note("This host cannot confine anything: requests for a sandbox are refused. Without one, confine codex itself: a container, a VM, a user of its own.")
	}
}
