package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/machine"
)

// greeter starts greet in a sandbox without a network, through a client.
func greeter(t *testing.T, c *execclient.Client, id, address string) *execclient.Process {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	workspace, _ := harness.Places(t)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: id, Argv: []string{self, "greet", address}, Cwd: "file://" + workspace, PipeStdin: true, Env: map[string]string{},
		Sandbox: []byte(`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
			`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` +
			`{"path":{"type":"path","path":"file://` + workspace + `"},"access":"write"}]},"network":"restricted"}}`),
	})
	harness.Must(t, err)
	t.Cleanup(func() {
		_, _ = p.Terminate(context.Background())
		p.Release()
	})
	line, err := bufio.NewReader(p.Stdout(t.Context())).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return p
}

// failure opens a tunnel, which must fail, and returns the kind of the failure.
func failure(t *testing.T, c *execclient.Client, to execclient.TunnelTarget) execproto.TunnelFailure {
	t.Helper()
	tunnel, err := c.OpenTunnel(t.Context(), to)
	var failed *execclient.TunnelError
	if err == nil {
		_ = tunnel.Close()
	}
	if !errors.As(err, &failed) {
		t.Fatalf("%v: got error %v, want errors.As(err, &failed)", to, err)
	}
	return failed.Failure
}

// TestInside connects to ports in sandboxes without a network: each tunnel leads into
// its own sandbox, and none to the server's machine.
func TestInside(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	host := harness.Echo(t) // a port of the server's machine, outside of all sandboxes
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		_, url := harness.Server(t, "--sandbox-backend", backend)
		c := dial(t, url)
		for id, address := range map[string]string{"a": "127.0.0.1:3000", "b": "[::1]:3000", "c": "127.0.0.2:3000"} {
			p := greeter(t, c, id, address)
			to := execclient.TunnelTarget{Port: 3000, ProcessID: p.ID()}
			if id == "c" {
				if got := failure(t, c, to); got != execproto.TunnelRefused {
					t.Errorf("another address: %s", got)
				}
				to.Host = "127.0.0.2"
			}
			tunnel, err := c.OpenTunnel(t.Context(), to)
			harness.Must(t, err)
			text, err := io.ReadAll(tunnel)
			if string(text) != "hello from "+address {
				t.Errorf("%s: got text %q, error %v; want text %q", id, text, err, "hello from "+address)
			}
			to.Port = host
			if got := failure(t, c, to); got != execproto.TunnelRefused {
				t.Errorf("a port of the server's machine: %s", got)
			}
		}
		other := dial(t, url)
		if _, err := other.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: 3000, ProcessID: "a"}); err == nil || !strings.Contains(err.Error(), "unknown process") {
			t.Errorf("another session: %v", err)
		}
	})
}

// TestInsideRefused: a tunnel is refused if the process has no sandbox, or has ended.
func TestInsideRefused(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	c := dial(t, url)
	p := greeter(t, c, "ended", "127.0.0.1:3000")
	harness.Must(t, p.Stdin(t.Context()).Close())
	_, err := p.WaitClosed(t.Context())
	harness.Must(t, err)
	if got := failure(t, c, execclient.TunnelTarget{Port: 3000, ProcessID: "ended"}); got != execproto.TunnelEnded {
		t.Errorf("an ended process: %s", got)
	}
	plain, err := c.Start(t.Context(), execproto.StartParams{ProcessID: "plain", Argv: []string{"cat"}, Cwd: "file:///", PipeStdin: true, Env: map[string]string{}})
	harness.Must(t, err)
	defer plain.Release()
	if got := failure(t, c, execclient.TunnelTarget{Port: 3000, ProcessID: "plain"}); got != execproto.TunnelNoNetwork {
		t.Errorf("without a sandbox: %s", got)
	}
	for _, host := range []string{"example.com", "10.0.0.1", "::", "0.0.0.0", "fe80::1%lo"} {
		_, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Host: host, Port: 80, ProcessID: "plain"})
		var refused *execclient.ServerError
		if !errors.As(err, &refused) || refused.Code != execproto.CodeInvalidParams {
			t.Errorf("%s: got error %v; want errors.As(err, &refused), refused.Code %v", host, err, execproto.CodeInvalidParams)
		}
	}
}

// TestInsideLandlock: a tunnel is refused if the sandbox has no network of its own.
func TestInsideLandlock(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t, "--sandbox-backend", "landlock")
	c := dial(t, url)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: "landlock", Argv: []string{"cat"}, Cwd: "file:///", PipeStdin: true, Env: map[string]string{},
		Sandbox: []byte(`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
			`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}}`),
	})
	harness.Must(t, err)
	defer p.Release()
	harness.Eventually(t, "the sandbox is made", func() []string {
		if got := failure(t, c, execclient.TunnelTarget{Port: 3000, ProcessID: "landlock"}); got != execproto.TunnelNoNetwork {
			return []string{string(got)}
		}
		return nil
	})
}

// TestForwardInside: a port that -L of a command forwards leads into the command's sandbox.
func TestForwardInside(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	self, err := os.Executable()
	harness.Must(t, err)
	workspace, _ := harness.Places(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "-L", "0:3000", "--sandbox", "workspace-write", "--cwd", workspace,
		"--", self, "greet", "127.0.0.1:3000")
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	errs, err := cmd.StderrPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	here, _, found := strings.Cut(strings.TrimPrefix(line, "codex: "), " leads to ")
	if err != nil || !found {
		t.Fatalf("it says %q, %v", line, err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	conn, err := net.DialTimeout("tcp", here, 10*time.Second)
	harness.Must(t, err)
	if text, err := io.ReadAll(conn); string(text) != "hello from 127.0.0.1:3000" {
		t.Errorf(`got text %q, error %v; want text "hello from 127.0.0.1:3000"`, text, err)
	}
	harness.Must(t, in.Close())
	harness.Must(t, cmd.Wait())
}
