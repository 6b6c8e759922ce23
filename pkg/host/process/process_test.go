package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

// variants are the ways in which descendants are tracked.
var variants = map[string]Options{
	"plain":   {},
	"cgroups": {Cgroups: true},
}

// eachVariant runs f with a group of each kind. The second kind is the one that a server uses on a
// machine without cgroups.
func eachVariant(t *testing.T, f func(t *testing.T, g *Group)) {
	for name, opts := range variants {
		t.Run(name, func(t *testing.T) {
			s, err := NewSupervisor(opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			if opts.Cgroups && s.cgroups() == nil {
				t.Log("this machine lets the test make no cgroups: the fallback is tested twice")
			}
			f(t, s.NewGroup())
		})
	}
}

func shell(script string) Spec {
	return Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
}

// start starts a process and opens its gate.
func start(t testing.TB, g *Group, spec Spec) (*Process, *recorder) {
	t.Helper()
	r := newRecorder(t)
	p, err := g.Start(context.Background(), spec, r)
	if err != nil {
		t.Fatal(err)
	}
	p.OpenGate()
	return p, r
}

func await(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

func TestOutputExitAndClose(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for _, tt := range []struct {
			name, script, stdout, stderr string
			code                         int
		}{
			{"both streams", "echo out; echo err >&2; exit 3", "out\n", "err\n", 3},
			{"no output", "exit 0", "", "", 0},
			{"killed by a signal", "kill -9 $$", "", "", 137},
			{"default action of a signal", "kill -INT $$", "", "", 130},
			{"output right before the exit", "printf last", "last", "", 0},
		} {
			p, r := start(t, g, shell(tt.script))
			await(t, tt.name, p.Done())
			if r.text(Stdout) != tt.stdout || r.text(Stderr) != tt.stderr || r.code != tt.code {
				t.Errorf("%s: got r.text(Stdout) %q, r.text(Stderr) %q, r.code %d; want r.text(Stdout) %q, r.text(Stderr) %q, r.code %d", tt.name, r.text(Stdout), r.text(Stderr), r.code, tt.stdout, tt.stderr, tt.code)
			}
		}
	})
}

func TestTerminal(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("stty size; test -t 0 && test -t 2 && echo tty; read x; stty size; echo got $x; kill -9 $$")
		spec.TTY = true
		p, r := start(t, g, spec)
		await(t, "output", r.first)
		if err := p.Resize(50, 132); err != nil {
			t.Fatal(err)
		}
		p.Write([]byte("a\n"), nil, func(w WriteResult) {
			if w.Status != WriteAccepted {
				t.Errorf("write: %+v", w)
			}
		})
		await(t, "close", p.Done())
		got := r.text(PTY)
		for _, want := range []string{"24 80\r\n", "tty\r\n", "50 132\r\n", "got a\r\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
		if r.code != 137 {
			t.Errorf("exit code %d", r.code)
		}
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := s.NewGroup()
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Argv: []string{"/nonexistent/x"}, Dir: dir}, "No such file or directory (os error 2): program /nonexistent/x"},
		{Spec{Argv: []string{"none-such"}, Dir: dir}, "No such file or directory (os error 2): program none-such"},
		{Spec{Argv: []string{"sh"}, Dir: dir, Env: []string{"PATH=" + dir}}, "No such file or directory (os error 2): program sh"},
		{Spec{Argv: []string{"/bin/true"}, Dir: dir + "/none"}, "No such file or directory (os error 2): working directory " + dir + "/none"},
		{Spec{Argv: []string{"/bin/true"}, Dir: plain}, "Not a directory (os error 20): working directory " + plain},
		{Spec{Argv: []string{dir}, Dir: dir}, "Permission denied (os error 13): program " + dir},
		{Spec{Argv: []string{plain}, Dir: dir}, "Permission denied (os error 13): program " + plain},
		{Spec{Argv: []string{""}, Dir: dir}, ErrNoProgram.Error()},
		{Spec{Argv: []string{"a\x00b"}, Dir: dir}, ErrNUL.Error()},
		{Spec{Argv: []string{"true"}, Dir: dir, Env: []string{"A=\x00"}}, ErrNUL.Error()},
	} {
		for _, tty := range []bool{false, true} {
			tt.spec.TTY = tty
			if _, err := g.Start(context.Background(), tt.spec, newRecorder(t)); err == nil || err.Error() != tt.want {
				t.Errorf("%q (tty %v): %v; want %s", tt.spec.Argv, tty, err, tt.want)
			}
		}
	}
}

