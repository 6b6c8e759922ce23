package escape

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestSecondStageRefuses: if bwrap mounts a different file than the plan names, the second stage
// notices this. It runs nothing, and the server reads the reason from the refusal descriptor.
func TestSecondStageRefuses(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		real, err := exec.LookPath("bwrap")
		must(t, err)
		p.program("bin/bwrap", "#!/bin/sh\nif [ \"$1\" = --args ]; then\n\ta=$2\n\tshift 2\n\tset -- --args \"$a\" --bind "+p.dir+" "+p.dir+" \"$@\"\nfi\nexec "+real+" \"$@\"\n")
		refusal, err := os.CreateTemp(p.dir, "refusal")
		must(t, err)
		defer refusal.Close()
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, p.launcher, "--backend", backend, "--sandbox-policy-cwd", p.ws, "--command-cwd", p.ws,
			"--permission-profile", p.readOnly(), "--refusal-fd", "3", "--", "sh", "-c", "echo ran")
		cmd.Dir, cmd.SysProcAttr, cmd.ExtraFiles = p.ws, as(p.uid), []*os.File{refusal}
		cmd.Env = []string{"PATH=" + p.dir + "/bin:/usr/bin:/bin"}
		o := p.finish(cmd)
		if o.code != exitFailed || strings.Contains(o.text, "ran") || strings.Count(o.text, "cannot make the sandbox") != 1 {
			t.Errorf(`got %v; want o.code %v, o.text without "ran", strings.Count(o.text, "cannot make the sandbox") 1`, o, exitFailed)
		}
		buf := make([]byte, 1<<10)
		n, _ := unix.Pread(int(refusal.Fd()), buf, 0)
		if text := string(buf[:n]); !strings.Contains(text, "cannot make the sandbox: "+p.dir) {
			t.Errorf("the server is told %q", text)
		}
	})
}

// TestRedirectedMounts: bwrap follows links. So another command of the same user, if it may write
// to the workspace, can make bwrap mount a different source at a different target. Here the test
// changes the arguments of bwrap; the real race succeeded in 6 of 100 tries.
func TestRedirectedMounts(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		for _, name := range []string{"ws/f", "ws/g", "ws/d/ro/x/f", "ws/e/f", "beside/f", "secrets/f"} {
			p.file(name, "text")
		}
		add := func(from, to string) string { return "$a --bind\\n" + p.dir + from + "\\n" + p.dir + to }
		workspace := []string{"root=read", p.ws + "=write", p.dir + "/secrets=deny"}
		for _, tt := range []struct {
			name, profile, edit, refusal string
		}{
			{"a denied file on one of the workspace", entries(append(workspace, p.ws+"/f=write")...),
				p.redirect("--bind", "/f", "/secrets/f", "/ws/g"), "/ws/f: nothing is mounted there"},
			{"a denied directory on one of the workspace", entries(append(workspace, p.ws+"/d/ro=read")...),
				p.redirect("--bind", "/d", "/secrets", "/ws/e"), "/ws/d: nothing is mounted there"},
			{"a denied directory on one that is shown", entries("minimal=read", p.ws+"=read", p.ws+"/d=read", base+"=read", p.dir+"/secrets=deny"),
				p.redirect("--ro-bind", "/d", "/secrets", "/ws/e"), "/ws/d: nothing is mounted there"},
			{"the workspace beside it", entries(workspace...), add("/ws", "/beside"), "/beside can be written"},
			{"the workspace below what is read-only in it", entries(append(workspace, p.ws+"/d/ro=read")...),
				add("/ws", "/ws/d/ro/x"), "/ws/d/ro/x can be written"},
			{"a directory below what is read-only in a writable root", entries("root=write", p.ws+"/d/ro=read"),
				add("/ws", "/ws/d/ro/x"), "/ws/d/ro/x can be written"},
		} {
			p.editBwrap(tt.edit)
			for _, options := range [][]string{nil, {"--no-proc"}} {
				if o := p.runWith(backend, tt.profile, options...); o.code != exitFailed || strings.Contains(o.text, "done") || !strings.Contains(o.text, tt.refusal) {
					t.Errorf(`%s, %v: got %v; want o.code %v, o.text without "done", o.text with %q`, tt.name, options, o, exitFailed, tt.refusal)
				}
			}
		}
		// Make root's settings in /proc writable: a command of root could change them.
		p.editBwrap(`/^--ro-bind$/{N;s|^.*\n/proc/sys$|--bind\n/proc/sys|}`)
		if o := p.runWith(backend, p.workspace()); o.code != exitFailed || !strings.Contains(o.text, "/proc/sys: it is not read-only") {
			t.Errorf("a writable /proc/sys: %v", o)
		}
	})
}

