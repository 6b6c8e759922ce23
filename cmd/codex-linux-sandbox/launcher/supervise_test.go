package launcher

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestSignalAtTheStart: the launcher gets a SIGTERM as soon as the command runs. The signal reaches
// the command, and does not end the launcher.
func TestSignalAtTheStart(t *testing.T) {
	const variable = "CODEX_TEST_SIGNALLED_LAUNCHER"
	if os.Getenv(variable) != "" {
		code, err := signalledLauncher()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	for range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSignalAtTheStart$")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(unix.SIGTERM) {
			t.Fatalf("%v: got %s, want code %v", cmd.ProcessState, out, 128+int(unix.SIGTERM))
		}
	}
}

// signalledLauncher runs a command under a launcher. The process of the command
// first sends a SIGTERM to the launcher.
func signalledLauncher() (int, error) {
	runtime.LockOSThread()
	e, err := initproc.PrepareExec([]string{"sleep", "60"}, os.Environ(), "sleep", -1)
	if err != nil {
		return 0, err
	}
	s := &supervisor{l: &launch{options: &options{}}, processes: &initproc.Processes{Init: initproc.New(), Command: initproc.New(), Exec: e}}
	if err := s.openPipes(); err != nil {
		return 0, err
	}
	s.begin()
	s.processes.Command.Do("signal", "the launcher", unix.SYS_KILL, initproc.Val(os.Getpid()), initproc.Val(uint(unix.SIGTERM)))
	return s.run()
}

// TestSignalWhileTheCommandIsExecuted: a signal ends a command whose exec hangs.
func TestSignalWhileTheCommandIsExecuted(t *testing.T) {
	// The test takes a lease on the file. The kernel then blocks an open until the holder, which
	// gets a SIGIO, has released the lease, or for 45 s.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGIO)
	defer signal.Stop(asked)
	type start struct {
		sig  syscall.Signal
		args []string
	}
	starts := []start{{unix.SIGINT, nil}, {unix.SIGTERM, nil}}
	if machine.Has(t, os.Geteuid(), machine.Landlock) {
		starts = append(starts, start{unix.SIGTERM, []string{"--backend", "landlock"}})
	}
	for _, tt := range starts {
		file := filepath.Join(t.TempDir(), "command")
		if err := testutil.WriteProgram(file, []byte("#!/bin/sh\n")); err != nil {
			t.Fatal(err)
		}
		held, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		_, err = unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		testutil.Need(t, "leases", err, unix.EINVAL)

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		args := append(tt.args, "--sandbox-policy-cwd", "/", "--permission-profile", readOnly, "--", file)
		cmd := launcherCommand(t, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		select {
		case <-asked:
			_ = unix.Kill(-cmd.Process.Pid, tt.sig)
		case <-ctx.Done():
			t.Error("the command was not executed")
		}
		_ = cmd.Wait()
		stop()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(tt.sig) {
			t.Errorf("%v %v: got %v, want code %v", tt.sig, tt.args, cmd.ProcessState, 128+int(tt.sig))
		}
	}
}

// TestTheCommandLeadsNoGroup: the command is no leader of its process group, so that it can call setsid. The program setsid then runs
// its command in its own process, and that command's output and exit code are the sandbox's.
func TestTheCommandLeadsNoGroup(t *testing.T) {
	for _, backend := range []string{machine.Namespaces, machine.Bwrap, machine.Landlock} {
		t.Run(backend, func(t *testing.T) {
			machine.NeedBackend(t, backend)
			cmd := launcherCommand(t, "--backend", backend, "--sandbox-policy-cwd", "/", "--permission-profile", readOnly, "--",
				"setsid", "sh", "-c", "echo tested; exit 7")
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); string(out) != "tested\n" || code != 7 {
				t.Errorf("got output %q, code %d; want tested, code 7", out, code)
			}
		})
	}
}