func TestProgramIsFoundInTheChildsPath(t *testing.T) {
	dir := t.TempDir()
	if err := testutil.WriteProgram(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho $0\n")); err != nil {
		t.Fatal(err)
	}
	eachVariant(t, func(t *testing.T, g *Group) {
		for _, path := range []string{"PATH=/none:" + dir, "PATH=.", "PATH="} {
			p, r := start(t, g, Spec{Argv: []string{"tool"}, Dir: dir, Env: []string{path}})
			await(t, "close", p.Done())
			if want := filepath.Join(dir, "tool") + "\n"; r.text(Stdout) != want {
				t.Errorf("%s: got %q, want %q", path, r.text(Stdout), want)
			}
		}
		p, r := start(t, g, Spec{Argv: []string{"sh", "-c", "exit 4"}, Dir: dir})
		await(t, "close", p.Done())
		if r.code != 4 {
			t.Errorf("without PATH: %d", r.code)
		}
	})
}

func TestChildGetsThreeDescriptorsAndItsOwnSession(t *testing.T) {
	// The program that started this one has left a descriptor open.
	inherited, err := syscall.Dup(0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	eachVariant(t, func(t *testing.T, g *Group) {
		for _, tty := range []bool{false, true} {
			spec := shell(`ls /proc/self/fd | tr '\n' ' '; set -- $(cat /proc/$$/stat); echo $(($1-$5)) $(($1-$6)); grep -E 'Sig(Ign|Blk)' /proc/self/status`)
			spec.TTY = tty
			p, r := start(t, g, spec)
			await(t, "close", p.Done())
			got := strings.ReplaceAll(r.text(Stdout)+r.text(PTY), "\r", "")
			want := "0 1 2 3 0 0\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
			if got != want {
				t.Errorf("tty %v: %q", tty, got)
			}
		}
	})
}

func TestArg0(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		name := "renamed"
		for _, tty := range []bool{false, true} {
			spec := shell("echo $0")
			spec.Arg0, spec.TTY = &name, tty
			p, r := start(t, g, spec)
			await(t, "close", p.Done())
			if got := strings.TrimSpace(r.text(Stdout) + r.text(PTY)); got != name {
				t.Errorf("tty %v: %q", tty, got)
			}
		}
	})
}

// TestOutputIsNumberedBeforeTheExit repeatedly runs a process that writes and ends at once, with
// and without another process that keeps the output open.
func TestOutputIsNumberedBeforeTheExit(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for i := range 60 {
			spec := shell("head -c 200000 /dev/zero | tr '\\0' x; printf end")
			want := 200003
			switch i % 3 {
			case 1:
				spec = shell("sleep 30 & printf held; exit 5")
				want = 4
			case 2:
				spec = shell("printf end")
				spec.TTY = true
				want = 3
			}
			p, r := start(t, g, spec)
			await(t, "exit", r.exit)
			r.mu.Lock()
			n := 0
			for _, b := range r.out {
				n += b.Len()
			}
			r.mu.Unlock()
			if n != want {
				t.Fatalf("run %d: %d bytes before the exit, want %d", i, n, want)
			}
			p.kill()
			await(t, "close", p.Done())
		}
	})
}

func TestTerminateReachesDescendants(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for name, script := range map[string]string{
			"child":                  "sleep 1000 & echo $! ; wait",
			"own session":            "setsid sh -c 'echo $$; exec sleep 1000' & wait",
			"own session, grandson":  "setsid sh -c '(echo $$; sleep 1000; :); :' & wait",
			"ignores what it can":    "trap '' INT TERM HUP; sh -c 'echo $$; sleep 1000; :'; :",
			"leader ended before it": "(trap '' HUP; sh -c 'echo $$; exec sleep 1000') & exec 3>&1; exit 0",
		} {
			p, r := start(t, g, shell(script))
			await(t, "output of "+name, r.first)
			if strings.HasPrefix(name, "leader") {
				await(t, "exit", r.exit)
			}
			running := p.Terminate()
			if want := !strings.HasPrefix(name, "leader"); running != want {
				t.Errorf("%s: running %v", name, running)
			}
			await(t, "close of "+name, p.Done())
			if running && r.code != 137 {
				t.Errorf("%s: exit code %d", name, r.code)
			}
			if p.Terminate() {
				t.Errorf("%s: it runs after the end", name)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(r.text(Stdout)))
			if err != nil {
				t.Fatal(err)
			}
			awaitGone(t, name, pid)
		}
	})
}

// awaitGone waits until a process has ended. It polls, because the kernel notifies only the parent.
func awaitGone(t testing.TB, name string, pid int) {
	t.Helper()
	testutil.Eventually(t.Context(), t, fmt.Sprintf("%s: the end of %d", name, pid), func() (string, bool) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		e, ok := parseStat(pid, string(text))
		return string(text), errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || ok && e.zombie
	})
}