// TestBwrapAfterMoves: if files are moved after the launcher made a plan, it makes another plan. Scenario: another sandbox's
// placeholders appear and disappear as that sandbox starts and ends. The test does this when bwrap is started for the first time.
func TestBwrapAfterMoves(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		real, err := exec.LookPath("bwrap")
		must(t, err)
		for name, tt := range map[string]struct{ profile, move string }{
			"a protected name vanishes":              {p.workspace(), "rmdir .git"},
			"another one has its place":              {p.workspace(), "mv .git was; mkdir .git"},
			"it vanishes, and another has its place": {p.workspace(), "rmdir .git; (sleep 0.002; mkdir .git) &"},
			"what is shown vanishes":                 {entries("minimal=read", p.attacker+"=read", p.ws+"=write", p.dir+"/shown=read"), "mv ../shown ."},
			"what is denied appears":                 {entries("root=read", p.ws+"=write", p.dir+"/later/f=deny"), "mkdir ../later && echo >../later/f"},
		} {
			must(t, forceRemove(p.ws))
			p.file("shown/f", "text")
			for _, dir := range []string{p.ws, p.ws + "/.git"} {
				must(t, os.Mkdir(dir, 0o755))
				must(t, os.Lchown(dir, p.uid, p.uid))
			}
			must(t, os.Lchown(p.dir, p.uid, p.uid))
			p.file("ws/again", "")
			p.program("bin/bwrap", "#!/bin/sh\nif [ -e again ]; then\n\trm again\n\t"+tt.move+"\nfi\nexec "+real+" \"$@\"\n")
			if o := p.runWith(backend, tt.profile); o.code != 0 || !strings.Contains(o.text, "done") {
				t.Errorf(`%s: got %v; want o.code 0, o.text with "done"`, name, o)
			}
			if exists(p.ws + "/again") {
				t.Errorf("%s: bwrap was not started", name)
			}
			must(t, forceRemove(p.dir+"/later"))
		}
	})
}

// TestSignalsWhileBwrapFails: a signal arrives while bwrap fails in a way that the launcher would retry. The
// signal ends the launcher, and not only the failing try.
func TestSignalsWhileBwrapFails(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		real, err := exec.LookPath("bwrap")
		must(t, err)
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
			p.file("ws/.git/x", "")
			must(t, os.Remove(p.ws+"/.git/x"))
			p.program("bin/bwrap", "#!/bin/sh\nkill -"+strconv.Itoa(int(sig))+" $PPID\nsleep 0.1\nrmdir .git\nexec "+real+" \"$@\"\n")
			if o := p.runWith(backend, p.workspace()); o.sig != sig || strings.Contains(o.text, "done") {
				t.Errorf(`%v: got %v; want o.sig %v, o.text without "done"`, sig, o, sig)
			}
			must(t, forceRemove(p.ws+"/.git"))
		}
	})
}

