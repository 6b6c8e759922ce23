package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/host/limiter"
	"golang.org/x/sys/unix"
)

// TestMain lets this test program act as the limiter of these tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == limiter.Arg {
		_ = limiter.Run(os.Args[2:])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func limitedGroup(t *testing.T, limited bool) *Group {
	t.Helper()
	opts := Options{}
	if limited {
		opts.Limiter = []string{os.Args[0], limiter.Arg}
	}
	s, err := NewSupervisor(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.NewGroup()
}

// Without a cgroup of its own, a process that was killed while the kernel has killed in the cgroup of this program ran out of
// memory. A process that exits, or is killed at another time, did not.
func TestCauseOfAKillForMemory(t *testing.T) {
	events := filepath.Join(t.TempDir(), "memory.events")
	for _, tt := range []struct {
		script string
		cause  Cause
	}{
		{"kill -KILL $$", CauseSignal},
		{"echo oom_kill 8 > " + events + "; kill -KILL $$", CauseMemory},
		{"echo oom_kill 9 > " + events + "; kill -TERM $$", CauseSignal},
		{"echo oom_kill 9 > " + events + "; exit 137", CauseExit},
	} {
		if err := os.WriteFile(events, []byte("oom 1\noom_kill 7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		g := limitedGroup(t, false)
		g.s.kills = memoryKills{events}
		p, r := start(t, g, shell(tt.script))
		await(t, "the end", p.Done())
		if r.end.Cause != tt.cause {
			t.Errorf("%s: got cause %d, want %d", tt.script, r.end.Cause, tt.cause)
		}
	}
}

// TestCauses: the exit of each process has the reason why it ended.
func TestCauses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	g := limitedGroup(t, true)
	for _, tt := range []struct {
		name, script string
		limits       Limits
		code         int
		cause        Cause
	}{
		{"an exit", "exit 3", Limits{}, 3, CauseExit},
		{"an exit with limits that are not reached", "exit 3", Limits{WallTime: time.Hour, Output: 1, CPUTime: time.Hour}, 3, CauseExit},
		{"a status that looks like a signal", "exit 137", Limits{WallTime: time.Hour}, 137, CauseExit},
		{"a signal", "kill -KILL $$", Limits{WallTime: time.Hour}, 137, CauseSignal},
		{"too much time", "sleep 600 & exec sleep 600", Limits{WallTime: time.Millisecond}, 137, CauseTimeout},
		{"time over while a descendant holds the output", "(trap '' TERM; sleep 600) & exit 0", Limits{WallTime: 300 * time.Millisecond}, 0, CauseExit},
		{"as much output as is allowed", "printf 12345", Limits{Output: 5}, 0, CauseExit},
		{"too much output", "printf 12345; printf 6 >&2; sleep 600", Limits{Output: 5}, 137, CauseOutput},
		{"too much output without an end", "while :; do echo 12345; done", Limits{Output: 5}, 137, CauseOutput},
		{"too large a file", `f=$(mktemp) && (printf 123 > $f && head -c 4096 /dev/zero >> $f); e=$?; rm -f $f; exit $e`,
			Limits{FileSize: 1024}, 128 + int(syscall.SIGXFSZ), CauseExit},
		{"open files", "exit $(ulimit -n)", Limits{OpenFiles: 77}, 77, CauseExit},
		{"processor time", "while :; do :; done", Limits{CPUTime: time.Second}, 128 + int(syscall.SIGXCPU), CauseCPU},
		{"processor time of a program that ignores the signal", "trap '' XCPU; while :; do :; done", Limits{CPUTime: time.Second}, 137, CauseCPU},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := shell(tt.script)
			spec.Limits = tt.limits
			p, r := start(t, g, spec)
			await(t, "the end", p.Done())
			if r.end.Code != tt.code || r.end.Cause != tt.cause {
				t.Errorf("it ended with %d, cause %d, %+v; want %d, %d", r.end.Code, r.end.Cause, r.end.Usage, tt.code, tt.cause)
			}
			n := len(r.text(Stdout)) + len(r.text(Stderr))
			if limit := tt.limits.Output; limit > 0 && uint64(n) > limit {
				t.Errorf("%d bytes of output", n)
			}
			if r.end.Usage.Wall <= 0 || r.end.Usage.MaxRSS == 0 {
				t.Errorf("it used %+v", r.end.Usage)
			}
		})
	}
}

