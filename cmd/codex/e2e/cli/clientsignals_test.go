package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// TestReaderOfOutputEnds runs a command that writes for ever, and reads one line of its output. The
// command ends at once, and the client ends by the same signal as other programs.
func TestReaderOfOutputEnds(t *testing.T) {
	t.Parallel()
	server, url := harness.Server(t)
	client := exec.Command(harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", "echo $$; exec yes")
	var errs bytes.Buffer
	client.Stderr = &errs
	out, err := client.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, client.Start())
	line := make([]byte, 64)
	n, err := io.ReadAtLeast(out, line, 2)
	harness.Must(t, err)
	harness.Must(t, out.Close())
	first, _, _ := strings.Cut(string(line[:n]), "\n")
	pid, err := strconv.Atoi(first)
	harness.Must(t, err)
	_ = client.Wait()
	if code := client.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) || errs.Len() > 0 {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
	harness.AwaitGone(t, pid)
	if stat, gone := testutil.Gone(server.Process.Pid); gone {
		t.Errorf("the server has ended: %s", stat)
	}
}

// TestInterruptedClientEndsByTheSignal interrupts a client. If a shell runs the client in a loop,
// the loop ends, too.
func TestInterruptedClientEndsByTheSignal(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	for sig, script := range map[syscall.Signal]string{
		syscall.SIGINT:  "echo ready; exec sleep 1000",
		syscall.SIGTERM: "trap '' TERM; echo ready; while :; do sleep 1000; done",
	} {
		client := exec.Command(harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", script)
		client.Stderr = harness.ShownOnFailure(t)
		out, err := client.StdoutPipe()
		harness.Must(t, err)
		harness.Must(t, client.Start())
		_, err = io.ReadFull(out, make([]byte, len("ready\n")))
		harness.Must(t, err)
		harness.Must(t, client.Process.Signal(sig))
		_ = client.Wait()
		if status := client.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != sig {
			t.Errorf("after %v: %v", sig, client.ProcessState)
		}
	}
}

// TestIgnoredSignalsStayIgnored: nohup, or a script that runs it as a background job, starts a
// client with ignored signals. These signals do not end the client.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	client := exec.Command("sh", "-c", `trap '' HUP INT; exec "$0" "$@"`,
		harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", "echo ready; read line; echo $line")
	client.Stderr = harness.ShownOnFailure(t)
	in, err := client.StdinPipe()
	harness.Must(t, err)
	out, err := client.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, client.Start())
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	harness.Must(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		harness.Must(t, client.Process.Signal(sig))
	}
	// A handled signal may take effect late, so the test also checks the signal masks in /proc.
	const both = 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", client.Process.Pid))
	harness.Must(t, err)
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	if ignored, err := strconv.ParseUint(mask, 16, 64); err != nil || ignored&both != both {
		t.Errorf("ignored: %q, %v", mask, err)
	}
	_, err = io.WriteString(in, "went on\n")
	harness.Must(t, err)
	rest, err := io.ReadAll(out)
	harness.Must(t, err)
	if err := client.Wait(); err != nil || string(rest) != "went on\n" {
		t.Errorf("got error %v, rest %q; want no error, rest %q", err, rest, "went on\n")
	}
}

// TestSignalThatTheCommandHandles: if a command continues after an interrupt, the command's own end
// determines how its client ends.
func TestSignalThatTheCommandHandles(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	client := exec.Command(harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", "trap 'exit 7' INT; echo ready; while :; do sleep 0.02; done")
	out, err := client.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, client.Start())
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	harness.Must(t, err)
	harness.Must(t, client.Process.Signal(os.Interrupt))
	_ = client.Wait()
	if code := client.ProcessState.ExitCode(); code != 7 {
		t.Errorf("got %v, want exit code 7", client.ProcessState)
	}
}
