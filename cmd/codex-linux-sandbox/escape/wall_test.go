package escape

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// launcherWith returns a function that builds the launcher with a build tag into the directory name.
func launcherWith(name, tag string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		// The second stage runs the launcher under its own name in /dev, so the file must have that name.
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
		program := filepath.Join(dir, "codex-linux-sandbox")
		if built := os.Getenv("CODEX_ESCAPE_PROGRAMS"); built != "" {
			text, err := os.ReadFile(filepath.Join(built, name))
			if err == nil {
				err = testutil.WriteProgram(program, text)
			}
			return program, err
		}
		return program, testutil.Build(program, "..", tag)
	})
}

var (
	// launcherWithoutMounts ignores the mounts of the plan: it shows the host's whole file system, writable.
	launcherWithoutMounts = launcherWith("without-mounts", "sandbox_without_mounts")
	// launcherWithMistakes makes the mistake that an environment variable names.
	launcherWithMistakes = launcherWith("with-mistakes", "sandbox_mistakes")
)

// use makes the test use another launcher.
func (p *place) use(make func() (string, error)) {
	p.t.Helper()
	var err error
	p.launcher, err = make()
	must(p.t, err)
}

// TestMountMistake: by a mistake no path of the view is read-only or hidden. Even then a command
// writes only to writable paths, and with restricted reads it reads only readable files.
func TestMountMistake(t *testing.T) {
	abi := machine.NeedLandlock(t, plan.WallABI)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.use(launcherWithoutMounts)
		inside := p.file("ws/file", "inside")
		works(t, p.run(backend, p.readOnly(), "change", p.secret)) // without mounts a command can change modes
		works(t, p.run(backend, p.workspace(), "contents", inside))
		outside := func(what, profile string) {
			t.Run(what, func(t *testing.T) {
				o := p.run(backend, profile, "contents", p.secret)
				breaches := o.breaches()
				if abi < 3 { // Landlock of this version does not restrict these two calls
					breaches = slices.DeleteFunc(breaches, func(what string) bool { return what == "truncate" || what == "open with O_TRUNC" })
				}
				if len(breaches) > 0 || !strings.Contains(o.text, "held: ") {
					t.Errorf(`got %v; want len(breaches) at most 0, o.text with "held: "`, o)
				}
				if abi >= 3 {
					p.unharmed()
				}
			})
		}
		restricted := entries("minimal=read", filepath.Dir(p.attacker)+"=read", p.ws+"=write")
		if o := p.run(backend, p.readOnly(), "read", p.secret); len(o.breaches()) == 0 {
			t.Errorf("the launcher has mounts: %v", o)
		}
		t.Run("reading with restricted reads", func(t *testing.T) {
			// The attacker is in base, like all other programs.
			own := filepath.Join(p.ws, "attacker")
			text, err := os.ReadFile(p.attacker)
			must(t, err)
			must(t, testutil.WriteProgram(own, text))
			must(t, os.Chmod(own, 0o755))
			cmd := p.command(t.Context(), backend, entries("minimal=read", p.ws+"=write"), "read", p.secret)
			cmd.Args[slices.Index(cmd.Args, p.attacker)] = own
			o := p.finish(cmd)
			contained(t, o)
			if !strings.Contains(o.text, "held: ") {
				t.Errorf("nothing was tried: %v", o)
			}
		})
		outside("workspace", p.workspace())
		outside("read only", p.readOnly())
		outside("one file", entries("root=read", p.file("ws/other", "x")+"=write"))
		outside("restricted reads", restricted)
	})
}

// TestMaskMistake: by a mistake a denied path is not masked. Even then the helper of file requests does not read it.
func TestMaskMistake(t *testing.T) {
	helper := filepath.Join(base, "codex-fs")
	if built := os.Getenv("CODEX_ESCAPE_PROGRAMS"); built != "" {
		text, err := os.ReadFile(filepath.Join(built, "codex-fs"))
		must(t, err)
		must(t, testutil.WriteProgram(helper, text))
	} else {
		must(t, testutil.Build(helper, "../../codex-fs"))
	}
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.use(launcherWithoutMounts)
		shown := p.file("shown", "the key that is shown")
		read := func(name string) string {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, entries("root=read", p.secret+"=deny"))
			cmd.Args = append(slices.Insert(cmd.Args[:len(cmd.Args)-1], 1, "--trusted-helper", "--reading"), helper)
			cmd.Stdin = strings.NewReader(`{"operation":"fs/readFile","params":{"path":"` + name + `"}}`)
			return p.finish(cmd).text
		}
		if got := read(shown); !strings.Contains(got, `"status":"ok"`) {
			t.Errorf("a file that is shown: got %s", got)
		}
		if got := read(p.secret); !strings.Contains(got, "Permission denied") {
			t.Errorf("a denied file: got %s", got)
		}
	})
}

