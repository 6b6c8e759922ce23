package escape

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// In these tests the workspace is a directory of a git work tree. So the launcher does not mask a
// .git that the command creates there, but removes it.

// inWorkTree creates the workspace ws/tree/sub of the work tree ws/tree, and returns a profile that
// makes both writable.
func (p *place) inWorkTree() (sub, profile string) {
	p.file("ws/tree/.git/HEAD", "ref: refs/heads/main\n")
	p.file("ws/tree/sub/file", "x")
	return p.ws + "/tree/sub", entries("root=read", p.ws+"=write", p.ws+"/tree/sub=write")
}

// shell prepares a shell command in a sandbox. The script must first print a line "ready".
func (p *place) shell(ctx context.Context, backend, dir, profile, script string, args ...string) *exec.Cmd {
	args = append([]string{"--backend", backend, "--sandbox-policy-cwd", dir, "--permission-profile", profile, "--", "/bin/sh", "-c", script, "sh"}, args...)
	cmd := exec.CommandContext(ctx, p.launcher, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, as(p.uid), testTimeout
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd
}

// aged waits until the existing files are older than any new file, because file systems use a
// coarse clock.
func aged(t *testing.T) {
	t.Helper()
	now := func(clock int32) int64 {
		var ts unix.Timespec
		must(t, unix.ClockGettime(clock, &ts))
		return ts.Nano()
	}
	begin := now(unix.CLOCK_REALTIME)
	await(t, "the next tick of the clock", func() bool { return now(unix.CLOCK_REALTIME_COARSE) > begin })
}

// TestUndoRemovesOnlyWhatTheCommandMade: a command creates any kind of file under the forbidden
// name .git. Afterwards the name is free, and all files that existed before the command, in the
// workspace or elsewhere, still exist.
func TestUndoRemovesOnlyWhatTheCommandMade(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		keeps        bool // files are left under another name
	}{
		{name: "a link in the place of the workspace", script: `mv "$1/tree" "$1/t" && mkdir "$1/tree" && ln -s "$2" "$1/tree/sub"; mkdir -p "$1/t/sub/.git/x"`},
		{name: "a link in the place of a directory above", script: `mkdir "$1/v" && ln -s "$2" "$1/v/sub"; mv "$1/tree" "$1/t" && ln -s v "$1/tree"; mkdir .git`},
		{name: "a link", script: `ln -s "$2" .git`},
		{name: "a link to the repository", script: `ln -s "$2/.git" .git`},
		{name: "a tree with links", script: `mkdir -p t/a && ln -s "$2" t/l && ln -s "$2/.git" t/a/l && mv t .git`},
		{name: "a directory that was there", script: `mv old .git`, keeps: true},
		{name: "a directory that was there, in a new one", script: `mkdir t && mv old t/old && mv t .git`, keeps: true},
		{name: "a file that was there", script: `mkdir t && mv old/history t/history && mv t .git`, keeps: true},
		{name: "another name of a file that was there", script: `mkdir t && ln old/history t/history && mv t .git`, keeps: true},
		{name: "a directory whose times were set", script: `touch old old/history && mv old .git`, keeps: true},
		{name: "a repository", script: `mkdir -p t/hooks t/objects/aa && echo x >t/config && echo x >t/objects/aa/bb && mv t .git`},
		{name: "directories that cannot be listed", script: `mkdir -p t/a/b && echo x >t/a/b/c && chmod 0 t/a/b && chmod 111 t/a && mv t .git && chmod 0 .git`},
		{name: "a workspace that cannot be written", script: `mkdir -p t/a && chmod 555 . && mv t .git; chmod 755 .; mv t .git; chmod 555 .`},
		{name: "a file", script: `echo "gitdir: $1/evil" >.git`},
		{name: "a pipe", script: `mkfifo .git`},
		{name: "a tree that is too deep", script: `mkdir t && i=0; while [ $i -lt 40 ]; do mkdir u && mv t u/t && mv u t; i=$((i + 1)); done; mv t .git`, keeps: true},
		{name: "over and over", script: `i=0; while [ $i -lt 300 ]; do mkdir -p .git/hooks; echo x >.git/config; i=$((i + 1)); done 2>/dev/null`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			each(t, mounted, func(t *testing.T, p *place, backend string) {
				sub, profile := p.inWorkTree()
				victim := filepath.Dir(filepath.Dir(p.file("victim/.git/history", "important")))
				p.file("ws/tree/sub/old/history", "important")
				aged(t)
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := p.shell(ctx, backend, sub, profile, "echo ready; "+tt.script, p.ws, victim)
				out, err := cmd.CombinedOutput()
				if !strings.Contains(string(out), "ready\n") {
					t.Fatalf("nothing was tried: %v: %s", err, out)
				}
				if b, err := os.ReadFile(victim + "/.git/history"); string(b) != "important" {
					t.Errorf("the repository outside: %q, %v", b, err)
				}
				found, left := 0, 0
				_ = filepath.WalkDir(p.ws, func(at string, d os.DirEntry, err error) error {
					if b, _ := os.ReadFile(at); err == nil && d.Type().IsRegular() && string(b) == "important" {
						found++
					}
					if d != nil && strings.HasPrefix(d.Name(), ".codex-") {
						left++
					}
					return nil
				})
				if found == 0 {
					t.Errorf("what was there before is gone: %s", out)
				}
				if tt.keeps != (left > 0) {
					t.Errorf("%d left under another name: %s", left, out)
				}
				for _, dir := range []string{sub, p.ws + "/t/sub"} {
					if _, err := os.Lstat(dir + "/.git"); err == nil && exists(dir+"/file") {
						t.Errorf("%s/.git stays: %s", dir, out)
					}
				}
				if cmd.ProcessState.ExitCode() == 0 && strings.Contains(string(out), "blocked creation") {
					t.Errorf("the command succeeded: %s", out)
				}
			})
		})
	}
}