func TestCauseOfTheEndOfOthers(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := s.NewGroup()
	p, terminated := start(t, g, shell("sleep 600"))
	p.Terminate()
	await(t, "the end", p.Done())
	_, left := start(t, g, shell("sleep 600"))
	g.Close()
	_, stopped := start(t, s.NewGroup(), shell("sleep 600"))
	before := s.NewGroup()
	_, stopping := start(t, before, shell("sleep 600"))
	s.Stopping()
	before.Close()
	s.Close()
	for _, tt := range []struct {
		cause Cause
		r     *recorder
	}{{CauseTerminated, terminated}, {CauseGroupClosed, left}, {CauseSupervisorClosed, stopped}, {CauseSupervisorClosed, stopping}} {
		if tt.r.end.Cause != tt.cause || tt.r.end.Code != 137 {
			t.Errorf("it ended with %d, cause %d; want %d", tt.r.end.Code, tt.r.end.Cause, tt.cause)
		}
	}
}

// TestUsage: the processor time of descendants counts.
func TestUsage(t *testing.T) {
	g := limitedGroup(t, false)
	p, r := start(t, g, shell("(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) & wait"))
	await(t, "the end", p.Done())
	if u := r.end.Usage; u.User <= 0 || u.User > u.Wall+time.Second {
		t.Errorf("it used %+v", u)
	}
}

// TestLimitsAreInherited: a limit applies to the program and to the processes that it starts. Its
// name, directory, environment and arguments are those of the spec.
func TestLimitsAreInherited(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	g := limitedGroup(t, true)
	name := "a name"
	p, r := start(t, g, Spec{
		Argv: []string{"sh", "-c", `echo "$0|$1|$A|$PWD"; sh -c 'ulimit -n; ulimit -Hn'; ls /dev/fd/ | tr '\n' ' '`, "zero", "one"}, Arg0: &name,
		Dir: "/usr", Env: []string{"PATH=/usr/bin:/bin", "A=b"}, Limits: Limits{OpenFiles: 99},
	})
	await(t, "the end", p.Done())
	got := strings.Fields(r.text(Stdout))
	if len(got) < 6 || strings.Join(got[:6], " ") != "zero|one|b|/usr 99 99 0 1 2" || len(got) > 7 {
		t.Errorf(`got %q; want len(got) at least 6, got[:6] "zero|one|b|/usr 99 99 0 1 2", len(got) at most 7`, got)
	}
	if held := p.Held(); len(held) != 1 || held[0] != (Held{LimitOpenFiles, 99, HeldByRlimit, ""}) {
		t.Errorf(`got %v; want len(held) 1, held[0] Held{LimitOpenFiles, 99, HeldByRlimit, ""}`, held)
	}
}

// TestLimitedStartErrors: starts with and without limits have the same errors.
func TestLimitedStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []Spec{
		{Argv: []string{"/none"}, Dir: "/"}, {Argv: []string{file}, Dir: "/"}, {Argv: []string{"/bin/true"}, Dir: "/none"},
		{Argv: []string{"none"}, Dir: "/"}, {Argv: []string{"/bin"}, Dir: dir},
	} {
		_, want := limitedGroup(t, true).Start(context.Background(), spec, newRecorder(t))
		spec.Limits = Limits{OpenFiles: 100}
		g := limitedGroup(t, true)
		_, err := g.Start(context.Background(), spec, newRecorder(t))
		if err == nil || want == nil || err.Error() != want.Error() || errors.Is(err, fs.ErrNotExist) != errors.Is(want, fs.ErrNotExist) {
			t.Errorf("%v: %v, want %v", spec.Argv, err, want)
		}
		g.Close() // waits for no process
	}
}

// TestLimitsThatMissDescendants: without a cgroup, the limits that this program enforces have a
// reason that says which descendants they miss. The limits of a launcher miss none, because its
// sandbox ends with it.
func TestLimitsThatMissDescendants(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for launcher, want := range map[bool]string{false: missesReason, true: ""} {
		s, err := NewSupervisor(Options{})
		if err != nil {
			t.Fatal(err)
		}
		spec := shell("exit 0")
		spec.Limits, spec.ExitGracePeriod = Limits{WallTime: time.Hour, Output: 5}, launcher
		p, _ := start(t, s.NewGroup(), spec)
		await(t, "the end", p.Done())
		if held := p.Held(); len(held) != 2 || held[0] != (Held{LimitWallTime, uint64(time.Hour), HeldByServer, want}) || held[1].Reason != want {
			t.Errorf("launcher %v: %v", launcher, held)
		}
		s.Close()
	}
}

