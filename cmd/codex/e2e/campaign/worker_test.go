package campaign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"golang.org/x/sys/unix"
)

const (
	// exitRefused is the launcher's exit code if it could not make the sandbox.
	exitRefused = 125
	// runTime is longer than a probe needs on a busy machine.
	runTime = 60 * time.Second
	// settleTime bounds the time in which the remaining processes of a sandbox must end.
	settleTime = 20 * time.Second
)

// result is a worker's report about a scenario.
type result struct {
	Breaches []breach
	Ran      int
	Refused  []string // the reasons, one for each run that was refused
	Killed   int
	Works    map[string]int // permitted operations that probes performed
	Requests int            // file requests that were answered
	Denied   int            // operations that returned an error
	Broken   string         // the reason why the scenario could not be played
}

// worker plays one scenario in its own process. It is the subreaper of all
// started processes, and as root has its own mounts.
type worker struct {
	*scenario
	bin, self string // the directory of the programs, and that of this worker
	w         *world
	oracle    *oracle
	r         result
	said      []string
}

// play plays the scenario, and judges its effects.
func (w *worker) play() error {
	if err := w.prepare(); err != nil {
		return err
	}
	defer w.w.close()
	oracles := []*oracle{w.oracle}
	outside := w.w.startOutside()
	var churn *confined
	if w.Inside != "" {
		churn = w.start(w.Inside, w.Entries, &errand{Churn: true, Seed: w.Seed + 1}, false)
		churn.await("ready")
	}
	for i := range w.Runs {
		w.run(i)
	}
	// This must come before the wider sandbox. The wider sandbox's command may put a link to v/r at
	// t/a. The next sandbox of the policy "t/a: write" would then make its placeholders in v/r,
	// which docs/security.md describes for wider policies (seed 900394).
	if w.Requests > 0 {
		w.requests()
	}
	// A first sandbox that can move t may put a link to v/r in its place. The wider policy, for which
	// the link is outside of every writable root, then follows it: docs/security.md says so. Scenario:
	// a first sandbox may write /, but not v (seed 7059834544256).
	if w.Wide != nil && !w.oracle.canMove(filepath.Join(w.w.top, "t")) {
		// Even a sandbox that is refused may have changed times, because it made placeholders.
		wide := w.wideOracle()
		if w.wide() {
			oracles = append(oracles, wide)
		}
	}
	if churn != nil {
		how := syscall.SIGTERM
		if w.Seed%2 == 0 {
			how = syscall.SIGKILL
		}
		_ = churn.cmd.Process.Signal(how)
		w.finish(churn, true)
	}
	outside.end()
	w.settle()
	w.r.Breaches = append(w.r.Breaches, w.w.judge(oracles, w.said, outside)...)
	return nil
}

