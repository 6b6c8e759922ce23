package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestPreparedSandbox: the command of an order runs in the sandbox that was made ahead, as
// it would in another one.
func TestPreparedSandbox(t *testing.T) {
	const script = "echo $A; echo $$; grep -c . /proc/1/cmdline; grep -E '^(NoNewPrivs|Seccomp|CapEff)' /proc/self/status; " +
		"ls -l /proc/self/fd | grep -c memfd; touch /etc/x; pwd; exit 7"
	for _, kind := range []string{"--read-only", "--workspace-write"} {
		dir := t.TempDir()
		args := []string{kind, "--sandbox-policy-cwd", dir}
		var a *ahead
		var got string
		used := false
		for range calmTries {
			a = prepareFor(t, args...)
			a.env += "A=b\x00"
			a.withJanitor()
			if got, used = a.run(script); used {
				break
			}
		}
		code := a.cmd.ProcessState.ExitCode()
		other := &ahead{t: t, args: args, env: a.env}
		other.cmd, other.socket = waiting(t)
		other.withJanitor()
		want, _ := other.run(script)
		if !used || code != 7 || got != want || !strings.HasPrefix(got, "b\n") {
			t.Errorf("%s, used %v, %d:\n%s\nwant\n%s", kind, used, code, got, want)
		}
	}
}

// TestPreparedPlaceholders: placeholders are there while a command runs, and not while a
// sandbox waits for one.
func TestPreparedPlaceholders(t *testing.T) {
	used, shown := false, false
	for _, janitor := range []bool{true, true, true, true, false} {
		if janitor && shown {
			continue // it was shown
		}
		dir := t.TempDir()
		a := prepareFor(t, "--workspace-write", "--sandbox-policy-cwd", dir)
		list := func() string {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(entries)
		}
		if got := list(); got != "[]" {
			t.Errorf("before the order there is %s", got)
		}
		if janitor {
			a.withJanitor()
		}
		var got string
		got, used = a.run("cd " + dir + "; ls -A; touch .git/a; mkdir x; rmdir .git")
		// The init must hold the connection to the janitor, and a launcher without one starts
		// a janitor too late for that.
		if used && !janitor || !strings.HasPrefix(got, ".agents\n.codex\n.git\n") || strings.Count(got, "\n") != 5 {
			t.Errorf("used %v: %s", used, got)
		}
		if got := list(); got != "[d x/]" {
			t.Errorf("after the order there is %s", got)
		}
		shown = shown || used
	}
	if !shown {
		t.Error("what was made ahead is never used")
	}
}

