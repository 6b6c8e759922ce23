// Package escape attacks the sandbox. Every attack is a subcommand of testdata/attacker, which
// needs only the kernel. The test first runs the attack outside of any sandbox. There it must work
// or reach its goal; otherwise the test would prove nothing. Then the test runs it inside, with
// each backend, as root and as an ordinary user, and the sandbox must refuse it.
package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// The import makes the launcher's code an input of the test, so that go test does not reuse a
	// cached result for another launcher.
	_ "codex.internal/cmd/codex-linux-sandbox/launcher"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// testTimeout is how long tests wait for an event that must come. CODEX_ESCAPE_TIMEOUT, in
// seconds, is for emulated processors, on which a race of three threads takes longer.
var testTimeout = func() time.Duration {
	seconds, err := strconv.Atoi(os.Getenv("CODEX_ESCAPE_TIMEOUT"))
	if err != nil {
		seconds = 30
	}
	return time.Duration(seconds) * time.Second
}()

// exitFailed is the launcher's exit code if it refuses to run a command.
const exitFailed = 125

// nobody is the user id of the ordinary user. In rootless containers the kernel shows 65534 as the owner of each file whose owner
// has no number in the container, such as /. The launcher of user 65534 would take / for a directory of its user. There, nobody is
// another user.
var nobody = func() int {
	const overflow = 65534
	var root unix.Stat_t
	if unix.Stat("/", &root) == nil && root.Uid == overflow {
		return overflow - 1
	}
	return overflow
}()

// base is a directory with the programs, which every user may read. It is not below /tmp, because
// some policies make /tmp writable. The variables do not change after TestMain.
var base, launcher, attacker string

func TestMain(m *testing.M) {
	flag.Parse()
	// The guests of scripts/kernels have the programs already, and select the tests themselves.
	if testing.Short() && os.Getenv("CODEX_ESCAPE_PROGRAMS") == "" {
		fmt.Println("left out with -short: the tests of this package take minutes")
		os.Exit(0)
	}
	unix.Umask(0o022)
	code := 1
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	if base != "" {
		_ = os.RemoveAll(base)
	}
	os.Exit(code)
}

func prepare() error {
	top := "/var/tmp"
	if unix.Access(top, unix.W_OK) != nil {
		top = os.TempDir()
	}
	var err error
	if base, err = os.MkdirTemp(top, "escape"); err != nil {
		return err
	}
	if err := os.Chmod(base, 0o755); err != nil {
		return err
	}
	launcher, attacker = filepath.Join(base, "codex-linux-sandbox"), filepath.Join(base, "attacker")
	// The guests of scripts/kernels cannot build the programs, so the programs were built before.
	built := os.Getenv("CODEX_ESCAPE_PROGRAMS")
	for program, source := range map[string]string{launcher: "..", attacker: "./testdata/attacker"} {
		if built != "" {
			text, err := os.ReadFile(filepath.Join(built, filepath.Base(program)))
			if err == nil {
				err = testutil.WriteProgram(program, text)
			}
			if err != nil {
				return fmt.Errorf("copy a program: %w", err)
			}
			continue
		}
		if err := testutil.Build(program, source); err != nil {
			return err
		}
	}
	return nil
}

// users returns the user ids as which attacks are run.
func users() []int {
	if os.Geteuid() == 0 {
		return []int{0, nobody}
	}
	return []int{os.Geteuid()}
}