// TestUndoIsNotRedirected: while a command runs, another process moves the workspace, or a
// directory above it, and puts a link to a repository in its place. The launcher removes files that
// the command then creates from the moved workspace. Neither the launcher nor, if it is killed, the
// janitor uses the path that now leads to the repository. (The command itself could do this only if
// the names of directories above a workspace were not protected.)
func TestUndoIsNotRedirected(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, moved := range []string{"tree", "tree/sub"} {
			for _, killed := range []bool{false, true} {
				sub, profile := p.inWorkTree()
				victim := filepath.Dir(filepath.Dir(p.file("victim/sub/.git/history", "important")))
				if moved == "tree" {
					victim = filepath.Dir(victim)
				}
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := p.shell(ctx, backend, sub, profile, `echo ready; read go; mkdir -p .git/hooks; echo made; read go; mkdir -p .git/hooks`)
				in, err := cmd.StdinPipe()
				must(t, err)
				out, err := cmd.StdoutPipe()
				must(t, err)
				must(t, cmd.Start())
				lines := bufio.NewReader(out)
				say := func(want string) {
					t.Helper()
					if line, err := lines.ReadString('\n'); line != want {
						t.Fatalf("got line %q, error %v; want line %q", line, err, want)
					}
				}
				say("ready\n")
				must(t, os.Rename(p.ws+"/"+moved, p.dir+"/moved"))
				must(t, os.Symlink(victim, p.ws+"/"+moved))
				_, err = io.WriteString(in, "\n")
				must(t, err)
				say("made\n")
				if killed {
					must(t, cmd.Process.Kill())
				}
				_ = in.Close()
				_ = cmd.Wait()
				workspace := p.dir + "/moved" + strings.TrimPrefix("tree/sub", moved)
				await(t, "the end of the janitor", func() bool { return !p.holds("codex-janitor", workspace) })
				if exists(workspace + "/.git") {
					t.Errorf("%s moved, killed: %v: .git of the command stays", moved, killed)
				}
				if b, err := os.ReadFile(p.dir + "/victim/sub/.git/history"); string(b) != "important" {
					t.Errorf("%s moved, killed: %v: the repository outside has %q, %v", moved, killed, b, err)
				}
				must(t, os.Remove(p.ws+"/"+moved))
				must(t, os.Rename(p.dir+"/moved", p.ws+"/"+moved))
			}
		}
	})
}

