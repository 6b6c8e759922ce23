package escape

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// running is a sandbox with a command that waits.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts an attack that reports when it is ready.
func (p *place) start(backend, profile string, args ...string) *running {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	r := &running{t: p.t, cmd: p.command(ctx, backend, profile, args...)}
	var err error
	r.in, err = r.cmd.StdinPipe()
	must(p.t, err)
	out, err := r.cmd.StdoutPipe()
	must(p.t, err)
	var said strings.Builder
	r.cmd.Stderr = &said
	r.out = bufio.NewReader(out)
	must(p.t, r.cmd.Start())
	p.t.Cleanup(func() {
		cancel()
		_ = r.cmd.Wait()
	})
	if line, err := r.out.ReadString('\n'); line != "ready\n" {
		_ = r.cmd.Wait()
		p.t.Fatalf("the attack did not start: %q, %v: %s", line, err, said.String())
	}
	return r
}

// end lets the command end, and waits for the launcher.
func (r *running) end() {
	_ = r.in.Close()
	_, _ = io.Copy(io.Discard, r.out)
	_ = r.cmd.Wait()
}

// kill kills the launcher, and waits until all processes in the sandbox have closed the output.
func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, r.out)
	_ = r.cmd.Wait()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// mark gives a file or a directory the mode and time that mark placeholders.
func mark(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must(t, os.Chmod(path, mode))
	stamp := time.Unix(3600, 203_569_741)
	must(t, os.Chtimes(path, stamp, stamp))
}

// TestForgedPlaceholdersKeepData: the launcher never removes a file that looks like a placeholder
// but is not empty.
func TestForgedPlaceholdersKeepData(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, name := range protectedNames {
			p.file("ws/"+name+"/data", "keep")
			mark(t, p.ws+"/"+name, 0o555)
		}
		check := func() {
			t.Helper()
			for _, name := range protectedNames {
				if b, err := os.ReadFile(p.ws + "/" + name + "/data"); string(b) != "keep" {
					t.Errorf(`%s: got b %q, error %v; want b "keep"`, name, b, err)
				}
			}
		}
		contained(t, p.run(backend, p.workspace(), "write", p.ws+"/.git/data"))
		check()
		r := p.start(backend, p.workspace(), "alive", "wait")
		r.kill()
		check()
		// A denied file that looks like a placeholder.
		p.file("ws/f", "")
		mark(t, p.ws+"/f", 0o444)
		must(t, os.Link(p.ws+"/f", p.ws+"/g"))
		r = p.start(backend, entries("root=read", p.ws+"=write", p.ws+"/f=read"), "alive", "wait")
		must(t, os.Chmod(p.ws+"/g", 0o644))
		must(t, os.WriteFile(p.ws+"/g", []byte("keep"), 0o644))
		r.end()
		if b, err := os.ReadFile(p.ws + "/f"); string(b) != "keep" {
			t.Errorf("f: %q, %v", b, err)
		}
	})
}

// TestReplacedPlaceholdersKeepData: while the sandbox runs, the user replaces a placeholder by a
// file, as editors do when they save. The launcher does not remove that file, however the sandbox
// ends.
func TestReplacedPlaceholdersKeepData(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, killed := range []bool{false, true} {
			secret := fmt.Sprintf("%s/secret-%v", p.ws, killed)
			r := p.start(backend, entries("root=read", p.ws+"=write", secret+"=deny", secret+".in=deny"), "alive", "wait")
			if !exists(secret) {
				t.Fatal("there is no placeholder: nothing is tested")
			}
			p.file("new", "what the user has written")
			must(t, os.Rename(p.dir+"/new", secret))
			// The same in the existing directory.
			must(t, os.Chmod(secret+".in", 0o644))
			must(t, os.WriteFile(secret+".in", []byte("what the user has written"), 0o644))
			if killed {
				r.kill()
				await(t, "the end of the janitor", func() bool { return len(withArgument(secret)) == 0 && !exists(p.ws+"/.codex") })
			} else {
				r.end()
			}
			for _, name := range []string{secret, secret + ".in"} {
				if b, err := os.ReadFile(name); string(b) != "what the user has written" {
					t.Errorf("launcher killed: %v: the user's %s was removed: %v", killed, filepath.Base(name), err)
				}
			}
		}
	})
}

