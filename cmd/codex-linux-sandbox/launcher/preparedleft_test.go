package launcher

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestPreparedAndSignals: a signal that comes to the launcher's group while a sandbox waits, and that
// does not end the launcher, does not reach the command of a later order. One that comes then does.
func TestPreparedAndSignals(t *testing.T) {
	const passed = "trap 'echo passed; exit 3' USR1; kill -USR1 1; while :; do :; done"
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT, orphaned} {
		for _, tt := range []struct{ script, want string }{{"sleep 0.1; echo end", "end\n"}, {passed, "passed\n"}} {
			got, used := "", false
			for try := 0; try < calmTries && !used; try++ {
				a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
				for _, pid := range []int{a.init, a.cmd.Process.Pid} {
					if err := unix.Kill(pid, sig); err != nil {
						t.Fatal(err)
					}
				}
				got, used = a.run(tt.script)
			}
			if !used || got != tt.want {
				t.Errorf("%v before the order, used %v: %q, want %q", sig, used, got, tt.want)
			}
		}
	}
}

// ignores reports whether a process ignores a signal.
func ignores(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "SigIgn:\t")
	set, err := strconv.ParseUint(after[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&bit(sig) != 0
}

// TestThrownAwayAndSignals: a signal that is to end the launcher ends it, although it has come when only
// the init of a sandbox that was thrown away afterwards took signals.
func TestThrownAwayAndSignals(t *testing.T) {
	for _, sig := range ending {
		if signal.Ignored(sig) {
			continue // under nohup: the launcher goes on then, and so does the command
		}
		if !thrownAway(t, sig) {
			t.Errorf("%v: the sandbox that was made ahead was never tried", sig)
		}
	}
}

// thrownAway has a launcher throw away a sandbox that it has made ahead, and sends a signal before it does. It
// reports false if the launcher saw by its plan that the sandbox is of no use.
func thrownAway(t *testing.T, sig syscall.Signal) bool {
	t.Helper()
	for range calmTries {
		dir := t.TempDir()
		write(t, dir+"/secret", "secret")
		a := prepareFor(t, "--permission-profile", profileText(dir+"/secret=deny"), "--sandbox-policy-cwd", "/")
		if err := unix.Kill(a.init, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// The new file gets the number of the old one, usually. The mask is gone with the old one.
		remove(t, dir+"/secret")
		write(t, dir+"/secret", "secret")
		output := make(chan string, 1)
		go func() {
			got, _ := a.run("echo end")
			output <- got
		}()
		// It ignores all of them at once. Others may be ignored from the start, as in a job in the background.
		for !ignores(t, a.cmd.Process.Pid, unix.SIGUSR1) {
			select {
			case got := <-output:
				if got != "end\n" {
					t.Fatalf("the command wrote %q", got)
				}
				output = nil
			case <-time.After(time.Millisecond):
			}
			if output == nil {
				break
			}
		}
		if output == nil {
			continue
		}
		if unix.Kill(a.init, sig) != nil {
			<-output // it was thrown away before that, as another program has mounted something
			continue
		}
		if err := errors.Join(unix.Kill(a.cmd.Process.Pid, sig), unix.Kill(a.init, unix.SIGCONT)); err != nil {
			t.Fatal(err)
		}
		got := <-output
		if status := a.cmd.ProcessState.Sys().(syscall.WaitStatus); got != "" || !status.Signaled() || status.Signal() != sig {
			t.Errorf("%v: the launcher ends with %v, and the command wrote %.99q", sig, a.cmd.ProcessState, got)
		}
		return true
	}
	return false
}

// TestPreparedAndDirect: a command that the launcher becomes, without a view, has no child that it did not start.
func TestPreparedAndDirect(t *testing.T) {
	a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
	a.args = []string{"--permission-profile", `{"type":"disabled"}`, "--sandbox-policy-cwd", "/"}
	if got, used := a.run("read children < /proc/$$/task/$$/children; echo \"$children\""); used || got != "\n" {
		t.Errorf("used %v, children %q", used, got)
	}
}

// leadTo returns what the descriptors of a launcher lead to, but for pipes and what the Go runtime has.
func leadTo(t *testing.T, cmd *exec.Cmd) map[string]bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, e := range entries {
		to, _ := os.Readlink(dir + e.Name())
		if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:[event") {
			found[to] = true
		}
	}
	return found
}

// TestPreparedDescriptors: a launcher keeps no descriptor of a sandbox that was made ahead, and nothing
// that leads into its view, when it has thrown it away or while a command runs there.
func TestPreparedDescriptors(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	a := &ahead{t: t, env: "PATH=/usr/bin:/bin\x00"}
	a.cmd, a.socket = waiting(t)
	prepare := func(profile string) error {
		a.args = []string{"--permission-profile", profile, "--sandbox-policy-cwd", "/"}
		order := a.order("true")
		order.Prepare = true
		return warmstart.Send(a.socket, order)
	}
	if err := prepare(`{"type":"disabled"}`); !errors.Is(err, warmstart.ErrUnprepared) {
		t.Fatalf("the answer is %v", err)
	}
	before := leadTo(t, a.cmd)
	only := func(when string) {
		t.Helper()
		testutil.Eventually(t.Context(), t, "no descriptor of the sandbox "+when, func() (string, bool) {
			more := leadTo(t, a.cmd)
			maps.DeleteFunc(more, func(to string, _ bool) bool { return before[to] })
			return fmt.Sprint(more), len(more) == 0
		})
	}
	for range 2 {
		if err := prepare(profileText()); err != nil {
			t.Fatal(err)
		}
		if a.init = onlyChild(t, a.cmd.Process.Pid); a.init == 0 {
			t.Fatal("the launcher has no init")
		}
		a.endsInit(func() { _ = unix.Kill(a.init, unix.SIGKILL) })
		only("that was thrown away")
	}
	if err := prepare(profileText()); err != nil {
		t.Fatal(err)
	}
	a.init = onlyChild(t, a.cmd.Process.Pid)
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		// A mount that another program makes has the launcher make another sandbox: that is no failure.
		if got, _ := a.run("read line < " + fifo + "; echo $line"); got != "end\n" {
			t.Errorf("the command wrote %q", got)
		}
	})
	var to *os.File
	testutil.Eventually(t.Context(), t, "the command", func() (_ string, ok bool) {
		var err error
		to, err = os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0) // an error as long as nothing reads
		return fmt.Sprint(err), err == nil
	})
	defer to.Close()
	only("in which the command runs")
	if _, err := to.WriteString("end\n"); err != nil {
		t.Error(err)
	}
}

