package cli

import (
	"bufio"
	"bytes"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/machine"
)

// TestCauses: the server reports each cause that does not need a cgroup to the client and in the
// log, without a sandbox and with each backend. scripts/services tests memory and pids.
func TestCauses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{harness.Unconfined, machine.Namespaces, machine.Bwrap, machine.Landlock}, func(t *testing.T, backend string) {
		w := &causes{t: t}
		args := []string{"--log-format", "json", "--session-ttl", "1ms"}
		if backend != harness.Unconfined {
			w.sandbox = []byte(`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
				`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}}`)
			args = append(args, "--sandbox-backend", backend)
		}
		server, url := harness.ServerLogging(t, &w.log, args...)
		c := w.dial(url)
		w.ends(c)
		w.start(c, "session", "sleep 1000", nil)
		harness.Must(t, c.Close())
		w.logged("session", execproto.CauseSessionEnded)
		other := w.dial(url)
		defer other.Close()
		w.start(other, "server", "sleep 1000", nil)
		began := time.Now()
		harness.Must(t, server.Process.Signal(syscall.SIGTERM))
		_ = server.Wait()
		w.logged("server", execproto.CauseServerStopped)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the server has ended after %v", took)
		}
	})
}

// TestServerThatStopsIsNamed: the client's last words are about the server, and not about a lost connection.
func TestServerThatStopsIsNamed(t *testing.T) {
	t.Parallel()
	server, url := harness.Server(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "--", "sh", "-c", "echo started; while :; do sleep 1; done")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	harness.Must(t, server.Process.Signal(syscall.SIGTERM))
	_ = server.Wait()
	_ = cmd.Wait()
	const want = "Error: the command was killed, because the server was shut down\n"
	if code := cmd.ProcessState.ExitCode(); code != 137 || errs.String() != want {
		t.Errorf("got exit code %d, %q; want 137, %q", code, errs.String(), want)
	}
}

// causes runs processes of one server that end for different causes.
type causes struct {
	t       *testing.T
	log     serverLog
	sandbox []byte // the sandbox of all processes; nil: no sandbox
}

func (w *causes) dial(url string) *execclient.Client {
	w.t.Helper()
	c, err := execclient.DialWebSocket(w.t.Context(), url, execclient.Options{RecoveryTimeout: -1})
	harness.Must(w.t, err)
	return c
}

func (w *causes) start(c *execclient.Client, id, script string, limits *execproto.ProcessLimits) *execclient.Process {
	w.t.Helper()
	p, err := c.Start(w.t.Context(), execproto.StartParams{
		ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}, Sandbox: w.sandbox, Limits: limits,
	})
	harness.Must(w.t, err)
	return p
}

// logged waits for the log record about a process's end.
func (w *causes) logged(id string, want execproto.Cause) {
	w.t.Helper()
	harness.Eventually(w.t, id+": another cause than "+string(want)+" in the log", func() []string {
		if got := w.log.cause(w.t, id); got != string(want) {
			return []string{got}
		}
		return nil
	})
}

// ends makes processes end for different causes.
func (w *causes) ends(c *execclient.Client) {
	w.t.Helper()
	ofSignal := execproto.CauseExit
	if w.sandbox != nil { // the launcher reports only a status, and 137 may also mean a signal
		ofSignal = execproto.CauseSignal
	}
	for _, tt := range []struct {
		id, script string
		limits     *execproto.ProcessLimits
		code       int
		want       execproto.Cause
	}{
		{"exit", "exit 3", nil, 3, execproto.CauseExit},
		{"status 137", "exit 137", nil, 137, ofSignal},
		{"signal", "kill -KILL $$", nil, 137, execproto.CauseSignal},
		{"timeout", "sleep 1000", &execproto.ProcessLimits{WallMS: 300}, 137, execproto.CauseTimeout},
		{"output", "yes", &execproto.ProcessLimits{OutputBytes: 100}, 137, execproto.CauseOutput},
		{"cpu", "while :; do :; done", &execproto.ProcessLimits{CPUSeconds: 1}, 152, execproto.CauseCPU},
		{"terminated", "sleep 1000", nil, 137, execproto.CauseTerminated},
	} {
		p := w.start(c, tt.id, tt.script, tt.limits)
		if tt.want == execproto.CauseTerminated {
			_, err := p.Terminate(w.t.Context())
			harness.Must(w.t, err)
		}
		end, err := p.WaitClosed(w.t.Context())
		if err != nil || end.Code != tt.code || end.Cause != tt.want {
			w.t.Errorf("%s: %+v, %v, want %d, %s", tt.id, end, err, tt.code, tt.want)
		}
		p.Release()
		w.logged(tt.id, tt.want)
	}
}
