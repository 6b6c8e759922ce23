package launcher

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// waiting starts a launcher that waits for a job, and returns the server's end of its socket.
func waiting(t *testing.T) (*exec.Cmd, int) {
	t.Helper()
	ours, theirs, err := warmstart.Pair()
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(theirs), "socket")
	defer socket.Close()
	cmd := launcherCommand(t, "--standby-fd", "3")
	cmd.ExtraFiles = []*os.File{socket}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, ours
}

// memory returns a memory file that contains the text.
func memory(t *testing.T, text string) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStandby: a launcher that was started ahead of need runs the command of its job. The command
// gets the job's environment and descriptors, and none of the launcher's own.
func TestStandby(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	cmd, socket := waiting(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	env, refusal := memory(t, "PATH=/usr/bin:/bin\x00A=b\x00"), memory(t, "")
	const script = "echo $A $LAUNCHER_TEST_MAIN; ls -l /proc/self/fd | grep -c memfd; grep -c . /proc/1/cmdline; exit 7"
	job := &warmstart.Job{
		Args: []string{
			"--read-only", "--sandbox-policy-cwd", "/", "--backend", "namespaces",
			"--env-fd", "3", "--refusal-fd", "4", "--", "sh", "-c", script,
		},
		Files: []int{int(null.Fd()), int(w.Fd()), int(w.Fd()), int(env.Fd()), int(refusal.Fd())},
	}
	err = warmstart.Send(socket, job)
	_, _ = unix.Close(socket), w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The command has neither the environment of the launcher nor the memory of the
	// job. Its init shows the launcher's name alone.
	if got := string(text); cmd.ProcessState.ExitCode() != 7 || got != "b\n0\n1\n" {
		t.Errorf("%s: got %q; want cmd.ProcessState.ExitCode() 7, %q", cmd.ProcessState, text, "b\n0\n1\n")
	}
	if _, err := refusal.ReadAt(make([]byte, 1), 0); err != io.EOF {
		t.Errorf("the refusal is not empty: %v", err)
	}
}

// TestReportOfTheExit: a launcher reports the exit code of a command when no process of the sandbox
// is left. By then it has closed the output. If a process is left, the launcher ends it, and its
// own exit is the report. The command cannot influence this.
func TestReportOfTheExit(t *testing.T) {
	machine.NeedBackend(t, machine.Namespaces)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tt := range []struct {
		script     string
		code       int
		unreported bool
	}{
		{script: "exit 7", code: 7},
		{script: "kill -9 $$", code: 137},
		{script: "true & wait; exit 4", code: 4},
		{script: "sleep 60 & exit 5", code: 5, unreported: true},
		{script: "setsid sleep 60 >/dev/null 2>&1 & exit 6", code: 6, unreported: true},
		{script: "exec /none", code: exitNotFound},
	} {
		cmd, socket := waiting(t)
		starter := os.NewFile(uintptr(socket), "starter")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--read-only", "--sandbox-policy-cwd", "/", "--backend", "namespaces", "--", "sh", "-c"}
		out := int(w.Fd())
		err = warmstart.Send(socket, &warmstart.Job{Args: append(args, tt.script), Files: []int{int(null.Fd()), out, out}, Report: true})
		_ = w.Close()
		if err != nil {
			t.Fatal(err)
		}
		// A launcher that ends without a report closes its end of the socket.
		code, used, err := warmstart.ReadReport(starter)
		if !tt.unreported && (err != nil || code != tt.code) || tt.unreported && !errors.Is(err, io.EOF) {
			t.Errorf("%s: it reports %d, %v", tt.script, code, err)
		}
		if !tt.unreported && used.MaxRSS == 0 {
			t.Errorf("%s: it reports no memory: %v", tt.script, used)
		}
		if _, err := io.ReadAll(r); err != nil {
			t.Error(err)
		}
		_, _ = starter.Close(), r.Close()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%s: %s, want %d", tt.script, cmd.ProcessState, tt.code)
		}
	}
}

// TestStandbyWithoutJob: a launcher ends if its server has ended or no longer needs it. A malformed
// job starts nothing.
func TestStandbyWithoutJob(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	for name, tt := range map[string]struct {
		send func(socket int) error
		code int
	}{
		"nothing": {func(int) error { return nil }, 0},
		"garbage": {func(socket int) error {
			_, err := unix.Write(socket, bytes.Repeat([]byte{1}, 100))
			return err
		}, exitUsage},
		"a descriptor that was not sent": {func(socket int) error {
			args := []string{"--read-only", "--env-fd", "3", "--", "true"}
			return warmstart.Send(socket, &warmstart.Job{Args: args, Files: []int{fd, fd, fd}})
		}, exitUsage},
		"a standard descriptor for something else": {func(socket int) error {
			args := []string{"--read-only", "--env-fd", "1", "--", "true"}
			return warmstart.Send(socket, &warmstart.Job{Args: args, Files: []int{fd, fd, fd}})
		}, exitUsage},
		"no command": {func(socket int) error {
			return warmstart.Send(socket, &warmstart.Job{Args: []string{"--read-only"}, Files: []int{fd, fd, fd}})
		}, exitFailed},
	} {
		cmd, socket := waiting(t)
		if err := tt.send(socket); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(socket)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%s: %s, want %d", name, cmd.ProcessState, tt.code)
		}
	}
}