// TestSecondPlanIsJudgedAnew: the launcher does not reuse checks of a failed plan for the next plan. First, a link of
// another user that appears between the plans does not select the writable directory for $TMPDIR. Second, an inherited
// socket that is permitted for a command without connections is not passed to a command that makes connections.
func TestSecondPlanIsJudgedAnew(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		real, err := exec.LookPath("bwrap")
		must(t, err)
		run := func(move, profile string, stdin *os.File, script string) outcome {
			p.file("ws/.git/x", "")
			must(t, os.Remove(p.ws+"/.git/x"))
			p.program("bin/bwrap", "#!/bin/sh\n[ ! -d .git ] || { rmdir .git; "+move+"; }\nexec "+real+" \"$@\"\n")
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, profile, "alive")
			cmd.Args = append(cmd.Args[:len(cmd.Args)-2], "sh", "-c", script)
			cmd.Env = append(cmd.Env, "PATH="+p.dir+"/bin:/usr/bin:/bin", "TMPDIR="+p.dir+"/shared/tmp")
			if stdin != nil {
				cmd.Stdin = stdin
			}
			return p.finish(cmd)
		}
		p.file("victim/f", "text")
		p.file("shared/x", "")
		must(t, os.Chmod(p.dir+"/shared", 0o777|os.ModeSticky))
		other := "chown -h " + strconv.Itoa(nobody) + " ../shared/tmp"
		if p.uid != 0 {
			other = "true" // the launcher follows a link of the user
		}
		o := run("ln -s "+p.dir+"/victim ../shared/tmp; "+other, entries("root=read", p.ws+"=write", "tmpdir=write"), nil, "echo changed >"+p.dir+"/victim/f")
		if text, err := os.ReadFile(p.dir + "/victim/f"); err != nil || (string(text) == "text") != (p.uid == 0) {
			t.Errorf("a link in the place of $TMPDIR: %v; the file has %q, %v", o, text, err)
		}

		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer c.Close()
		stdin, err := c.(*net.TCPConn).File()
		must(t, err)
		defer stdin.Close()
		const isSocket = "test -S /proc/self/fd/0 && echo a socket"
		profile := entries("root=read", p.dir+"/later=write", p.dir+"/denied/f=deny")
		if o := run("mkdir ../later ../denied; echo >../denied/f", profile, stdin, isSocket); o.code != exitFailed || !strings.Contains(o.text, "try again") || strings.Contains(o.text, "a socket") {
			t.Errorf("a writable directory appears: %v", o)
		}
		if o := run("true", profile, stdin, isSocket); strings.Contains(o.text, "a socket") {
			t.Errorf("it is there: %v", o)
		}
		must(t, os.Remove(p.dir+"/later"))
		if o := run("true", profile, stdin, isSocket); o.text != "a socket\n" {
			t.Errorf("it is not there: %v", o)
		}
	})
}

// TestEntriesOutOfReach: an entry for a path that the user cannot access does not prevent a
// command from running.
func TestEntriesOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has directories that an ordinary user cannot look at")
	}
	each(t, nil, func(t *testing.T, p *place, backend string) {
		closed := p.file("closed/keys/x", "")
		must(t, os.Chown(p.dir+"/closed", 0, 0))
		must(t, os.Chmod(p.dir+"/closed", 0o700))
		for _, root := range []string{"root=read", "minimal=read"} {
			profile := entries(root, p.attacker+"=read", p.ws+"=write", p.ws+"/.git=write", p.ws+"/.agents=write", p.ws+"/.codex=write", closed+"=read")
			if o := p.run(backend, profile, "alive"); o.code != 0 || !strings.Contains(o.text, "done") {
				t.Errorf(`%s: got %v; want o.code 0, o.text with "done"`, root, o)
			}
		}
	})
}

// TestFilesInMasks: bwrap creates a file in a mask, as a mount point. If another process redirects
// the path, bwrap must not empty an existing file.
func TestFilesInMasks(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		shown := p.file("ws/denied/f", "text")
		p.file("ws/e/f", "text")
		profile := entries("root=read", p.ws+"=write", p.ws+"/denied=deny", shown+"=read")
		if o := p.run(backend, profile, "alive"); o.code != 0 {
			t.Errorf("got %v, want o.code 0", o)
		}
		p.editBwrap("/^--tmpfs$/{n;s|^" + p.ws + "/denied$|" + p.ws + "/e|}")
		if o := p.runWith(backend, profile); o.code != exitFailed {
			t.Errorf("the mask is elsewhere: %v", o)
		}
		if text, err := os.ReadFile(shown); err != nil || string(text) != "text" {
			t.Errorf("the file has %q, %v", text, err)
		}
	})
}