// as returns the attributes that start a process as a user.
func as(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != os.Geteuid() {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return attr
}

// refusals are the launcher's reasons why a backend does not work here, by user and backend. The
// empty string means that it works.
var refusals = sync.OnceValue(func() map[int]map[string]string {
	found := make(map[int]map[string]string)
	for _, uid := range users() {
		cmd := exec.Command(launcher, "--probe")
		cmd.SysProcAttr, cmd.Dir = as(uid), "/"
		out, err := cmd.Output()
		var probe struct {
			Backends []struct {
				Name   string
				Works  bool
				Reason string
			}
		}
		if err == nil {
			err = json.Unmarshal(out, &probe)
		}
		if err != nil {
			panic(err)
		}
		found[uid] = make(map[string]string)
		for _, b := range probe.Backends {
			if found[uid][b.Name] = b.Reason; b.Works != (b.Reason == "") {
				panic(fmt.Sprintf("%+v", b))
			}
		}
	}
	return found
})

// usable reports whether a backend works here for a user, according to the launcher.
func usable(uid int, backend string) bool {
	return refusals()[uid][backend] == "" // --probe says nothing of backends that auto does not try
}

// need skips a test of a backend that this machine lacks. In CI only bwrap and Landlock may be
// missing, because this project does not provide them.
func need(t *testing.T, uid int, backend string) {
	t.Helper()
	reason, known := refusals()[uid][backend]
	if !known {
		machine.NeedBackendAs(t, uid, backend)
	}
	if usable(uid, backend) {
		return
	}
	if os.Getenv("CI") == "true" && backend == machine.Namespaces {
		t.Fatalf("the backend %s does not work here: %s", backend, reason)
	}
	machine.NeedBackendAs(t, uid, backend)
	t.Fatalf("the machine has what the backend %s needs, and the launcher says that it does not work for user %d: %s", backend, uid, reason)
}

// place contains the files of an attack: a workspace, and files beside it that the attack must not
// change.
type place struct {
	t                  *testing.T
	uid                int
	dir, ws, secret    string
	launcher, attacker string // the programs that the test starts
	victim             int    // a process outside, of the same user
	before             string // the state of the guarded files
}

func newPlace(t *testing.T, uid int) *place {
	t.Helper()
	dir, err := os.MkdirTemp(base, "place")
	must(t, err)
	t.Cleanup(func() {
		if err := forceRemove(dir); err != nil {
			t.Errorf("tidy up: %v", err)
		}
	})
	p := &place{t: t, uid: uid, dir: dir, ws: filepath.Join(dir, "ws"), secret: filepath.Join(dir, "secret"), launcher: launcher, attacker: attacker}
	must(t, os.Mkdir(p.ws, 0o755))
	p.file("secret", "the key outside")
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Lchown(dir, uid, uid))
	must(t, os.Lchown(p.ws, uid, uid))
	return p
}