// TestPreparedSandboxIsOld: what has changed while the sandbox waited counts as if none had
// been made ahead.
func TestPreparedSandboxIsOld(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		used   bool
	}{
		{"nothing", func(*testing.T, string) {}, true},
		{"another file beside", func(t *testing.T, dir string) { write(t, dir+"/other", "x") }, true},
		{"the denied file is written again", func(t *testing.T, dir string) { write(t, dir+"/secret", "secret") }, true},
		{"the denied file is made again", func(t *testing.T, dir string) {
			remove(t, dir+"/secret")
			write(t, dir+"/secret", "secret")
		}, false},
		{"the denied file is exchanged", func(t *testing.T, dir string) {
			write(t, dir+"/new", "secret")
			rename(t, dir+"/new", dir+"/secret")
		}, false},
		{"the denied directory is made again", func(t *testing.T, dir string) {
			remove(t, dir+"/hidden")
			mkdir(t, dir+"/hidden")
			write(t, dir+"/hidden/secret", "secret")
		}, false},
		{"the directory above is moved and made again", func(t *testing.T, dir string) {
			rename(t, dir, dir+"-old")
			mkdir(t, dir)
			write(t, dir+"/secret", "secret")
			mkdir(t, dir+"/hidden")
			write(t, dir+"/hidden/secret", "secret")
		}, false},
		{"the directory above is moved away and back", func(t *testing.T, dir string) {
			rename(t, dir, dir+"-old")
			rename(t, dir+"-old", dir)
		}, true},
		{"the denied file becomes a link", func(t *testing.T, dir string) {
			rename(t, dir+"/secret", dir+"/there")
			if err := os.Symlink(dir+"/there", dir+"/secret"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"the missing denied file appears", func(t *testing.T, dir string) { write(t, dir+"/missing", "secret") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, used := "", false
			for try := 0; try == 0 || try < calmTries && tt.used && !used; try++ {
				got, used = preparedIsOld(t, tt.change)
			}
			if used != tt.used || strings.Contains(strings.ReplaceAll(got, "/secret", ""), "secret") || !strings.HasSuffix(got, "\nend\n") {
				t.Errorf("used %v:\n%s", used, got)
			}
		})
	}
}

// preparedIsOld changes a directory between the preparation of a sandbox in which some of it is denied,
// and its use.
func preparedIsOld(t *testing.T, change func(t *testing.T, dir string)) (output string, used bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	for _, sub := range []string{"", "/hidden"} {
		mkdir(t, dir+sub)
	}
	write(t, dir+"/secret", "secret")
	profile := profileText(dir+"/secret=deny", dir+"/hidden=deny", dir+"/missing=deny")
	a := prepareFor(t, "--permission-profile", profile, "--sandbox-policy-cwd", "/")
	change(t, dir)
	return a.run("cat " + dir + "/secret " + dir + "/there " + dir + "/hidden/secret " + dir + "/missing; echo end")
}

// TestPreparedAndOtherPlaceholders: what is there with the order decides on the masks, not what was expected.
func TestPreparedAndOtherPlaceholders(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	profile := profileText(dir+"=write", missing+"=read")
	for _, tt := range []struct {
		name   string
		change func()
		want   string
	}{
		{"nothing", func() {}, "600 regular empty file"},
		{"a directory of another sandbox", func() {
			mkdir(t, missing)
			then := unix.NsecToTimespec(sandbox.StubSeconds*1e9 + sandbox.StubNanoseconds)
			if err := errors.Join(os.Chmod(missing, 0o555), unix.UtimesNanoAt(unix.AT_FDCWD, missing, []unix.Timespec{then, then}, 0)); err != nil {
				t.Fatal(err)
			}
		}, "555 directory"},
		{"a directory of the user's", func() { mkdir(t, missing) }, "755 directory"},
	} {
		a := prepareFor(t, "--permission-profile", profile, "--sandbox-policy-cwd", dir)
		a.withJanitor()
		tt.change()
		got, used := a.run("stat -c '%a %F' " + missing + "; echo x > " + missing + "/x || echo refused; echo end")
		if !strings.HasPrefix(got, tt.want+"\n") || !strings.HasSuffix(got, "refused\nend\n") {
			t.Errorf("%s, used %v:\n%s", tt.name, used, got)
		}
		_ = os.Remove(missing)
	}
}

// TestPreparedBesidePlaceholders: a server has a sandbox made for the next command while the last one runs, whose
// placeholders are there then, and are gone with the order. It is used all the same.
func TestPreparedBesidePlaceholders(t *testing.T) {
	used := false
	for try := 0; try < calmTries && !used; try++ {
		dir := t.TempDir()
		names := []string{filepath.Join(dir, ".git"), filepath.Join(dir, ".codex")}
		then := unix.NsecToTimespec(sandbox.StubSeconds*1e9 + sandbox.StubNanoseconds)
		for _, name := range names {
			mkdir(t, name)
			if err := errors.Join(os.Chmod(name, 0o555), unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{then, then}, 0)); err != nil {
				t.Fatal(err)
			}
		}
		a := prepareFor(t, "--permission-profile", profileText(dir+"=write"), "--sandbox-policy-cwd", dir)
		a.withJanitor()
		for _, name := range names {
			remove(t, name)
		}
		var got string
		got, used = a.run("cd " + dir + "; ls -A; mkdir .git/x || echo refused")
		if !strings.HasPrefix(got, ".agents\n.codex\n.git\n") || !strings.HasSuffix(got, "refused\n") {
			t.Fatalf("used %v: %s", used, got)
		}
	}
	if !used {
		t.Error("what was made ahead beside placeholders is never used")
	}
}

