package process

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// standbyEnv makes TestStandbyProgram act as a standby.
const standbyEnv = "PROCESS_TEST_STANDBY"

// TestStandbyProgram acts as a standby that becomes /bin/sh with the arguments
// of its job. Other tests start it; when run as a test it does nothing.
func TestStandbyProgram(t *testing.T) {
	if os.Getenv(standbyEnv) == "" {
		return
	}
	socket, err := strconv.Atoi(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	job, err := warmstart.Receive(socket)
	if err != nil {
		os.Exit(0)
	}
	report, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, reportFD)
	if err != nil {
		os.Exit(1)
	}
	for fd, file := range job.Files {
		if job.Cgroup && fd == len(job.Files)-1 {
			break
		}
		if err := unix.Dup3(file, fd, 0); err != nil {
			os.Exit(1)
		}
	}
	if job.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			os.Exit(1)
		}
	}
	if len(job.Args) > 0 && job.Args[0] == reportFirst {
		reportAndWait(report)
	}
	_ = syscall.Exec("/bin/sh", append([]string{"sh"}, job.Args...), []string{"PATH=/usr/bin:/bin"})
	os.Exit(1)
}

// TestStandbyWithFewDescriptors: however few descriptors are left, a start with a standby does not
// close an unrelated descriptor, and uses its cgroup.
func TestStandbyWithFewDescriptors(t *testing.T) {
	const most = 12 // more than such a start needs
	eachVariant(t, func(t *testing.T, g *Group) {
		p, _ := start(t, g, shell("true")) // descriptors that are opened only once are now open
		await(t, "the end", p.Done())
		started := 0
		for left := range most {
			st := standbyOf(t, g.s)
			spec, r := shell("echo ran"), newRecorder(t)
			spec.Standby = st
			var err error
			withDescriptors(t, left, func(int) { p, err = g.Start(context.Background(), spec, r) })
			st.Close()
			if err != nil {
				if !errors.Is(err, syscall.EMFILE) {
					t.Errorf("with %d descriptors: %v", left, err)
				}
				await(t, "the end", st.Ended())
				continue
			}
			started++
			p.OpenGate()
			await(t, "the end", p.Done())
			if out := r.text(Stdout); out != "ran\n" || r.end.Code != 0 {
				t.Errorf("with %d descriptors: %q, %+v", left, out, r.end)
			}
		}
		if started == 0 || started == most {
			t.Errorf("%d of %d were started", started, most)
		}
	})
}

// reportFirst is the argument with which TestStandbyProgram reports 7, as the launcher
// does, and ends with 9 when its descriptor 3 reaches the end of file.
const reportFirst = "report"

// reportFD is the lowest possible descriptor of the socket in the standby, above those of a
// job.
const reportFD = 100

func reportAndWait(socket int) {
	// The job's descriptors have duplicates with other numbers.
	if errors.Join(unix.CloseRange(0, 2, 0), unix.CloseRange(4, reportFD-1, 0)) != nil {
		os.Exit(1)
	}
	if warmstart.Report(socket, 7, warmstart.Usage{User: 5e6, MaxRSS: 1}) != nil {
		os.Exit(1)
	}
	_, _ = unix.Read(3, make([]byte, 1))
	os.Exit(9)
}

// reporting starts a process whose standby reports. It ends when w is closed.
func reporting(t *testing.T, g *Group) (p *Process, r *recorder, w *os.File) {
	t.Helper()
	read, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p, r = start(t, g, Spec{
		Argv: []string{"/bin/sh", reportFirst}, Dir: "/", ExtraFiles: []*os.File{read}, Standby: standbyOf(t, g.s),
		ExitGracePeriod: true, // as for the launcher, which is in no cgroup of the process
	})
	return p, r, w
}

// TestStandbyReport: a process has exited and closed when its standby has reported the exit code.
// Done waits for the standby's end, and no signal is sent to it any more.
func TestStandbyReport(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		p, r, w := reporting(t, g)
		await(t, "the exit", r.exit)
		if r.code != 7 || p.Terminate() {
			t.Errorf("exit code %d, or it was still running", r.code)
		}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for !p.State().Closed {
			if _, err := p.Read(t.Context(), 1, nil, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-p.Done():
			t.Error("done before the standby has ended")
		default:
		}
		_ = w.Close()
		await(t, "the end", p.Done())
		if r.closed == 0 {
			t.Error("done before it was closed")
		}
		notLeft(t, g.s, p.Pid())
		if n := len(g.s.ending); n != 0 {
			t.Errorf("%d processes are still ending", n)
		}
	})
}

// TestReportsOfMany: if too many processes that have reported still exist, the exit of
// the next one is reported when it ends.
func TestReportsOfMany(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range maxEnding {
		s.ending <- struct{}{}
	}
	p, r, w := reporting(t, s.NewGroup())
	_ = w.Close()
	await(t, "the end", p.Done())
	if r.code != 9 || len(s.ending) != maxEnding {
		t.Errorf("exit code %d; %d of %d are ending", r.code, len(s.ending), maxEnding)
	}
}

// TestCloseWithReport: closing a group ends a standby that has reported and does not end by itself.
func TestCloseWithReport(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		p, r, w := reporting(t, g)
		defer w.Close()
		await(t, "the exit", r.exit)
		g.Close()
		await(t, "the end", p.Done())
		if r.code != 7 {
			t.Errorf("exit code %d", r.code)
		}
		notLeft(t, g.s, p.Pid())
	})
}