// TestUndoOutlivesTheLauncher: a server kills the launcher, alone or with its process group. The
// command's last files are still removed, even if no path is masked.
func TestUndoOutlivesTheLauncher(t *testing.T) {
	rounds := testutil.Rounds(2, 2, 6)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, masks := range []bool{true, false} {
			sub, profile := p.inWorkTree()
			if !masks {
				// All other protected names exist.
				for _, dir := range []string{p.ws, sub} {
					for _, name := range []string{".agents", ".codex"} {
						must(t, os.MkdirAll(dir+"/"+name, 0o755))
						must(t, os.Lchown(dir+"/"+name, p.uid, p.uid))
					}
				}
				p.file("ws/.git/HEAD", "ref: refs/heads/main\n")
			}
			for round := range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				cmd := p.shell(ctx, backend, sub, profile, `echo ready; while :; do mkdir -p .git/hooks; echo x >.git/config; done 2>/dev/null`)
				cmd.SysProcAttr.Setpgid = true
				out, err := cmd.StdoutPipe()
				must(t, err)
				must(t, cmd.Start())
				lines := bufio.NewReader(out)
				if line, err := lines.ReadString('\n'); line != "ready\n" {
					t.Fatalf("got line %q, error %v; want line %q", line, err, "ready\n")
				}
				// The launcher is watching when it has removed the first .git.
				await(t, "the first .git", func() bool { return exists(sub + "/.git") })
				killed := cmd.Process.Pid
				if round%2 == 1 {
					killed = -killed
				}
				must(t, unix.Kill(killed, unix.SIGKILL))
				_ = cmd.Wait()
				cancel()
				await(t, "the end of the janitor", func() bool { return !p.holds("codex-janitor", sub) })
				if exists(sub + "/.git") {
					t.Fatalf("round %d: .git of the command stays", round)
				}
				for _, dir := range []string{sub, p.ws} {
					if left, _ := filepath.Glob(dir + "/.codex-*"); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				}
			}
		}
	})
}

// holds reports whether a process of the user with this name has a directory open.
func (p *place) holds(name, dir string) bool {
	// In containers root lacks the capability to see the descriptors of another user's processes. The user sees them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gid, _ := unix.SetfsgidRetGid(p.uid)
	uid, _ := unix.SetfsuidRetUid(p.uid)
	defer func() {
		_, _ = unix.SetfsuidRetUid(uid)
		_, _ = unix.SetfsgidRetGid(gid)
	}()
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range comms {
		if b, _ := os.ReadFile(comm); string(b) != name+"\n" {
			continue
		}
		fds, _ := filepath.Glob(filepath.Dir(comm) + "/fd/*")
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == dir {
				return true
			}
		}
	}
	return false
}

// lookAlike creates a file that looks like the placeholder of a missing name, and locks it until
// the test ends.
func (p *place) lookAlike(name string, uid int, isDir bool) {
	p.t.Helper()
	mode := os.FileMode(0o555)
	if isDir {
		must(p.t, os.Mkdir(name, 0o755))
	} else {
		mode = 0o444
		must(p.t, os.WriteFile(name, nil, 0o644))
	}
	must(p.t, os.Lchown(name, uid, uid))
	mark(p.t, name, mode)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(p.t, err)
	p.t.Cleanup(func() { _ = unix.Close(fd) })
	must(p.t, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
}

// TestNoLockIsWaitedFor: another process holds a lock on a file that looks like a placeholder.
// Sandboxes still start, and the name stays protected when that file disappears.
func TestNoLockIsWaitedFor(t *testing.T) {
	for _, dirs := range []bool{true, false} {
		each(t, mounted, func(t *testing.T, p *place, backend string) { noLockIsWaitedFor(t, p, backend, dirs) })
	}
}

func noLockIsWaitedFor(t *testing.T, p *place, backend string, dirs bool) {
	for i, name := range protectedNames {
		p.lookAlike(p.ws+"/"+name, p.uid, i > 0 == dirs)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := p.shell(ctx, backend, p.ws, p.workspace(), `echo ready; read go; for n in .git .agents .codex; do mkdir $n && echo x >$n/config; done; :`)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it did not start: %q, %v", line, err)
	}
	for _, name := range protectedNames {
		must(t, os.Remove(p.ws+"/"+name))
	}
	_ = in.Close()
	_ = cmd.Wait()
	for _, name := range protectedNames {
		if exists(p.ws + "/" + name + "/config") {
			t.Errorf("%s was made", name)
		}
	}
}

// TestOtherUsersCannotStopASandbox: another user puts files into a directory that all users share.
// These files do not prevent sandboxes from starting, the launcher does not remove them, and they
// do not let the command create a protected name.
func TestOtherUsersCannotStopASandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	other := nobody - 1
	for what, make := range map[string]func(p *place, name string) error{
		"a link":                      func(p *place, name string) error { return os.Symlink("/nowhere", name) },
		"a link to a writable path":   func(p *place, name string) error { return os.Symlink(p.ws, name) },
		"a pipe":                      func(p *place, name string) error { return unix.Mkfifo(name, 0o600) },
		"a directory":                 func(p *place, name string) error { return os.Mkdir(name, 0o700) },
		"a pointer to a writable one": func(p *place, name string) error { return os.WriteFile(name, []byte("gitdir: "+p.ws), 0o644) },
		"a pointer to a missing one":  func(p *place, name string) error { return os.WriteFile(name, []byte("gitdir: "+p.ws+"/no"), 0o644) },
		"a locked look-alike":         func(p *place, name string) error { p.lookAlike(name, other, true); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			each(t, mounted, func(t *testing.T, p *place, backend string) {
				shared := p.dir + "/shared"
				must(t, os.Mkdir(shared, 0o755))
				must(t, os.Chmod(shared, 0o777|os.ModeSticky))
				for _, name := range protectedNames {
					must(t, make(p, shared+"/"+name))
					must(t, os.Lchown(shared+"/"+name, other, other))
				}
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := p.shell(ctx, backend, p.ws, entries("root=read", p.ws+"=write", shared+"=write"),
					`echo ready; touch made no; for n in .git .agents .codex; do mv "$1/$n" "$1/x$n" && mkdir "$1/$n" && echo x >"$1/$n/config"; done; :`, shared)
				if out, err := cmd.CombinedOutput(); !strings.HasPrefix(string(out), "ready\n") || !exists(p.ws+"/made") || !exists(p.ws+"/no") {
					t.Errorf("it did not start, or could not write: %v: %s", err, out)
				}
				for _, name := range protectedNames {
					if exists(shared + "/" + name + "/config") {
						t.Errorf("%s was made", name)
					}
					if !exists(shared+"/"+name) && !exists(shared+"/x"+name) {
						t.Errorf("%s of the other user is gone", name)
					}
				}
			})
		})
	}
}