// TestPreparedAndMounts: when something is mounted, unmounted or mounted otherwise on the host, the
// sandbox that was made before is thrown away at once, and the command sees what is there now.
func TestPreparedAndMounts(t *testing.T) {
	dir := t.TempDir()
	runtime.LockOSThread() // for good: the thread ends with the test
	testutil.Need(t, "right to make mounts", unix.Unshare(unix.CLONE_NEWNS), unix.EPERM)
	mount := func(source, kind string, flags uintptr, data string) {
		t.Helper()
		if err := unix.Mount(source, dir, kind, flags, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/file", "below")
	for _, tt := range []struct {
		name   string
		change func()
		want   string
	}{
		{"mounted", func() { mount("tmpfs", "tmpfs", 0, "size=64k"); write(t, dir+"/file", "mounted") }, "mounted"},
		{"mounted otherwise", func() { mount("", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOEXEC, "") }, "mounted"},
		{"with other attributes", func() {
			attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
			if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, attr); err != nil {
				t.Fatal(err)
			}
		}, "mounted"},
		{"unmounted", func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
		}, "below"},
	} {
		a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
		a.endsInit(tt.change)
		if got, used := a.run("cat " + dir + "/file"); used || got != tt.want {
			t.Errorf("%s: used %v: %s", tt.name, used, got)
		}
	}
}

// TestPreparedForAnother: a sandbox that was made for another policy is not used.
func TestPreparedForAnother(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/secret", "secret")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a denied file", []string{"--permission-profile", profileText(dir + "/secret=deny")}, "end\n"},
		{"a writable directory", []string{"--permission-profile", profileText(dir + "=write")}, "secretend\n"},
		{"the network", []string{"--read-only", "--network"}, "secretend\n"},
	} {
		a := prepareFor(t, "--permission-profile", profileText(), "--sandbox-policy-cwd", "/")
		a.args = append([]string{"--sandbox-policy-cwd", "/"}, tt.args...)
		got, used := a.run("cat " + dir + "/secret; echo end")
		if used || !strings.HasSuffix(got, tt.want) || tt.want == "end\n" && strings.Contains(got, "secretend") {
			t.Errorf("%s: used %v: %s", tt.name, used, got)
		}
	}
}

// TestPreparedAndNoProfile: an empty profile is refused, although the sandbox that was made ahead had none either, as
// its policy is a short form.
func TestPreparedAndNoProfile(t *testing.T) {
	a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
	a.args, a.files = []string{"--permission-profile-fd", "4", "--sandbox-policy-cwd", "/"}, []int{int(memory(t, "").Fd())}
	got, _ := a.run("echo ran")
	if code := a.cmd.ProcessState.ExitCode(); code != exitUsage || strings.Contains(got, "ran") {
		t.Errorf("exit code %d: %s", code, got)
	}
}

// TestPreparedAndLarge: a command that does not fit into the shared memory runs all the same.
func TestPreparedAndLarge(t *testing.T) {
	a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
	for i := range 14 {
		a.env += fmt.Sprintf("V%d=%s\x00", i, strings.Repeat("x", 120_000))
	}
	if got, used := a.run("echo end"); used || got != "end\n" {
		t.Errorf("used %v: %.200s", used, got)
	}
}

// TestPreparedAndCollected: what the command gets outlives collections of garbage in the launcher.
func TestPreparedAndCollected(t *testing.T) {
	t.Setenv("GOGC", "1")
	a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
	for i := range 8000 {
		a.env += fmt.Sprintf("V%d=%d%s\x00", i, i, strings.Repeat("x", 50))
	}
	if got, _ := a.run(`env | grep -c '^V[0-9]*=[0-9]*x\{50\}$'`); got != "8000\n" {
		t.Errorf("%.300s", got)
	}
}