// standbyOf starts a standby of the test program.
func standbyOf(t *testing.T, s *Supervisor) *Standby {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.StartStandby(Spec{
		Argv: []string{self, "-test.run=^TestStandbyProgram$"}, Dir: "/", Env: []string{standbyEnv + "=1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

// TestStandby: a process that runs in a standby behaves like any other.
func TestStandby(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		st := standbyOf(t, g.s)
		spec := shell("echo pid $$; read x; echo got $x; echo err >&2; echo four >&3; exit 7")
		spec.PipeStdin, spec.ExtraFiles, spec.Standby = true, []*os.File{w}, st
		p, rec := start(t, g, spec)
		_ = w.Close()
		if p.Pid() != st.pid {
			t.Errorf("the process %d is not the standby %d", p.Pid(), st.pid)
		}
		p.Write([]byte("a\n"), nil, func(WriteResult) {})
		await(t, "close", p.Done())
		want := "pid " + strconv.Itoa(st.pid) + "\ngot a\n"
		if got := rec.text(Stdout); got != want || rec.text(Stderr) != "err\n" || rec.code != 7 {
			t.Errorf("got %q, rec.text(Stderr) %q, rec.code %d; want %q, rec.text(Stderr) %q, rec.code 7", got, rec.text(Stderr), rec.code, want, "err\n")
		}
		text := make([]byte, 8)
		if n, err := r.Read(text); string(text[:n]) != "four\n" {
			t.Errorf("descriptor 3 got %q, %v", text[:n], err)
		}
		notLeft(t, g.s, st.pid)
	})
}

// notLeft checks that a standby was reaped and is forgotten.
func notLeft(t *testing.T, s *Supervisor, pid int) {
	t.Helper()
	// It is removed only after its end was reported to all waiters.
	testutil.Eventually(context.Background(), t, "the standby is not known", func() (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return "it is", !s.pids[pid]
	})
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		t.Error("the standby is still there")
	}
}

func TestStandbyTerminal(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("test -t 0 && echo tty; echo x > /dev/tty; read x; stty size; kill -9 $$")
		spec.TTY, spec.Standby = true, standbyOf(t, g.s)
		p, r := start(t, g, spec)
		await(t, "output", r.first)
		if err := p.Resize(50, 132); err != nil {
			t.Fatal(err)
		}
		p.Write([]byte("\n"), nil, func(WriteResult) {})
		await(t, "close", p.Done())
		if got := r.text(PTY); !strings.Contains(got, "tty\r\n") || !strings.Contains(got, "x\r\n") || !strings.Contains(got, "50 132") || r.code != 137 {
			t.Errorf(`got %q, r.code %d; want a text with %q, a text with %q, a text with "50 132", r.code 137`, got, r.code, "tty\r\n", "x\r\n")
		}
	})
}

func TestStandbyChild(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st := standbyOf(t, s)
	spec := shell("exit 3")
	spec.Standby = st
	c, err := s.StartChild(spec)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := c.Wait(); c.pid != st.pid || err != nil || status.ExitStatus() != 3 {
		t.Errorf("%d, not %d: %v, %v", c.pid, st.pid, status, err)
	}
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		_ = f.Close()
	}
	notLeft(t, s, st.pid)
}

// TestStandbyThatCannotBeUsed: if a standby cannot be used, the program is started instead.
func TestStandbyThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *Standby){
		"killed": func(t *testing.T, st *Standby) {
			_ = syscall.Kill(st.pid, syscall.SIGKILL)
			await(t, "the end of the standby", st.Ended())
		},
		// The standby gets the job, but ends before it reads it.
		"killed meanwhile": func(_ *testing.T, st *Standby) {
			_ = syscall.Kill(st.pid, syscall.SIGSTOP)
			go func() {
				// The job is already in the socket, or the socket is closed when the job is sent.
				_ = syscall.Kill(st.pid, syscall.SIGKILL)
			}()
		},
		// The supervisor has not noticed the standby's end.
		"just killed": func(t *testing.T, st *Standby) {
			st.mu.Lock()
			_ = syscall.Kill(st.pid, syscall.SIGKILL)
			awaitEnd(st.pid, -1)
			st.mu.Unlock()
		},
		"closed": func(_ *testing.T, st *Standby) { st.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSupervisor(Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			st := standbyOf(t, s)
			spoil(t, st)
			spec := shell("exit 7")
			spec.Standby = st
			p, r := start(t, s.NewGroup(), spec)
			await(t, "close", p.Done())
			if r.code != 7 || p.Pid() == st.pid {
				t.Errorf("%d by the process %d; the standby was %d", r.code, p.Pid(), st.pid)
			}
			await(t, "the end of the standby", st.Ended())
		})
	}
}

// TestStandbyKeepsTheErrorOfADirectory: the error about a working directory is the
// same with and without a standby, and the standby ends.
func TestStandbyKeepsTheErrorOfADirectory(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spec := shell("exit 0")
	spec.Dir = "/none"
	_, want := s.NewGroup().Start(t.Context(), spec, newRecorder(t))
	spec.Standby = standbyOf(t, s)
	_, got := s.NewGroup().Start(t.Context(), spec, newRecorder(t))
	if want == nil || got == nil || got.Error() != want.Error() {
		t.Errorf("%v, want %v", got, want)
	}
	await(t, "the end of the standby", spec.Standby.Ended())
}
