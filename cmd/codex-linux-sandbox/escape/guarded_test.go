package escape

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// guarding are the backends that protect paths in a writable directory.
var guarding = []string{"namespaces", "bwrap", "broker"}

// everyBackend are all backends.
var everyBackend = []string{"namespaces", "bwrap", "broker", "landlock"}

// guardedFiles is how many files and directories the attacks use up.
const guardedFiles = 1300

// guard makes the guarded files of a place: .git and deep/er/locked in the workspace, and the directory outside beside it. It
// records their state.
func (p *place) guard() {
	p.t.Helper()
	for _, dir := range []string{"ws/.git", "outside"} {
		p.file(dir+"/config", "guarded")
		p.file(dir+"/hooks/keep", "guarded")
	}
	p.file("ws/.git/HEAD", "ref: refs/heads/main")
	p.file("ws/deep/er/locked", "guarded")
	p.before = p.state()
}

// guardMany is guard with the many files that the attacks on paths and descriptors use up.
func (p *place) guardMany() {
	p.guard()
	for i := range guardedFiles {
		name := p.file(fmt.Sprintf("ws/.git/f%d", i), "guarded")
		// If the file system has no extended attributes, these few tries do nothing.
		_ = unix.Setxattr(name, "user.there", []byte("x"), 0)
		name = fmt.Sprintf("%s/.git/d%d", p.ws, i)
		must(p.t, os.Mkdir(name, 0o755))
		must(p.t, os.Lchown(name, p.uid, p.uid))
	}
	p.before = p.state()
}

// guarded is the profile that protects what guard makes.
func (p *place) guarded() string {
	return entries("root=read", p.ws+"=write", p.ws+"/deep/er/locked=read")
}

// state describes all guarded files: their attributes, times, contents and extended attributes.
func (p *place) state() string {
	p.t.Helper()
	var all strings.Builder
	for _, top := range []string{"ws/.git", "ws/deep", "outside", "secret"} {
		must(p.t, filepath.WalkDir(filepath.Join(p.dir, top), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			must(p.t, unix.Lstat(path, &st))
			fmt.Fprintf(&all, "%s: inode %d, %d links, mode %o, owner %d:%d, modified %v, changed %v", path, st.Ino, st.Nlink, st.Mode, st.Uid, st.Gid, st.Mtim, st.Ctim)
			if d.Type().IsRegular() {
				text, err := os.ReadFile(path)
				must(p.t, err)
				fmt.Fprintf(&all, ", %x", sha256.Sum256(text))
			}
			names := make([]byte, 4096)
			if n, err := unix.Llistxattr(path, names); err == nil {
				fmt.Fprintf(&all, ", attributes %q", names[:n])
			}
			fmt.Fprintln(&all)
			return nil
		}))
	}
	names, err := os.ReadDir(p.ws)
	must(p.t, err)
	for _, n := range names {
		if strings.EqualFold(n.Name(), ".codex") || strings.EqualFold(n.Name(), ".agents") {
			fmt.Fprintln(&all, "made:", n)
		}
	}
	return all.String()
}

// guardHeld checks that no guarded file has changed, unless the attack was run outside.
func guardHeld(t *testing.T, p *place, inside bool) {
	t.Helper()
	if after := p.state(); inside && after != p.before {
		t.Errorf("guarded files changed:\n%s", differences(p.before, after))
	}
}

// differences returns the lines that differ, at most ten.
func differences(before, after string) string {
	was := map[string]bool{}
	for line := range strings.Lines(before) {
		was[line] = true
	}
	var all []string
	for line := range strings.Lines(after) {
		if !was[line] {
			all = append(all, "now: "+line)
		}
		delete(was, line)
	}
	for line := range was {
		all = append(all, "was: "+line)
	}
	return strings.Join(all[:min(len(all), 10)], "")
}