// editBwrap replaces bwrap by one that edits its arguments, one per line, with sed.
func (p *place) editBwrap(script string) {
	p.t.Helper()
	real, err := exec.LookPath("bwrap")
	must(p.t, err)
	p.program("bin/bwrap", `#!/bin/sh
if [ "$1" = --args ]; then
	args=$(tr '\0' '\n' < /proc/self/fd/$2 | sed '`+script+`')
	printf '%s\n' "$args" | tr '\n' '\0' > /proc/self/fd/$2
fi
exec `+real+` "$@"
`)
}

// redirect is a script for editBwrap that mounts a different source at a different
// target, below the workspace.
func (p *place) redirect(option, name, from, to string) string {
	return "/^" + option + "$/{n;\\|^" + p.ws + name + "$|{s|.*|" + p.dir + from + "|;n;s|.*|" + p.dir + to + "|}}"
}

// runWith runs a command with further options, and with the bwrap of editBwrap if the test has made
// one.
func (p *place) runWith(backend, profile string, options ...string) outcome {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := p.command(ctx, backend, profile, "alive")
	cmd.Args = slices.Insert(cmd.Args, 1, options...)
	cmd.Env = append(cmd.Env, "PATH="+p.dir+"/bin:/usr/bin:/bin")
	return p.finish(cmd)
}

// TestPolicyNamesDev: entries for /dev and its devices neither change the view's own devices, which stay usable,
// nor leave files in the host's /dev. A profile cannot deny the devices that every sandbox needs.
func TestPolicyNamesDev(t *testing.T) {
	const left = "/dev/codex-linux-sandbox"
	before := unix.Access(left, unix.F_OK) == nil // left by an older version
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		run := func(profile string) outcome {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, profile, "alive")
			cmd.Args = append(cmd.Args[:len(cmd.Args)-2], "sh", "-c", "echo x >/dev/null && head -c 1 /dev/zero >/dev/full; [ $? = 1 ] && cat /dev/null && ls /dev && echo done")
			return p.finish(cmd)
		}
		for _, root := range []string{"root=read", "minimal=read"} {
			for _, e := range []string{"/dev=read", "/dev=write", "/dev/null=read", "/dev/null=write", "/dev/full=write", "/dev/zero=read", "/dev/pts=write", "/dev/ptmx=write"} {
				if o := run(entries(root, p.ws+"=write", e)); o.code != 0 || !strings.Contains(o.text, "done") || strings.Contains(o.text, "kmsg") {
					t.Errorf(`%s, %s: got %v; want o.code 0, o.text with "done", o.text without "kmsg"`, root, e, o)
				}
			}
			for _, e := range []string{"/dev", "/dev/null"} {
				if o := run(entries(root, e+"=deny")); o.code != exitFailed || !strings.Contains(o.text, "deny-read path "+e+": every sandbox needs "+e) {
					t.Errorf("%s, %s is denied: %v", root, e, o)
				}
			}
		}
		must(t, os.Symlink("/dev/null", p.ws+"/.env"))
		if o := run(entries("root=read", p.ws+"=write", "glob:"+p.ws+"/**/.env=deny")); o.code != 0 || !strings.Contains(o.text, "done") {
			t.Errorf("a denied pattern matches a link to /dev/null: %v", o)
		}
		if o := run(entries("root=write", p.ws+"/d=deny", "/dev/null=read", "/dev/zero=read", "/dev/full=read")); o.code != 0 || !strings.Contains(o.text, "done") {
			t.Errorf("a writable root: %v", o)
		}
		if !before && unix.Access(left, unix.F_OK) == nil {
			t.Errorf("%s is on the host: %v", left, os.Remove(left))
		}
	})
}