func forceRemove(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// file creates a file of the user below the place, with its directories.
func (p *place) file(name, content string) string {
	p.t.Helper()
	full := filepath.Join(p.dir, name)
	for at := filepath.Dir(full); at != p.dir; at = filepath.Dir(at) {
		if err := os.MkdirAll(at, 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	must(p.t, os.WriteFile(full, []byte(content), 0o644))
	for at := full; at != p.dir; at = filepath.Dir(at) {
		must(p.t, os.Lchown(at, p.uid, p.uid))
	}
	return full
}

// program creates a program of the user below the place.
func (p *place) program(name, script string) {
	p.t.Helper()
	full := p.file(name, "")
	must(p.t, testutil.WriteProgram(full, []byte(script)))
	must(p.t, os.Chmod(full, 0o755))
}

// startVictim starts a waiting process outside of the sandbox.
func (p *place) startVictim() {
	p.t.Helper()
	cmd := exec.Command(p.attacker, "wait")
	cmd.SysProcAttr = as(p.uid)
	cmd.SysProcAttr.Setpgid = true
	_, err := cmd.StdinPipe()
	must(p.t, err)
	out, err := cmd.StdoutPipe()
	must(p.t, err)
	must(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	must(p.t, err)
	p.victim = cmd.Process.Pid
}

// Profiles. The profile of opened protects no path, so that Landlock can enforce it, too.
func (p *place) workspace() string { return entries("root=read", p.ws+"=write") }
func (p *place) opened() string {
	return entries("root=read", p.ws+"=write", p.ws+"/.git=write", p.ws+"/.agents=write", p.ws+"/.codex=write")
}
func (p *place) readOnly() string { return entries("root=read") }

// entries returns a profile of TARGET=ACCESS entries. A target is a path, a pattern that begins
// with glob:, or a special target.
func entries(list ...string) string {
	type object = map[string]any
	var all []object
	for _, e := range list {
		i := strings.LastIndexByte(e, '=')
		target, access := e[:i], e[i+1:]
		path := object{"type": "special", "value": object{"kind": target}}
		if glob, ok := strings.CutPrefix(target, "glob:"); ok {
			path = object{"type": "glob_pattern", "pattern": glob}
		} else if target[0] == ':' {
			path = object{"type": "special", "value": object{"kind": "unknown", "path": target}}
		} else if target[0] == '/' {
			path = object{"type": "path", "path": target}
		}
		all = append(all, object{"path": path, "access": access})
	}
	b, _ := json.Marshal(object{"type": "managed", "network": "restricted", "file_system": object{"type": "restricted", "entries": all}})
	return string(b)
}

// outcome is the result of an attack.
type outcome struct {
	text string
	code int
	sig  syscall.Signal
}

func (o outcome) breaches() []string {
	var found []string
	for line := range strings.Lines(o.text) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), "breach: "); ok {
			found = append(found, what)
		}
	}
	return found
}

func (o outcome) String() string { return fmt.Sprintf("exit code %d %v\n%s", o.code, o.sig, o.text) }

// command prepares an attack: with the backend, or without a sandbox.
func (p *place) command(ctx context.Context, backend, profile string, args ...string) *exec.Cmd {
	if backend != "" {
		args = append([]string{p.launcher, "--backend", backend, "--sandbox-policy-cwd", p.ws, "--command-cwd", p.ws, "--permission-profile", profile, "--", p.attacker}, args...)
	} else {
		args = append([]string{p.attacker}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.SysProcAttr = p.ws, as(p.uid)
	// A signal stops an attacker that this process traces, until the test times out. On a slow
	// machine Go's runtime sends such a signal to itself for each goroutine that runs long.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GODEBUG=asyncpreemptoff=1"}
	cmd.WaitDelay = testTimeout
	return cmd
}

// run runs an attack to its end.
func (p *place) run(backend, profile string, args ...string) outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	return p.finish(p.command(ctx, backend, profile, args...))
}

// finish runs a prepared command.
func (p *place) finish(cmd *exec.Cmd) outcome {
	p.t.Helper()
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &out, &out
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	o := outcome{text: out.String(), code: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		o.sig = status.Signal()
	}
	if strings.Contains(o.text, "broken: ") {
		if inContainer && strings.Contains(o.text, noMounts) {
			p.t.Skip("in a container, /proc is empty under restricted reads (docs/sandbox.md), and shows no mounts")
		}
		p.t.Fatalf("the attack could not be tried: %v", o)
	}
	return o
}

// inContainer reports whether scripts/kernel-suites runs the tests in a container. The tests do not detect that themselves: everywhere
// else each control must succeed.
var inContainer = os.Getenv("CODEX_ESCAPE_CONTAINER") != ""

// noMounts is the attacker's message if no /proc shows it the mounts.
const noMounts = "broken: read the mounts: open /proc/self/mountinfo: no such file or directory"

// controlled checks the control of an attack: outside of a sandbox, at least a part of the attack must work. In a container, the
// filter, the capabilities or the mounts of the container may refuse all parts. Then controlled returns these refusals: the attack
// proves nothing about the sandbox.
func controlled(t *testing.T, o outcome) (refused string) {
	t.Helper()
	if len(o.breaches()) > 0 {
		return ""
	}
	for line := range strings.Lines(o.text) {
		what, held := strings.CutPrefix(strings.TrimSpace(line), "held: ")
		if !held {
			continue
		}
		if errno := what[strings.LastIndexByte(what, ' ')+1:]; !slices.Contains([]string{"EPERM", "EACCES", "EROFS", "ENOSYS", "ENOENT"}, errno) {
			refused = ""
			break
		}
		refused += what + "; "
	}
	if !inContainer || refused == "" || o.code != 0 {
		t.Errorf("outside of a sandbox nothing of it works: %v", o)
		return ""
	}
	return "this container itself refuses the attack: " + refused
}

// unharmed checks that the files outside of the workspace are unchanged.
func (p *place) unharmed() {
	p.t.Helper()
	if b, err := os.ReadFile(p.secret); err != nil || string(b) != "the key outside" {
		p.t.Errorf("the file outside: %q, %v", b, err)
	}
	names, err := os.ReadDir(p.dir)
	must(p.t, err)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "secret.") {
			p.t.Errorf("made outside: %s", n.Name())
		}
	}
	if p.victim == 0 {
		return
	}
	if stat, gone := testutil.Gone(p.victim); gone {
		p.t.Errorf("the process outside is gone: %s", stat)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await polls until a condition is true.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	testutil.Eventually(t.Context(), t, what, func() (string, bool) { return "not yet", f() })
}

func pid(p *place) string { return strconv.Itoa(p.victim) }