// TestPreparedInitIsGone: an init that was killed while it waited is replaced, and one whose
// launcher ends, ends.
func TestPreparedInitIsGone(t *testing.T) {
	a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
	// An init that has not quite ended has no mounts that could be looked at.
	a.endsInit(func() {
		if err := unix.Kill(a.init, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if got, used := a.run("echo end"); used || got != "end\n" {
		t.Errorf("used %v: %s", used, got)
	}
	for _, end := range []func(*ahead){
		func(a *ahead) { _ = a.cmd.Process.Kill() },
		// As any launcher that waits: the command of a later order must not get the signal.
		func(a *ahead) { _ = unix.Kill(a.init, unix.SIGTERM); _ = a.cmd.Process.Signal(unix.SIGTERM) },
		func(a *ahead) { _ = unix.Close(a.socket); a.socket = -1 },
	} {
		a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
		a.endsInit(func() { end(a) })
	}
}

// TestPreparedFromDescriptor: of a policy that comes in a descriptor, the number in the order is
// not that of a descriptor of the launcher. There it has the socket.
func TestPreparedFromDescriptor(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	a := &ahead{t: t, env: "PATH=/usr/bin:/bin\x00"}
	a.cmd, a.socket = waiting(t)
	t.Cleanup(func() { _ = unix.Close(a.socket) })
	order := a.order("true")
	order.Prepare = true
	order.Args = []string{"--supervised", "--permission-profile-fd", "3", "--env-fd", "4", "--sandbox-policy-cwd", "/", "--", "true"}
	order.Files = []int{order.Files[0], order.Files[1], order.Files[2], int(memory(t, profileText()).Fd()), order.Files[3]}
	if err := warmstart.Send(a.socket, order); err != nil {
		t.Fatal(err)
	}
	a.args = []string{"--permission-profile", profileText(), "--sandbox-policy-cwd", "/"}
	if got, _ := a.run("echo end"); got != "end\n" {
		t.Errorf("the command wrote %q", got)
	}
}

// TestUnprepared: a launcher that can make nothing ahead says so, and carries out its order.
func TestUnprepared(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	a := &ahead{t: t, args: []string{"--permission-profile", `{"type":"disabled"}`, "--sandbox-policy-cwd", "/"}, env: "PATH=/usr/bin:/bin\x00"}
	a.cmd, a.socket = waiting(t)
	order := a.order("true")
	order.Prepare = true
	if err := warmstart.Send(a.socket, order); !errors.Is(err, warmstart.ErrUnprepared) {
		t.Fatalf("the answer is %v", err)
	}
	if got, used := a.run("echo end"); used || got != "end\n" {
		t.Errorf("used %v: %s", used, got)
	}
}

// TestLateLast: a mount that comes at or below a late one keeps a plan from being prepared.
func TestLateLast(t *testing.T) {
	late := sandbox.Mount{Target: "/w/.git", Cover: true}
	for _, tt := range []struct {
		mounts []sandbox.Mount
		want   bool
	}{
		{nil, true},
		{[]sandbox.Mount{{Target: "/w"}, late, {Target: "/x"}}, true},
		{[]sandbox.Mount{{Target: "/w"}, late, late}, true},
		{[]sandbox.Mount{late, {Target: "/w/.git"}}, false},
		{[]sandbox.Mount{late, {Target: "/w/.git/x"}}, false},
		{[]sandbox.Mount{late, {Target: "/w/.github"}}, true},
		{[]sandbox.Mount{late, {Target: "/w"}}, false},
	} {
		if got := lateLast(tt.mounts, needsStub); got != tt.want {
			t.Errorf("%+v: %v", tt.mounts, got)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
}
