package cli

import (
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestLeavingAShell: a user can leave a terminal with ~., even if the server no longer answers.
// Ctrl-C works while the client reconnects.
func TestLeavingAShell(t *testing.T) {
	t.Parallel()
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		server, url := harness.Server(t)
		u := harness.AtTerminal(t, "remote", "run", "--url", url, "--tty", "--", "sh", "-c", "echo ready; exec cat")
		u.Expect("ready")
		u.Types("~?")
		u.Expect("close the connection")
		harness.Must(t, server.Process.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGCONT) })
		u.Types("x\r~.")
		if rest, code := u.End(); code != 255 || !strings.Contains(rest, "was closed by ~.") {
			t.Errorf(`got exit code %d, rest %q; want exit code 255, rest with "was closed by ~."`, code, rest)
		}
	})
	t.Run("reconnects", func(t *testing.T) {
		t.Parallel()
		server, url := harness.Server(t)
		u := harness.AtTerminal(t, "remote", "run", "--url", url, "--tty", "--", "sh", "-c", "echo ready; exec cat")
		u.Expect("ready")
		harness.Must(t, server.Process.Kill())
		u.Expect("reconnecting")
		u.Types("\x03")
		if rest, _ := u.End(); u.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("got u.Cmd.ProcessState %v, rest %q; want u.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() %v", u.Cmd.ProcessState, rest, syscall.SIGINT)
		}
	})
}