// guardedAttacks are attacks on paths that are read-only in a writable directory.
var guardedAttacks = []attack{
	{name: "guarded paths", args: func(p *place) []string { return []string{"guarded paths", p.ws + "/r", p.ws + "/.git"} },
		prepare: (*place).guardMany, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "guarded descriptors", args: func(p *place) []string { return []string{"guarded descriptors", p.ws + "/r", p.ws + "/.git"} },
		prepare: (*place).guardMany, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "descriptors of guarded files that are sent", args: func(p *place) []string { return []string{"sent descriptors", p.ws + "/r", p.ws + "/.git"} },
		prepare: (*place).guardMany, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "spellings of a missing protected name", args: func(p *place) []string { return []string{"protected spellings", p.ws + "/r", p.ws + "/.codex"} },
		prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "spellings of a protected name in another case", args: func(p *place) []string { return []string{"protected spellings", p.ws + "/r", p.ws + "/.CODEX"} },
		prepare: (*place).guard, profile: (*place).guarded, backends: []string{"broker"}, check: guardHeld},
	{name: "a missing .git below a work tree", args: func(p *place) []string { return []string{"protected spellings", p.ws + "/sub/r", p.ws + "/sub/.git"} },
		prepare: func(p *place) { p.file("ws/sub/file", ""); p.guard() }, backends: []string{"broker"}, check: guardHeld,
		profile: func(p *place) string { return entries("root=read", p.ws+"/sub=write") }},
	{name: "files of processes below a writable path", control: byNobody, args: func(p *place) []string { return []string{"files of processes", p.ws + "/r"} },
		prepare: (*place).guard, backends: []string{"broker"}, check: guardHeld,
		profile: func(p *place) string {
			return entries("root=read", p.ws+"=write", p.ws+"/deep/er/locked=read", "/proc=write")
		}},
	{name: "directories above guarded files", args: func(p *place) []string {
		return []string{"above", p.ws + "/r", p.ws + "/deep/er/locked", p.ws + "/deep/er", p.ws + "/deep", p.ws + "/.git"}
	}, prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "a listener of its own", args: func(p *place) []string { return []string{"a listener of its own", p.ws + "/.git/config"} },
		prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "ancestors", control: byRoot, prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "files of processes", control: byNobody, args: func(p *place) []string { return []string{"files of processes", p.ws + "/r"} },
		prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "files of processes in a writable /", control: byNobody, args: func(p *place) []string { return []string{"files of processes", p.ws + "/r"} },
		prepare: (*place).guard, profile: func(p *place) string {
			return entries("root=write", p.secret+"=read", p.dir+"/outside=read", p.ws+"/deep=read")
		}, backends: mounted, check: guardHeld},
	{name: "inner Landlock", control: byNobody, args: func(p *place) []string { return []string{"inner Landlock", p.ws + "/r"} },
		prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
	{name: "signals by descriptors", victim: true, args: func(p *place) []string { return []string{"signals by descriptors", pid(p)} }, tolerated: true, control: byNobody,
		prepare: (*place).guard, profile: (*place).guarded, backends: guarding, check: guardHeld},
}

// TestGuardedFiles runs the attacks on what is read-only in a writable directory.
func TestGuardedFiles(t *testing.T) { runAttacks(t, guardedAttacks) }

// TestCallsAreMadeAsTheirCallersMadeThem: a call that the launcher makes for a command has the result that the kernel would have given:
// for the calling thread, its mask of modes, and also if a signal or a kill interrupts it.
func TestCallsAreMadeAsTheirCallersMadeThem(t *testing.T) {
	milliseconds := fmt.Sprint(testutil.Rounds(200, 500, 1000))
	denied := unshareIsDenied() // here, because its thread ends, and with it all processes that the thread has started
	for _, args := range [][]string{
		{"masks of modes"}, {"threads"}, {"storm", milliseconds}, {"killed callers", fmt.Sprint(testutil.Rounds(20, 50, 100))}, {"many writers of a FIFO", "100"}, {"written programs", fmt.Sprint(testutil.Rounds(20, 50, 100))},
	} {
		t.Run(args[0], func(t *testing.T) {
			each(t, guarding, func(t *testing.T, p *place, backend string) {
				if (args[0] == "masks of modes" || args[0] == "threads") && denied {
					t.Skip("a filter of this machine denies unshare, by which a thread gets a mask and descriptors of its own")
				}
				p.guard()
				args := append([]string{args[0], p.ws + "/r"}, args[1:]...)
				o := p.run(backend, p.guarded(), args...)
				if found := o.breaches(); len(found) > 0 || !strings.Contains(o.text, "held: ") {
					t.Errorf("got %v; want no breach", o)
				}
				if testing.Verbose() {
					t.Log(o)
				}
				guardHeld(t, p, true)
			})
		})
	}
}

// unshareIsDenied reports whether unshare is denied outside of a sandbox, too, as in a container of Docker.
func unshareIsDenied() bool {
	denied := make(chan bool)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		denied <- unix.Unshare(unix.CLONE_FS) == unix.EPERM
	}()
	return <-denied
}