// TestNamesAfterTheEnd: what the user makes when the server knows of the end of the command is the user's,
// even if the launcher is killed then: its janitor has been told that there is nothing to do.
func TestNamesAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := sandbox.JanitorPair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(theirs)
	ended := make(chan error, 1)
	go func() { ended <- sandbox.RunJanitor(theirs) }()
	if err := sandbox.AwaitJanitor(ours); err != nil {
		t.Fatal(err)
	}
	connection, err := sandbox.ConnectJanitor(ours)
	if err != nil {
		t.Fatal(err)
	}
	l := &launch{
		janitor: &janitor{JanitorOf: sandbox.JanitorOf{FD: connection}, own: -1},
		plan:    &sandbox.Plan{Undo: []sandbox.UndoName{{Path: dir + "/.git", Dev: uint64(st.Dev), Ino: st.Ino}}},
	}
	s := &supervisor{l: l}
	if s.stubs, err = l.placeStubs(true); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("true")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.stubs.complete(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := s.stubs.await(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if code := s.cleanUp(0); code != 0 {
		t.Errorf("the code is %d", code)
	}
	mkdir(t, dir+"/.git")
	if s.stubs.janitor != nil { // what the end of the launcher does
		_ = unix.Close(connection)
	}
	_ = unix.Close(ours)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/.git"); err != nil {
		t.Error(err)
	}
}
