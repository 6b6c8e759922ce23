package process

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
)

// session starts a shell in a session of its own; its output ends when all
// processes of the session have ended.
func session(t *testing.T, script string) (cmd *exec.Cmd, output io.Reader) {
	t.Helper()
	// RunWatchdog ignores signals, so undo that after the test.
	t.Cleanup(func() { signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) })
	cmd = exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, output
}

func TestWatchdogEndsWhatDoesNotEndByItself(t *testing.T) {
	running, output := session(t, "sleep 1000 & echo; sleep 1000")
	ended, _ := session(t, "exec sleep 1000")
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// The pid of the ended session was reused by another process.
	RunWatchdog(strings.NewReader(fmt.Sprintf("=%d\n=%d\n-%d\n", running.Process.Pid, ended.Process.Pid, ended.Process.Pid)))
	if _, err := io.ReadAll(output); err != nil { // ends when the session has ended
		t.Error(err)
	}
	_ = running.Wait()
	if state := running.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Errorf("the running process ended with %v", running.ProcessState)
	}
	if stat, gone := testutil.Gone(ended.Process.Pid); gone {
		t.Errorf("another session with the number of an ended one: %s", stat)
	}
}

func TestWatchdogLeavesAllAloneAfterAFarewell(t *testing.T) {
	cmd, _ := session(t, "exec sleep 1000")
	RunWatchdog(strings.NewReader(fmt.Sprintf("=%d\nq\n", cmd.Process.Pid)))
	if stat, gone := testutil.Gone(cmd.Process.Pid); gone {
		t.Errorf("got %v, want gone false", stat)
	}
}

// TestWatchdogIsReplaced: if the watchdog has ended, or could not be started, the next start of a
// process starts another one and sends it all running processes.
func TestWatchdogIsReplaced(t *testing.T) {
	dir := t.TempDir()
	program, lines := filepath.Join(dir, "watchdog"), filepath.Join(dir, "lines")
	// The file is not executable. If there were none, this program would be executed: see ownProgram.
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	s, err := NewSupervisor(Options{Watchdog: []string{program}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	g := s.NewGroup()
	told := func(want ...*Process) {
		t.Helper()
		var pids []string
		for _, p := range want {
			pids = append(pids, strconv.Itoa(p.Pid()))
		}
		slices.Sort(pids)
		testutil.Eventually(t.Context(), t, fmt.Sprint(pids), func() (string, bool) {
			text, _ := os.ReadFile(lines)
			got := strings.FieldsFunc(string(text), func(c rune) bool { return strings.ContainsRune("+=\n", c) })
			slices.Sort(got)
			return string(text), slices.Equal(got, pids)
		})
	}
	sleep := shell("exec sleep 1000")
	first, _ := start(t, g, sleep)
	ended, _ := start(t, g, shell("exit 0"))
	await(t, "the end of a process", ended.Done())
	if n := strings.Count(log.String(), "no watchdog"); n != 1 {
		t.Errorf("the log says %d times that there is none: %s", n, &log)
	}

	script := fmt.Sprintf("#!/bin/sh\nexec /bin/cat > %s\n", lines)
	if err := errors.Join(os.Remove(program), testutil.WriteProgram(program, []byte(script))); err != nil {
		t.Fatal(err)
	}
	second, _ := start(t, g, sleep)
	told(first, second)

	if err := syscall.Kill(s.watchdog.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the watchdog", s.watchdog.done)
	first.Terminate()
	await(t, "the end of a process", first.Done())
	third, _ := start(t, g, sleep)
	told(second, third)
}