// TestSignalsReachTheGroup: a signal to the launcher reaches all processes of the command's group.
func TestSignalsReachTheGroup(t *testing.T) {
	const script = `trap "wait; exit 9" TERM; (trap "echo inner; exit" TERM; echo ready; while :; do sleep 0.01; done) & wait; wait`
	for _, backend := range []string{machine.Namespaces, machine.Bwrap, machine.Landlock} {
		t.Run(backend, func(t *testing.T) {
			machine.NeedBackend(t, backend)
			cmd := launcherCommand(t, "--backend", backend, "--sandbox-policy-cwd", "/", "--permission-profile", readOnly, "--", "sh", "-c", script)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			for _, want := range []string{"ready\n", "inner\n"} {
				if line, err := said.ReadString('\n'); line != want {
					t.Errorf("got %q, %v; want %q", line, err, want)
				}
				if want == "ready\n" {
					_ = cmd.Process.Signal(unix.SIGTERM)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 9 {
				t.Errorf("got %v, want code 9", cmd.ProcessState)
			}
		})
	}
}

// TestLauncherIsKilledBeforeTheInitBegins: the launcher has let the init continue, and is killed
// before the init does anything. Nothing runs.
func TestLauncherIsKilledBeforeTheInitBegins(t *testing.T) {
	const variable = "CODEX_TEST_KILLED_LAUNCHER"
	if os.Getenv(variable) != "" {
		if err := openedLauncher(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLauncherIsKilledBeforeTheInitBegins$")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = hold, in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "opened\n" {
		t.Errorf("the launcher says %q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := release.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	_ = release.Close()
	if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
		t.Errorf("after the launcher's end came %q, %v", rest, err)
	}
}

// openedLauncher starts an init that waits for a byte on standard input. It lets the init continue
// up to the command, and then waits to be killed.
func openedLauncher() error {
	runtime.LockOSThread()
	e, err := initproc.PrepareExec([]string{"echo", "the command ran"}, os.Environ(), "echo", -1)
	if err != nil {
		return err
	}
	s := &supervisor{l: &launch{options: &options{}}, processes: &initproc.Processes{Init: initproc.New(), Command: initproc.New(), Exec: e}}
	if err := s.openPipes(); err != nil {
		return err
	}
	p := s.processes.Init
	p.Do("wait for", "the test", unix.SYS_READ, initproc.Val(0), initproc.Slice(p, make([]byte, 1)), initproc.Val(1)).Full = true
	s.begin()
	s.awaitStart()
	if _, errno := s.processes.Start(); errno != 0 {
		return errno
	}
	for range 2 {
		if err := s.open(); err != nil {
			return err
		}
	}
	fmt.Println("opened")
	err = unix.Pause()
	return err
}

// TestRelayTellsWhatCame: signals that arrive after the child has ended, and before another
// is started, are not lost.
func TestRelayTellsWhatCame(t *testing.T) {
	r := &relay{reaped: true}
	if came := r.stop(); came != 0 {
		t.Errorf("%x before the start", came)
	}
	r.start()
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGHUP} {
		r.signals <- sig // this is how the kernel would deliver it; other tests make this process stop handling the signal
	}
	want := initproc.Bit(unix.SIGUSR1) | initproc.Bit(unix.SIGHUP)
	if came := r.stop(); came&want != want {
		t.Errorf("%x, want %x", came, want)
	}
}

func TestExitCodesOfWhatCannotBeExecuted(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked")
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(locked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := testutil.WriteProgram(script, []byte("echo script $1; exit 3")); err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{readOnly, `{"type":"disabled"}`} {
		for _, tt := range []struct {
			argv []string
			code int
			want string
		}{
			{[]string{"/none/such"}, 127, "Failed to execvp /none/such: No such file or directory (os error 2)"},
			{[]string{"no-such-program"}, 127, "Failed to execvp no-such-program: No such file or directory (os error 2)"},
			{[]string{locked}, 126, "Failed to execvp " + locked + ": Permission denied (os error 13)"},
			{[]string{script, "word"}, 3, "script word"},
		} {
			cmd := launcherCommand(t, append([]string{"--sandbox-policy-cwd", "/", "--permission-profile", profile, "--"}, tt.argv...)...)
			// If a directory of root's PATH cannot be searched by another user, the exit
			// code is 126.
			cmd.Env = append(cmd.Environ(), "PATH=/usr/bin:/bin")
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) {
				t.Errorf("%.20s %q: %d %s, want %d %s", profile, tt.argv, code, out, tt.code, tt.want)
			}
		}
	}
}