func TestRequiredLimits(t *testing.T) {
	spec := shell("exit 0")
	spec.Limits = Limits{OpenFiles: 100, CPUTime: time.Hour, Require: true}
	_, err := limitedGroup(t, false).Start(context.Background(), spec, newRecorder(t))
	if missing, ok := errors.AsType[*LimitError](err); !ok || !strings.Contains(missing.Error(), LimitOpenFiles) {
		t.Errorf("a limit that cannot be held: %v", err)
	}
	p, _ := start(t, limitedGroup(t, true), spec)
	await(t, "the end", p.Done())
	spec.Limits.Require = false
	p, _ = start(t, limitedGroup(t, false), spec)
	await(t, "the end", p.Done())
	if held := p.Held(); len(held) != 2 || held[1].By != HeldByNone || held[1].Reason == "" {
		t.Errorf(`got %v; want len(held) 2, held[1].By %v, held[1].Reason other than ""`, held, HeldByNone)
	}
}

// TestRequiredLimitsThatMissDescendants: without a cgroup and a sandbox, a process with a required
// limit of time or output is not started. If the system refuses the cgroup, the process must not be
// started without one, as it would be without required limits.
func TestRequiredLimitsThatMissDescendants(t *testing.T) {
	launcher := shell("exit 3")
	launcher.ExitGracePeriod = true
	for _, tt := range []struct {
		name   string
		cgroup bool // one in which the system starts nothing
		spec   Spec
		limits Limits
		want   string // of the error; empty: it starts
	}{
		{"time", false, shell("exit 3"), Limits{WallTime: time.Hour, Require: true}, "the limit of time cannot be enforced for all descendants"},
		{"output", false, shell("exit 3"), Limits{Output: 5, Require: true}, "the limit of output cannot be enforced for all descendants"},
		{"both", false, shell("exit 3"), Limits{WallTime: time.Hour, Output: 5, Require: true}, "the limit of time and of output cannot be enforced for all descendants: " + missesReason + ": run the command in a sandbox"},
		{"a launcher", false, launcher, Limits{WallTime: time.Hour, Output: 5, Require: true}, ""},
		{"not required", false, shell("exit 3"), Limits{WallTime: time.Hour, Output: 5}, ""},
		{"others", false, shell("exit 3"), Limits{CPUTime: time.Hour, OpenFiles: 100, Require: true}, ""},
		{"a cgroup that is refused", true, shell("exit 3"), Limits{WallTime: time.Hour, Require: true}, "Bad file descriptor"},
		{"a cgroup that is refused, not required", true, shell("exit 3"), Limits{WallTime: time.Hour}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := limitedGroup(t, true)
			if tt.cgroup {
				g.s.dirs.Do(func() { g.s.root = &cgroupRoot{path: t.TempDir()} })
			}
			tt.spec.Limits = tt.limits
			r := newRecorder(t)
			p, err := g.Start(context.Background(), tt.spec, r)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p.OpenGate()
			await(t, "the end", p.Done())
			if r.end.Code != 3 {
				t.Errorf("it ended with %d", r.end.Code)
			}
		})
	}
}

// TestShortage: if descriptors are missing for a start, the error says so, and the next start
// succeeds.
func TestShortage(t *testing.T) {
	g := limitedGroup(t, false)
	p, _ := start(t, g, shell("true")) // what is opened once is open
	await(t, "the end", p.Done())
	var err error
	withDescriptors(t, 2, func(int) { _, err = g.Start(context.Background(), shell("true"), newRecorder(t)) })
	short, ok := errors.AsType[*ShortageError](err)
	if !ok || !errors.Is(err, syscall.EMFILE) || !strings.Contains(short.Error(), "ulimit -n") {
		t.Errorf("with too few descriptors: %v", err)
	}
	p, r := start(t, g, shell("exit 3"))
	await(t, "the end", p.Done())
	if r.end.Code != 3 {
		t.Errorf("after that: %+v", r.end)
	}
}

// TestNoDescriptorAbove: if the descriptors of a start have the highest possible numbers, the error
// says that descriptors are missing: reordering them needs higher numbers.
func TestNoDescriptorAbove(t *testing.T) {
	g := limitedGroup(t, false)
	p, _ := start(t, g, shell("true")) // what is opened once is open
	await(t, "the end", p.Done())
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	withDescriptors(t, 50, func(limit int) {
		fd, failed := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, limit-1)
		if failed != nil {
			t.Errorf("got %v, want nil", failed)
			return
		}
		highest := os.NewFile(uintptr(fd), "highest")
		defer highest.Close()
		spec := shell("true")
		spec.ExtraFiles = []*os.File{highest}
		_, err = g.Start(context.Background(), spec, newRecorder(t))
	})
	if _, ok := errors.AsType[*ShortageError](err); !ok || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("above the limit: %v", err)
	}
}

// withDescriptors calls f while this program may open only left more descriptors. It passes f the
// limit: the first number that no descriptor may have.
func withDescriptors(t *testing.T, left int, f func(limit int)) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	least, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	few := syscall.Rlimit{Cur: uint64(least.Fd()) + uint64(left), Max: old.Max}
	_ = least.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	f(int(few.Cur))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
}