// TestNamespaceMistake: by a mistake a namespace is the host's. Then nothing runs.
func TestNamespaceMistake(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.use(launcherWithMistakes)
		run := func(kind string) outcome {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, p.opened(), "print", "0")
			cmd.Env = append(cmd.Env, "CODEX_SANDBOX_MISTAKE="+kind)
			return p.finish(cmd)
		}
		if o := run("none"); o.text != "done\n" || o.code != 0 {
			t.Fatalf("without a mistake: got %v", o)
		}
		kinds := []string{"net", "pid", "ipc", "uts"}
		if backend == machine.Namespaces {
			kinds = append(kinds, "mnt", "user")
		}
		for _, kind := range kinds {
			if o := run(kind); o.code != exitFailed || strings.Contains(o.text, "done") {
				t.Errorf("%s is the host's: got %v, want exit code %d", kind, o, exitFailed)
			}
		}
	})
}

// TestKernelMistake: by a mistake the kernel's settings are on writable mounts. Even then a command of root changes none.
func TestKernelMistake(t *testing.T) {
	machine.NeedLandlock(t, plan.WallABI)
	each(t, []string{machine.Namespaces}, func(t *testing.T, p *place, backend string) {
		p.use(launcherWithMistakes)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		for _, profile := range []string{p.opened(), p.readOnly(), entries("minimal=read", filepath.Dir(p.attacker)+"=read", p.ws+"=write")} {
			cmd := p.command(ctx, backend, profile, "settings")
			cmd.Env = append(cmd.Env, "CODEX_SANDBOX_MISTAKE=kernel")
			contained(t, p.finish(cmd))
		}
	})
}

// TestFIFOs: a read-only mount does not stop writes to a FIFO; the second wall
// does.
func TestFIFOs(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		machine.NeedLandlock(t, plan.WallABI)
		var ends []*os.File
		make := func(name string) string {
			name = filepath.Join(p.dir, name)
			must(t, unix.Mkfifo(name, 0o666))
			must(t, os.Chmod(name, 0o666))
			// Open the FIFO for reading, like the service that it controls.
			f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
			must(t, err)
			ends = append(ends, f)
			t.Cleanup(func() { f.Close() })
			return name
		}
		outside, inside := make("outside"), make("ws/inside")
		works(t, p.run("", "", "fifo", outside))
		b := [64]byte{}
		_, err := ends[0].Read(b[:])
		must(t, err)
		works(t, p.run(backend, p.opened(), "fifo", inside))
		contained(t, p.run(backend, p.opened(), "fifo", outside))
		contained(t, p.run(backend, p.readOnly(), "fifo", outside))
		contained(t, p.run(backend, p.readOnly(), "fifo", inside))
		if n, err := unix.Read(int(ends[0].Fd()), b[:]); err != unix.EAGAIN {
			t.Errorf("the reader outside got %q, %v", b[:max(0, n)], err)
		}
	})
}

// TestEverydayWrites: the second wall forbids nothing that ordinary programs need.
func TestEverydayWrites(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		other := p.file("other/x", "")
		for name, profile := range map[string]string{
			"workspace":        entries("root=read", p.ws+"=write", filepath.Dir(other)+"=write"),
			"nested":           entries("root=read", p.dir+"=write", p.ws+"=write"),
			"restricted reads": entries("minimal=read", filepath.Dir(p.attacker)+"=read", p.ws+"=write", filepath.Dir(other)+"=write"),
		} {
			t.Run(name, func(t *testing.T) {
				for _, dir := range []string{p.ws, filepath.Dir(other)} {
					names, err := filepath.Glob(dir + "/*")
					must(t, err)
					for _, name := range names {
						must(t, os.RemoveAll(name))
					}
				}
				out, err := os.Create(filepath.Join(p.dir, "out"))
				must(t, err)
				defer out.Close()
				must(t, out.Chown(p.uid, p.uid))
				cmd := p.command(t.Context(), backend, profile, "everyday", filepath.Dir(other))
				cmd.Stdout, cmd.Stderr = out, out
				o := p.finish(cmd)
				text, err := os.ReadFile(out.Name())
				must(t, err)
				if o.text = string(text); strings.Contains(o.text, "held: ") || !strings.HasSuffix(o.text, "done\n") {
					t.Errorf(`got %v; want o.text without "held: ", o.text ending in %q`, o, "done\n")
				}
			})
		}
	})
}
