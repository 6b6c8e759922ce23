package process

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/host/standby"
	"golang.org/x/sys/unix"
)

// standbyEnv makes TestStandbyProgram the program of a standby.
const standbyEnv = "PROCESS_TEST_STANDBY"

// TestStandbyProgram is a standby that becomes /bin/sh with the arguments of its
// order. It is the program of other tests, and does nothing in place of one.
func TestStandbyProgram(t *testing.T) {
	if os.Getenv(standbyEnv) == "" {
		return
	}
	socket, err := strconv.Atoi(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	order, err := standby.Receive(socket)
	if err != nil {
		os.Exit(0)
	}
	for fd, file := range order.Files {
		if order.Cgroup && fd == len(order.Files)-1 {
			break
		}
		if err := unix.Dup3(file, fd, 0); err != nil {
			os.Exit(1)
		}
	}
	if order.Terminal {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			os.Exit(1)
		}
	}
	_ = syscall.Exec("/bin/sh", append([]string{"sh"}, order.Args...), []string{"PATH=/usr/bin:/bin"})
	os.Exit(1)
}

// standbyOf starts a standby.
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

// TestStandby: a process that a standby carries out is like any other.
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
			t.Errorf("%q, %q, %d", got, rec.text(Stderr), rec.code)
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
	s.mu.Lock()
	known := s.pids[pid]
	s.mu.Unlock()
	if known {
		t.Error("the standby is still known")
	}
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
			t.Errorf("%q, %d", got, r.code)
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

// TestStandbyThatCannotBeUsed: the program is started in its place.
func TestStandbyThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *Standby){
		"killed": func(t *testing.T, st *Standby) {
			_ = syscall.Kill(st.pid, syscall.SIGKILL)
			await(t, "the end of the standby", st.Ended())
		},
		// It gets the order and ends before it reads it.
		"killed meanwhile": func(_ *testing.T, st *Standby) {
			_ = syscall.Kill(st.pid, syscall.SIGSTOP)
			go func() {
				// The order is in the socket, or will find it closed.
				_ = syscall.Kill(st.pid, syscall.SIGKILL)
			}()
		},
		// Its end has not been noticed.
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

// TestStandbyKeepsTheErrorOfADirectory: what a start reports of a working directory
// does not depend on who carries it out, and the standby ends.
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