// TestSharedPlaceholders: two sandboxes share one workspace. When one ends, the other stays
// protected; when the last one ends, it removes the placeholders.
func TestSharedPlaceholders(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, killed := range []bool{false, true} {
			first := p.start(backend, p.workspace(), "alive", "wait")
			second := p.start(backend, p.workspace(), "alive", "wait")
			third := p.start(backend, p.workspace(), "protected later", p.ws+"/.git", p.ws+"/.codex", p.ws+"/.agents")
			end := (*running).end
			if killed {
				end = (*running).kill
			}
			end(first)
			end(second)
			if _, err := io.WriteString(third.in, "go\n"); err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(third.out)
			third.end()
			contained(t, outcome{text: string(text)})
			await(t, "the end of the placeholders", func() bool {
				return !exists(p.ws+"/.git") && !exists(p.ws+"/.codex") && !exists(p.ws+"/.agents")
			})
			_ = os.RemoveAll(p.ws + "/own")
		}
	})
}

// TestNobodyIsLeftWhenPlaceholdersGo: while any process in the sandbox still runs, the protected
// names stay masked. This also holds if the command ends before its children, or the launcher is
// killed.
func TestNobodyIsLeftWhenPlaceholdersGo(t *testing.T) {
	rounds := testutil.Rounds(3, 4, 12)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			each(t, mounted, func(t *testing.T, p *place, backend string) {
				how := "end"
				if killed {
					how = "wait"
				}
				for range rounds {
					r := p.start(backend, p.workspace(), "flood", p.ws+"/.codex", how)
					if killed {
						r.kill()
					} else {
						r.end()
					}
					// Wait until the placeholder is removed or replaced by another file.
					await(t, "the end of the placeholder", func() bool {
						info, err := os.Lstat(p.ws + "/.codex")
						return err != nil || info.Mode().Perm() != 0o555
					})
					await(t, "the end of all", func() bool { return len(withArgument(p.ws+"/.codex")) == 0 })
					if b, err := os.ReadFile(p.ws + "/.codex/config"); err == nil {
						t.Fatalf("escaped: .codex/config is %q", b)
					}
				}
			})
		})
	}
}

// TestPlaceholdersCannotBeBlocked: other files with the temporary names of placeholders do not
// prevent sandboxes from starting.
func TestPlaceholdersCannotBeBlocked(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		// The launcher will get one of the next process ids.
		cmd := exec.Command("true")
		must(t, cmd.Run())
		for n := cmd.Process.Pid; n < cmd.Process.Pid+300; n++ {
			must(t, os.Mkdir(fmt.Sprintf("%s/.codex-cover-%d-%d", p.ws, n, n), 0o755))
		}
		if o := p.run(backend, p.workspace(), "alive"); o.code != 0 {
			t.Errorf("got %v, want o.code 0", o)
		}
	})
}

// TestAFullFileSystem: where no placeholder can be made, because the file system of the workspace is full, a command still runs, and
// can make room. The protected names are watched: what it puts there is removed, and it fails.
func TestAFullFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	oneByOne(t, mounted, func(t *testing.T, p *place, backend string) {
		err := unix.Mount("full", p.ws, "tmpfs", unix.MS_NOSUID, fmt.Sprintf("nr_inodes=2,size=64k,uid=%d", p.uid))
		testutil.Need(t, "mounts", err, unix.EPERM)
		t.Cleanup(func() { _ = unix.Unmount(p.ws, unix.MNT_DETACH) })
		big := p.file("ws/big", "x")
		if err := os.Mkdir(p.ws+"/no", 0o755); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("the file system is not full: %v", err)
		}
		o := p.run(backend, p.workspace(), "make room", big, p.ws+"/.codex")
		if o.code == 0 || !strings.Contains(o.text, "blocked creation of protected workspace metadata path") {
			t.Errorf("got %v, want the name to be blocked", o)
		}
		for _, name := range []string{big, p.ws + "/.codex"} {
			if exists(name) {
				t.Errorf("%s exists", name)
			}
		}
		p.file("ws/big", "x")
		if o := p.run(backend, entries("root=read", p.ws+"=write", p.ws+"/missing/f=deny"), "alive"); o.code != exitFailed || !strings.Contains(o.text, "make room") {
			t.Errorf("a denied path that is missing: got %v, want code %d and why", o, exitFailed)
		}
	})
}