// prepare creates the scenario's files in a place where they cannot harm other files.
func (w *worker) prepare() (err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	if os.Geteuid() == 0 {
		if err := w.ownRoot(); err != nil {
			return fmt.Errorf("make a root of its own: %w", err)
		}
	} else if w.Backend == "none" {
		return errors.New("only root may play without a sandbox")
	}
	top := filepath.Join(w.self, "s")
	if err := os.MkdirAll(filepath.Join(w.self, "home"), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(top, 0o755); err != nil {
		return err
	}
	for _, dir := range []string{top, filepath.Join(w.self, "home")} {
		if err := os.Chown(dir, w.UID, w.UID); err != nil {
			return err
		}
	}
	if w.w, err = lay(w.scenario, top); err != nil {
		return err
	}
	w.oracle = newOracle(top, w.Workspace, w.Entries)
	return nil
}

// wideOracle returns the oracle of the wider sandbox, without the guards of paths that the first
// sandbox can move. If the first sandbox has moved a path, the path is missing when the second one
// starts, which then cannot guard it. Scenario: the first sandbox makes t/b/d/a a link to t/b, and
// removes the link while the second one starts. Then the test cannot know where t/b/d/a/c led for
// the second sandbox, whatever is visible now (seed 1456591222885).
func (w *worker) wideOracle() *oracle {
	top := w.w.top
	wide := newOracle(top, w.Workspace, w.Wide)
	moves := func(p string) bool {
		for ; within(p, top) && p != top; p = filepath.Dir(p) {
			if w.oracle.canMove(p) {
				return true
			}
		}
		return false
	}
	steady := newOracle(top, w.Workspace, slices.DeleteFunc(slices.Clone(w.Wide), func(e entry) bool {
		return moves(filepath.Join(top, e.Target))
	}))
	wide.guards = slices.DeleteFunc(wide.guards, func(g string) bool {
		return moves(g) || !slices.Contains(steady.guards, g)
	})
	return wide
}

// ownRoot gives the worker a root file system whose changes do not reach the machine's: an overlay
// that disappears with the worker. Only the worker's directory and the programs are the real ones.
// So a probe that escapes, or is not confined, does no harm.
func (w *worker) ownRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	stage := filepath.Join(w.bin, "..", "root")
	if err := unix.Mount("root", stage, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	root := stage + "/root"
	for _, dir := range []string{root, stage + "/upper", stage + "/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+stage+"/upper,workdir="+stage+"/work"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", w.self, w.bin} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			return err
		}
		flags := uintptr(unix.MS_BIND)
		if dir == "/proc" || dir == "/sys" || dir == "/dev" {
			flags |= unix.MS_REC
		}
		if err := unix.Mount(dir, root+dir, "", flags, ""); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmp", root+"/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if !w.Shared {
		return nil
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// confined is a running launcher.
type confined struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.Closer
	stderr bytes.Buffer
	lines  chan string
	seen   []string
	files  []*os.File
}

// start starts a probe in a sandbox.
func (w *worker) start(backend string, entries []entry, e *errand, extras bool) *confined {
	top := w.w.top
	cwd := filepath.Join(top, w.Workspace)
	e.Top, e.Cwd = top, cwd
	if w.AtRoot || backend == "none" || !w.oracle.canRead(cwd, true) {
		e.Cwd = "/"
	}
	e.Links = make(map[string]string)
	for _, n := range w.Nodes {
		e.Paths = append(e.Paths, filepath.Join(top, n.Path))
		if n.Kind == "link" {
			if target, err := filepath.EvalSymlinks(filepath.Join(top, n.Path)); err == nil {
				e.Links[filepath.Join(top, n.Path)] = target
			}
		}
	}
	for _, en := range entries {
		if !strings.ContainsAny(en.Target, ":*") && strings.HasPrefix(en.Target, "t") && en.Target != "tmp" {
			e.Paths = append(e.Paths, filepath.Join(top, en.Target))
		}
	}
	e.TCP, e.Unix = w.w.tcp.Addr().(*net.TCPAddr).Port, strings.TrimPrefix(w.w.abstract.Addr().String(), "@")
	text, _ := json.Marshal(e)
	file := filepath.Join(w.bin, fmt.Sprintf("%s-%d-%d", filepath.Base(w.self), e.Seed, rand.Uint32()))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		panic(err)
	}
	args := []string{filepath.Join(w.bin, "self"), "probe", file}
	if backend != "none" {
		profile, _ := json.Marshal(w.profile(entries, ""))
		launcher := []string{filepath.Join(w.bin, "codex-linux-sandbox"), "--backend", backend, "--sandbox-policy-cwd", cwd, "--command-cwd", e.Cwd, "--permission-profile", string(profile)}
		if w.Stricter {
			launcher = append(launcher, "--stricter")
		}
		args = append(append(launcher, "--"), args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	c := &confined{cancel: cancel, lines: make(chan string, 16)}
	c.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	c.cmd.Dir = "/"
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.self, "home"), "TMPDIR=/tmp"}
	c.cmd.SysProcAttr = w.as()
	c.cmd.Stderr = &c.stderr
	if extras {
		w.inherit(c)
	}
	if e.Hold {
		c.stdin, _ = c.cmd.StdinPipe()
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	for _, f := range c.files {
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			c.lines <- s.Text()
		}
		close(c.lines)
	}()
	return c
}

func (w *worker) as() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if w.UID != os.Geteuid() {
		attr.Credential = &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}
	}
	return attr
}

// inherit opens the descriptors that the scenario's probe inherits.
func (w *worker) inherit(c *confined) {
	open := func(rel string, flags int) *os.File {
		fd, err := unix.Open(w.w.at(rel), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		f := os.NewFile(uintptr(fd), rel)
		c.files = append(c.files, f)
		return f
	}
	if w.Stdin != "" {
		if f := open(w.Stdin, unix.O_RDONLY); f != nil {
			c.cmd.Stdin = f
		}
	}
	for _, d := range w.Descriptors {
		flags := unix.O_RDONLY
		if d.OPath {
			flags = unix.O_PATH
		}
		f := open(d.Path, flags)
		for f != nil && len(c.cmd.ExtraFiles) <= d.Number-3 {
			c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, nil)
		}
		if f != nil {
			c.cmd.ExtraFiles[d.Number-3] = f
		}
	}
}