// TestMountsThatNobodyReaches: docker mounts file systems below /var/lib/docker, which
// only root can enter. bwrap, started by an ordinary user, cannot make them read-only,
// but works anyway. Mounts that the user could reach must be read-only.
func TestMountsThatNobodyReaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts file systems")
	}
	need(t, nobody, "bwrap")
	const user = 54321 // not nobody: the sandbox shows root's files as files of nobody
	ownMounts(t)
	p := newPlace(t, user)
	defer p.mount("closed/m")()
	must(t, os.Chmod(p.dir+"/closed", 0o700))
	for _, options := range [][]string{nil, {"--no-proc"}} {
		if o := p.runWith("bwrap", p.workspace(), options...); o.code != 0 || !strings.Contains(o.text, "done") {
			t.Errorf("below a directory of root's, %v: %v", options, o)
		}
	}
	must(t, os.Chown(p.dir+"/closed", user, 0))
	must(t, os.Chmod(p.dir+"/closed", 0))
	for _, options := range [][]string{nil, {"--no-proc"}} {
		if o := p.runWith("bwrap", p.workspace(), options...); o.code != exitFailed || !strings.Contains(o.text, "/closed/m can be written") {
			t.Errorf("below a directory that the user could open, %v: %v", options, o)
		}
	}
}

// TestCoveredMounts: a file system is mounted below a read-only or denied directory of the
// workspace. bwrap shows it twice: with the workspace, where it is writable, and with the
// directory, which hides the first. The same happens to a file system on which another one is
// mounted, as with systemd's automount units.
func TestCoveredMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts file systems")
	}
	// A thread with mounts of its own ends with its test, and kills the processes that it has started.
	oneByOne(t, []string{"namespaces", "bwrap"}, func(t *testing.T, p *place, backend string) {
		ownMounts(t)
		for _, name := range []string{"ws/ro/m", "ws/denied/m", "ws/named/m", "twice", "twice"} {
			defer p.mount(name)()
		}
		named := entries("root=read", p.ws+"=write", p.ws+"/named/m=write")
		for _, profile := range []string{
			entries("root=read", p.ws+"=write", p.ws+"/ro=read", p.ws+"/denied=deny"),
			entries("root=write", p.ws+"/ro=read", p.ws+"/denied=deny", p.dir+"/twice=read"),
			entries("minimal=read", base+"=read", p.ws+"/named/m=write", p.ws+"/ro/m=read"), named,
		} {
			for _, options := range [][]string{nil, {"--no-proc"}} {
				if o := p.runWith(backend, profile, options...); o.code != 0 || !strings.Contains(o.text, "done") {
					t.Errorf(`%s, %v: got %v; want o.code 0, o.text with "done"`, profile, options, o)
				}
			}
		}
		if backend != "bwrap" {
			return
		}
		// The host's mount stays at its path in each case.
		p.file("ws/e/f", "text")
		p.editBwrap(p.redirect("--bind", "/named/m", "/twice", "/ws/e"))
		for _, options := range [][]string{nil, {"--no-proc"}} {
			if o := p.runWith(backend, named, options...); o.code != exitFailed || !strings.Contains(o.text, "/ws/named/m: nothing is mounted there") {
				t.Errorf("mounted elsewhere, %v: %v", options, o)
			}
		}
	})
}

// ownMounts gives the test its own mount namespace, which ends with the thread of the test.
func ownMounts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	testutil.Need(t, "right to make mounts", unix.Unshare(unix.CLONE_NEWNS), unix.EPERM)
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// mount mounts a file system that every user may write on a directory below the place.
func (p *place) mount(name string) (unmount func()) {
	p.t.Helper()
	at := p.dir + "/" + name
	must(p.t, os.MkdirAll(at, 0o755))
	must(p.t, unix.Mount("tmpfs", at, "tmpfs", 0, "size=64k,mode=777"))
	return func() { must(p.t, unix.Unmount(at, 0)) }
}
