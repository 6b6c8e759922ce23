//go:build linux || darwin

package process

import (
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// session starts a shell in a session of its own; its output ends when
// everybody in the session has.
func session(t *testing.T, script string) (cmd *exec.Cmd, output io.Reader) {
	t.Helper()
	// RunWatchdog ignores signals, which only a program of its own should.
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
	// The number of the one that has ended was given to another session.
	RunWatchdog(strings.NewReader(fmt.Sprintf("=%d\n=%d\n-%d\n", running.Process.Pid, ended.Process.Pid, ended.Process.Pid)))
	if _, err := io.ReadAll(output); err != nil { // ends when the session has
		t.Error(err)
	}
	_ = running.Wait()
	if state := running.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Errorf("the running process ended with %v", running.ProcessState)
	}
	if err := ended.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another session with the number of an ended one: %v", err)
	}
}

func TestWatchdogLeavesAllAloneAfterAFarewell(t *testing.T) {
	cmd, _ := session(t, "exec sleep 1000")
	RunWatchdog(strings.NewReader(fmt.Sprintf("=%d\nq\n", cmd.Process.Pid)))
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error(err)
	}
}