// await waits for a line, and reports whether it arrived.
func (c *confined) await(line string) bool {
	for l := range c.lines {
		c.seen = append(c.seen, l)
		if l == line {
			return true
		}
	}
	return false
}

// run runs the probe once.
func (w *worker) run(i int) {
	c := w.start(w.Backend, w.Entries, &errand{Seed: w.Seed + 100 + uint64(i)}, true)
	if w.Kill {
		c.await("ready")
		time.Sleep(time.Duration(w.Seed%40) * time.Millisecond)
		_ = c.cmd.Process.Kill()
	}
	w.finish(c, w.Kill)
}

// wide runs the probe. When the probe has finished, it runs a second sandbox that may write more.
// Then the first one ends. It reports whether the second one was started.
func (w *worker) wide() bool {
	c := w.start(w.Backend, w.Entries, &errand{Seed: w.Seed + 200, Hold: true}, true)
	held := c.await("held")
	if held {
		o := w.start(w.Backend, w.Wide, &errand{Seed: w.Seed + 300}, false)
		w.finish(o, false)
	}
	if w.Kill {
		_ = c.cmd.Process.Kill()
	}
	_ = c.stdin.Close()
	w.finish(c, w.Kill)
	return held
}

var (
	quoted = regexp.MustCompile(`/(var|tmp|proc)/[^ :]*`)
	number = regexp.MustCompile(`\d+`)
)

// finish waits for the end of a probe and counts it.
func (w *worker) finish(c *confined, killed bool) {
	c.await("")
	err := c.cmd.Wait()
	c.cancel()
	w.said = append(w.said, c.seen...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.r.Broken = err.Error()
		return
	}
	for _, line := range c.seen {
		var works map[string]int
		if text, ok := strings.CutPrefix(line, "works "); ok && json.Unmarshal([]byte(text), &works) == nil {
			for k, n := range works {
				w.r.Works[k] += n
			}
		}
		if strings.HasPrefix(line, "broken") {
			w.r.Broken = line
		}
	}
	switch code := c.cmd.ProcessState.ExitCode(); {
	case len(c.seen) > 0 && code == exitRefused:
		w.r.Breaches = append(w.r.Breaches, breach{"refused", "the launcher refused after the command had run: " + c.stderr.String()})
	case code == exitRefused || len(c.seen) == 0 && !killed:
		text := strings.Join(strings.Fields(c.stderr.String()), " ")
		text = number.ReplaceAllString(quoted.ReplaceAllString(text, "PATH"), "N")
		w.r.Refused = append(w.r.Refused, fmt.Sprintf("%d: %.150s", code, text))
	case killed:
		w.r.Killed++
	default:
		w.r.Ran++
	}
}

// profile returns the permission profile of entries. In requests the paths are URIs.
func (w *worker) profile(entries []entry, scheme string) any {
	var list []object
	for _, e := range entries {
		var p object
		special := func(kind string) object { return object{"type": "special", "value": object{"kind": kind}} }
		switch target := e.Target; {
		case target == "root" || target == "minimal":
			p = special(target)
		case target == "tmp":
			p = special("slash_tmp")
		case target == "workspace":
			p = special("project_roots")
		case strings.HasPrefix(target, "workspace/"):
			p = object{"type": "special", "value": object{"kind": "project_roots", "subpath": strings.TrimPrefix(target, "workspace/")}}
		case strings.HasPrefix(target, "glob:"):
			p = object{"type": "glob_pattern", "pattern": filepath.Join(w.w.top, strings.TrimPrefix(target, "glob:"))}
		default:
			p = object{"type": "path", "path": scheme + filepath.Join(w.w.top, target)}
		}
		list = append(list, object{"path": p, "access": e.Access})
	}
	list = append(list, object{"path": object{"type": "path", "path": scheme + w.bin}, "access": "read"})
	network := "restricted"
	if w.Network {
		network = "enabled"
	}
	return object{"type": "managed", "network": network, "file_system": object{"type": "restricted", "entries": list}}
}

// settle waits until all started processes have ended.
func (w *worker) settle() {
	for deadline := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
		if pid == 0 && time.Now().After(deadline) {
			break
		}
	}
	for _, p := range harness.Processes() {
		if p.Parent == os.Getpid() {
			w.r.Breaches = append(w.r.Breaches, breach{"process", fmt.Sprintf("process %d is left: %.200q", p.PID, p.Command)})
			_ = unix.Kill(p.PID, unix.SIGKILL)
		}
	}
}
