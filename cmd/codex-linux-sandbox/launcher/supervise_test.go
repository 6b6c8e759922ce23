//go:build linux

package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSignalAtTheStart: a SIGTERM that the launcher gets as soon as the command
// is at work reaches the command. It does not end the launcher.
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
			t.Fatalf("%v: %s", cmd.ProcessState, out)
		}
	}
}

// signalledLauncher runs a command under a launcher to which the process of
// the command sends a SIGTERM before anything else.
func signalledLauncher() (int, error) {
	runtime.LockOSThread()
	e, err := prepareExec([]string{"sleep", "60"}, os.Environ(), "sleep", -1)
	if err != nil {
		return 0, err
	}
	s := &supervisor{l: &launch{options: &options{}}, processes: &processes{init: newProgram(), command: newProgram(), exec: e}}
	if err := s.openPipes(); err != nil {
		return 0, err
	}
	s.begin()
	s.processes.command.do("signal", "the launcher", unix.SYS_KILL, val(os.Getpid()), val(uint(unix.SIGTERM)))
	return s.run()
}