// TestUndoInForbiddenDirectories: a command removes all permissions to search or change the
// workspace. The files that it created there are still removed, whether the launcher is alive at
// the end or not, and no placeholder is left.
func TestUndoInForbiddenDirectories(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		sub, profile := p.inWorkTree()
		for _, mode := range []string{"0", "300", "444", "555", "600"} {
			for _, end := range []unix.Signal{unix.SIGCONT, unix.SIGKILL} {
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := p.shell(ctx, backend, sub, profile, `mkdir -p t/hooks; echo ready; read go; mv t .git; chmod "$1" .; echo made`, mode)
				in, err := cmd.StdinPipe()
				must(t, err)
				out, err := cmd.StdoutPipe()
				must(t, err)
				must(t, cmd.Start())
				lines := bufio.NewReader(out)
				if line, err := lines.ReadString('\n'); line != "ready\n" {
					t.Fatalf("got line %q, error %v; want line %q", line, err, "ready\n")
				}
				// While it is stopped, the launcher notices nothing.
				must(t, cmd.Process.Signal(unix.SIGSTOP))
				await(t, "the launcher to stop", func() bool {
					stat, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
					return strings.Contains(string(stat), ") T ")
				})
				_ = in.Close()
				if line, err := lines.ReadString('\n'); line != "made\n" {
					t.Fatalf("got line %q, error %v; want line %q", line, err, "made\n")
				}
				must(t, cmd.Process.Signal(end))
				_ = cmd.Wait()
				await(t, "the end of the janitor", func() bool { return !p.holds("codex-janitor", sub) })
				if cmd.ProcessState.ExitCode() == 0 {
					t.Errorf("mode %s, %v: the command succeeded", mode, end)
				}
				st, err := os.Stat(sub)
				must(t, err)
				if want, _ := strconv.ParseUint(mode, 8, 32); st.Mode().Perm() != os.FileMode(want) {
					t.Errorf("mode %s, %v: the workspace has mode %v", mode, end, st.Mode())
				}
				must(t, os.Chmod(sub, 0o755))
				names, _ := filepath.Glob(sub + "/.*")
				if len(names) > 0 {
					t.Errorf("mode %s, %v: left: %v", mode, end, names)
				}
				for _, name := range names {
					must(t, os.RemoveAll(name))
				}
			}
		}
	})
}