// TestAWritableRootIsNotRedirected: a command replaces a writable root by a link. The next command,
// under the same policy, cannot write to the target of the link.
func TestAWritableRootIsNotRedirected(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		p.file("outside/secret", "the key outside")
		p.file("ws/sub/out/f", "x")
		profile := nested(p, "sub/out")
		o := p.run(backend, profile, "redirect", p.ws+"/sub", "out", p.dir+"/outside")
		if backend == "landlock" && o.code == exitFailed && strings.Contains(o.text, "from being renamed") {
			return // Landlock cannot protect names
		}
		if !strings.Contains(o.text, "done") {
			t.Fatalf(`got %v, want o.text with "done"`, o)
		}
		o = p.run(backend, profile, "overwrite", p.dir+"/outside/secret")
		if b, _ := os.ReadFile(p.dir + "/outside/secret"); string(b) != "the key outside" {
			t.Errorf("escaped: the file outside is %q: %v", b, o)
		}
	})
}

// TestDirectoriesAboveKeepTheirNames: a command cannot rename, and so replace, a directory above a
// workspace or a denied path. This holds for all directories up to the outermost writable root.
func TestDirectoriesAboveKeepTheirNames(t *testing.T) {
	for name, tt := range map[string]struct {
		entries func(p *place) []string
		renamed []string // paths below the place
		broker  bool     // the broker can enforce this
	}{
		"a workspace in a writable directory": {
			func(p *place) []string { return []string{"root=read", p.ws + "=write", p.ws + "/a/b/in=write"} },
			[]string{"ws/a", "ws/a/b", "ws/a/b/in"}, true,
		},
		"a denied file in a workspace in a writable directory": {
			func(p *place) []string {
				return []string{"root=read", p.ws + "=write", p.ws + "/a/b=write", p.ws + "/a/b/in/x.env=deny"}
			},
			[]string{"ws/a", "ws/a/b", "ws/a/b/in"}, false,
		},
		"what is missing": {
			func(p *place) []string {
				return []string{"root=read", p.ws + "=write", p.ws + "/a/b/in=write", p.ws + "/a/b/in/c/d=deny"}
			},
			[]string{"ws/a", "ws/a/b"}, true,
		},
		"a workspace in a writable root directory": {
			func(p *place) []string { return []string{"root=write", p.ws + "/a/b=write", p.secret + "=deny"} },
			[]string{"ws", "ws/a", "ws/a/b"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, nil, func(t *testing.T, p *place, backend string) {
				p.file("ws/a/b/in/x.env", "key")
				profile := entries(tt.entries(p)...)
				for _, dir := range tt.renamed {
					o := p.run(backend, profile, "rename", p.dir+"/"+dir, p.dir+"/"+dir+".moved")
					if exists(p.dir + "/" + dir + ".moved") {
						t.Fatalf("escaped: %s was renamed: %v", dir, o)
					}
					// Landlock has no mounts that protect names.
					want := backend == "landlock" || backend == "broker" && !tt.broker
					if refused := o.code == exitFailed; refused != want {
						t.Errorf("got %v, want refused %v", o, want)
					}
				}
			})
		})
	}
}

// nested returns a profile that makes the workspace writable, and a directory in it with an entry of its own.
func nested(p *place, name string) string {
	list := []string{"root=read"}
	for _, root := range []string{p.ws, p.ws + "/" + name} {
		list = append(list, root+"=write", root+"/.git=write", root+"/.agents=write", root+"/.codex=write")
	}
	return entries(list...)
}

// TestLinksChangeWhileTheSandboxStarts: another command replaces a writable directory by a link to
// the outside again and again. The sandbox never gives access to the outside.
func TestLinksChangeWhileTheSandboxStarts(t *testing.T) {
	rounds := testutil.Rounds(4, 5, 15)
	each(t, nil, func(t *testing.T, p *place, backend string) {
		p.file("outside/secret", "the key outside")
		p.file("ws/x/out/f", "x")
		must(t, os.Symlink("../../outside", p.ws+"/x/link"))
		must(t, os.Lchown(p.ws+"/x/link", p.uid, p.uid))
		swap := p.start(backend, p.opened(), "change links", p.ws+"/x/out", p.ws+"/x/link")
		defer swap.kill()
		for range rounds {
			o := p.run(backend, nested(p, "x/out"), "overwrite", p.dir+"/outside/secret", p.ws+"/x/out/secret")
			if b, _ := os.ReadFile(p.dir + "/outside/secret"); string(b) != "the key outside" {
				t.Fatalf("escaped: the file outside was changed: %v", o)
			}
		}
	})
}