// TestReplacedGuardedFile: a command holds a guarded file open for reading. A program outside replaces the file, as editors do, and the
// old file has another link outside. The command cannot change that one.
func TestReplacedGuardedFile(t *testing.T) {
	each(t, guarding, func(t *testing.T, p *place, backend string) {
		p.guard()
		locked, other := p.ws+"/deep/er/locked", p.dir+"/outside/hard"
		must(t, os.Link(locked, other))
		p.file("ws/new", "new")
		cmd := p.command(t.Context(), backend, p.guarded(), "held file", locked)
		in, err := cmd.StdinPipe()
		must(t, err)
		ready := make(chan struct{})
		out := &signalled{at: "ready\n", reached: ready}
		cmd.Stdout, cmd.Stderr = out, out
		must(t, cmd.Start())
		<-ready
		must(t, os.Rename(p.ws+"/new", locked))
		p.before = withoutNames(p.state()) // while the sandbox runs, the names are those of placeholders
		must(t, in.Close())
		must(t, cmd.Wait())
		contained(t, outcome{text: out.text.String()})
		guardHeld(t, p, true)
	})
}

// withoutNames removes the lines about protected names from a state.
func withoutNames(state string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(state, "\n"), func(line string) bool { return strings.HasPrefix(line, "made:") })
	return strings.Join(lines, "")
}

// TestDescriptorsAtTheStart: a command has no descriptors but those that the launcher inherited.
func TestDescriptorsAtTheStart(t *testing.T) {
	each(t, everyBackend, func(t *testing.T, p *place, backend string) {
		inherited := p.run("", "", "descriptors at the start").breaches()
		o := p.run(backend, p.opened(), "descriptors at the start")
		for _, found := range o.breaches() {
			if !slices.Contains(inherited, found) {
				t.Errorf("got %s, want no descriptor but %q", found, inherited)
			}
		}
		if !strings.Contains(o.text, "held: ") {
			t.Errorf("nothing was tried: %v", o)
		}
	})
}

// signalled collects text, and closes a channel when it contains a line.
type signalled struct {
	text    strings.Builder
	at      string
	reached chan struct{}
}

func (s *signalled) Write(b []byte) (int, error) {
	before := strings.Contains(s.text.String(), s.at)
	s.text.Write(b)
	if !before && strings.Contains(s.text.String(), s.at) {
		close(s.reached)
	}
	return len(b), nil
}

// TestSandboxesExchangeABoundSocket: a command binds a socket. A command in another sandbox of the same workspace, with a broker of its own,
// exchanges the name with the socket of a server outside at once. The first one does not connect to the server.
func TestSandboxesExchangeABoundSocket(t *testing.T) {
	rounds := strconv.Itoa(testutil.Rounds(50, 100, 300))
	each(t, guarding, func(t *testing.T, p *place, backend string) {
		p.guard()
		server := p.ws + "/server"
		arrived := hostServer(t, unix.SOCK_STREAM, server)
		must(t, unix.Lchown(server, p.uid, p.uid))
		other := p.command(t.Context(), backend, p.guarded(), "exchange bound", p.ws+"/own", server)
		ready := make(chan struct{})
		other.Stdout = &signalled{at: "ready\n", reached: ready}
		must(t, other.Start())
		defer func() { _ = other.Wait() }()
		defer func() { _ = other.Process.Kill() }()
		<-ready
		o := p.run(backend, p.guarded(), "bind exchanged", p.ws+"/own", server, rounds)
		contained(t, o)
		if testing.Verbose() {
			t.Log(o)
		}
		if n := arrived.Load(); n != 0 {
			t.Errorf("got %d connections outside, want 0", n)
		}
	})
}