func TestGroupCloseEndsWhatClosedProcessesLeft(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		p, r := start(t, g, shell("sleep 1000 >/dev/null 2>&1 & echo $!"))
		await(t, "close", p.Done())
		pid, err := strconv.Atoi(strings.TrimSpace(r.text(Stdout)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatalf("the daemon ended with its parent: %v", err)
		}
		g.Close()
		awaitGone(t, "daemon", pid)
		if _, err := g.Start(context.Background(), shell("true"), newRecorder(t)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("start in a closed group: %v", err)
		}
	})
}

func TestBackpressure(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		r := newRecorder(t)
		r.block = make(chan struct{})
		p, err := g.Start(context.Background(), shell("yes"), r)
		if err != nil {
			t.Fatal(err)
		}
		p.OpenGate()
		await(t, "output", r.first)
		got, err := p.Read(context.Background(), 0, nil, 0)
		if err != nil || len(got.Chunks) != 1 {
			t.Errorf("read while the sink blocks: %d chunks, %v", len(got.Chunks), err)
		}
		got.Release()
		if !p.Terminate() {
			t.Error("it was not running")
		}
		close(r.block)
		await(t, "close", p.Done())
	})
}

func TestLongPoll(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("read a; echo $a; read b; exit 7")
		spec.PipeStdin = true
		p, _ := start(t, g, spec)
		ctx := context.Background()
		if r, err := p.Read(ctx, 0, nil, 10*time.Millisecond); err != nil || len(r.Chunks) > 0 || r.NextSeq != 1 {
			t.Errorf("an early read: %+v, %v", r, err)
		}
		got := make(chan ReadResult, 1)
		go func() {
			r, _ := p.Read(ctx, 0, nil, time.Minute)
			got <- r
		}()
		p.Write([]byte("hello\n"), nil, func(WriteResult) {})
		if r := <-got; len(r.Chunks) != 1 || string(r.Chunks[0].Data) != "hello\n" || r.Exited {
			t.Errorf("output: %+v", r)
		}
		go func() {
			r, _ := p.Read(ctx, 1, nil, time.Minute)
			got <- r
		}()
		p.Write([]byte("\n"), nil, func(WriteResult) {})
		if r := <-got; !r.Exited || *r.ExitCode != 7 {
			t.Errorf("exit: %+v", r)
		}
		await(t, "close", p.Done())
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if r, err := p.Read(cancelled, 99, nil, time.Minute); err != nil || !r.Closed {
			t.Errorf("after the close nothing waits: %+v, %v", r, err)
		}
	})
}

func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	n := testutil.Rounds(200, 1000, 10_000)
	eachVariant(t, func(t *testing.T, g *Group) {
		before := countFDs(t)
		var wg sync.WaitGroup
		slots := make(chan struct{}, 16)
		for range n {
			slots <- struct{}{}
			p, _ := start(t, g, Spec{Argv: []string{"/bin/true"}, Dir: "/"})
			wg.Go(func() {
				<-p.Done()
				p.Release()
				<-slots
			})
		}
		wg.Wait()
		g.Close()
		if after := countFDs(t); after > before+2 {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		for _, e := range processTable() {
			if e.parent == os.Getpid() && e.zombie {
				t.Errorf("zombie %d", e.pid)
			}
		}
	})
}

// TestFailedStartsLeaveNothing: if the system cannot start a program, no descriptor and no cgroup
// remains.
func TestFailedStartsLeaveNothing(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := testutil.WriteProgram(script, []byte("#!/missing/interpreter\n")); err != nil {
		t.Fatal(err)
	}
	eachVariant(t, func(t *testing.T, g *Group) {
		fail := func(n int) {
			for i := range n {
				spec := []Spec{{Argv: []string{script}, Dir: "/"}, {Argv: []string{"/bin/true"}, Dir: script + "/missing"}}[i%2]
				if _, err := g.Start(context.Background(), spec, newRecorder(t)); err == nil {
					t.Fatalf("%v in %s was started", spec.Argv, spec.Dir)
				}
			}
		}
		fail(2) // descriptors that are opened only once
		before := countFDs(t)
		fail(20)
		if after := countFDs(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		if entries, err := os.ReadDir(g.cg.path); g.cg.path != "" && err == nil {
			for _, e := range entries {
				if e.IsDir() {
					t.Errorf("the cgroup %s is left", e.Name())
				}
			}
		}
	})
}

func countFDs(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func BenchmarkStartTrue(b *testing.B) {
	for name, opts := range variants {
		b.Run(name, func(b *testing.B) {
			s, err := NewSupervisor(opts)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			g := s.NewGroup()
			for b.Loop() {
				p, _ := start(b, g, Spec{Argv: []string{"/bin/true"}, Dir: "/"})
				<-p.Done()
			}
		})
	}
}