// TestDirectoriesChangeWhileTheSandboxStarts: a denied path stays hidden while another command,
// under the same policy, renames directories again and again.
func TestDirectoriesChangeWhileTheSandboxStarts(t *testing.T) {
	rounds := testutil.Rounds(4, 5, 15)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.file("ws/d/x.env", "key")
		p.file("ws/e/x.env", "key")
		// Patterns are expanded once, when the sandbox starts; docs/security.md
		// describes the consequences.
		for _, profile := range []string{
			entries("root=read", p.ws+"=write", p.ws+"/d/x.env=deny", p.ws+"/e/x.env=deny"),
		} {
			swap := p.start(backend, profile, "change links", p.ws+"/d", p.ws+"/e")
			for range rounds {
				if o := p.run(backend, profile, "read", p.ws+"/d/x.env", p.ws+"/e/x.env"); len(o.breaches()) > 0 {
					t.Errorf("escaped: %v", o)
					break
				}
			}
			swap.kill()
		}
	})
}

// TestAMaskHoldsForTheNextCommand: a command cannot move a masked file to a path where the next
// command, under the same policy, can read it.
func TestAMaskHoldsForTheNextCommand(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		secret := p.file("ws/a/d/x.env", "key")
		must(t, os.Chmod(secret, 0o600))
		for name, profile := range map[string]string{
			"a path": entries("root=read", p.ws+"=write", p.ws+"/a/d/x.env=deny"),
			// The launcher does not search a directory for matches if it cannot list it.
			"a pattern": entries("root=read", p.ws+"=write", "glob:"+p.ws+"/**/*.env=deny"),
		} {
			t.Run(name, func(t *testing.T) {
				defer func() { _ = os.Rename(p.ws+"/a/moved", p.ws+"/a/d") }()
				_ = p.run(backend, profile, "rename", p.ws+"/a/d", p.ws+"/a/moved")
				contained(t, p.run(backend, profile, "read", p.ws+"/a/moved/x.env", p.ws+"/a/d/x.env"))
			})
		}
	})
}

// TestLinksToMaskedFiles: a command cannot make a second name for a masked file, and an existing
// link to it is masked, too.
func TestLinksToMaskedFiles(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.file("ws/x.env", "key")
		must(t, os.Symlink("x.env", p.ws+"/soft"))
		must(t, os.Symlink(p.ws+"/soft", p.dir+"/softer"))
		profile := entries("root=read", p.ws+"=write", p.ws+"/x.env=deny")
		contained(t, p.run(backend, profile, "read", p.ws+"/soft", p.dir+"/softer"))
		if exists(p.ws + "/hard") {
			t.Error("a second name was made")
		}
		_ = unix.Unlink(p.ws + "/soft")
	})
}

// TestPlaceholdersOfAKilledStart: the launcher is killed just after it has made a placeholder,
// moved one into place, or made the next one. No placeholder is left. Scenario: a server ends while
// it starts confined file requests (seed 41092 of the campaign).
func TestPlaceholdersOfAKilledStart(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		dir := filepath.Join(p.ws, "killed")
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chown(dir, p.uid, p.uid))
		for kill := 1; kill <= 5; kill++ { // each of four placeholders makes two events, so bwrap has not begun
			watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			must(t, err)
			_, err = unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_MOVED_TO)
			must(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			cmd := p.shell(ctx, backend, dir, entries("root=read", dir+"=write", dir+"/gone=deny"), "sleep 60")
			must(t, cmd.Start())
			for seen := 0; seen < kill; {
				buf := make([]byte, 4096)
				n, err := unix.Read(watch, buf)
				must(t, err)
				for at := 0; at < n; seen++ {
					at += unix.SizeofInotifyEvent + int(buf[at+12]) // the length of the name, in struct inotify_event
				}
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait()
			cancel()
			must(t, unix.Close(watch))
			// The janitor may not have read the launcher's messages yet.
			await(t, fmt.Sprint("an empty directory, and the end of the janitor, killed after event ", kill), func() bool {
				left, err := os.ReadDir(dir)
				return err == nil && len(left) == 0 && !p.holds("codex-janitor", dir)
			})
			for _, pattern := range []string{"/.*", "/gone"} {
				left, _ := filepath.Glob(dir + pattern)
				for _, name := range left {
					must(t, os.Remove(name))
				}
			}
		}
	})
}
