package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
)

// freePort returns a port on which no program listens at the moment.
func freePort(t *testing.T) uint16 {
	t.Helper()
	port, err := testutil.FreePort()
	harness.Must(t, err)
	return uint16(port)
}

// plainGreeter starts greet without a sandbox, as a grandchild of the process.
func plainGreeter(t *testing.T, c *execclient.Client, id, address string) *execclient.Process {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: id, Argv: []string{"sh", "-c", `"$0" greet "$1"; true`, self, address}, Cwd: "file:///", PipeStdin: true,
		Env: map[string]string{"PATH": os.Getenv("PATH")},
	})
	harness.Must(t, err)
	t.Cleanup(func() {
		_, _ = p.Terminate(context.Background())
		p.Release()
	})
	if line, err := bufio.NewReader(p.Stdout(t.Context())).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return p
}

// portNames lists the reported ports, without pids.
func portNames(t *testing.T, ports execclient.Ports) (names []string) {
	t.Helper()
	for _, p := range ports.Ports {
		if p.PID == 0 || !strings.Contains(p.Command, "greet "+p.Host) && p.Host != "0.0.0.0" {
			t.Errorf(`got %+v; want p.PID other than 0, p.Host "0.0.0.0"`, p)
		}
		names = append(names, fmt.Sprintf("%s %s:%d inside=%v other=%v", p.ProcessID, p.Host, p.Port, p.Inside, p.Session != ""))
	}
	slices.Sort(names)
	return names
}

// awaitPorts reads a watch until it reports exactly the wanted ports.
func awaitPorts(t *testing.T, w *execclient.PortWatch, want ...string) execclient.Ports {
	t.Helper()
	slices.Sort(want)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []string
	for {
		ports, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("%v: it told %q last, and not %q", err, got, want)
		}
		if got = portNames(t, ports); slices.Equal(got, want) && !ports.Truncated {
			return ports
		}
	}
}

// TestPorts: a client can list the ports of its own processes, and the ports of all
// sessions of its user.
func TestPorts(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap, machine.Landlock}, func(t *testing.T, backend string) {
		_, url := harness.Server(t, "--sandbox-backend", backend)
		c, other := dial(t, url), dial(t, url)
		w, err := c.WatchPorts(t.Context(), execclient.PortOptions{})
		harness.Must(t, err)
		awaitPorts(t, w)
		if _, err := c.WatchPorts(t.Context(), execclient.PortOptions{}); err != execclient.ErrPortsWatched {
			t.Errorf("a second watch: %v", err)
		}
		all, err := other.WatchPorts(t.Context(), execclient.PortOptions{AllSessions: true})
		harness.Must(t, err)
		port := freePort(t)
		plain := plainGreeter(t, c, "plain", fmt.Sprintf("127.0.0.1:%d", port))
		name := fmt.Sprintf("plain 127.0.0.1:%d inside=false other=", port)
		awaitPorts(t, w, name+"false")
		awaitPorts(t, all, name+"true")
		own := plainGreeter(t, other, "own", fmt.Sprintf("127.0.0.2:%d", port))
		awaitPorts(t, all, name+"true", fmt.Sprintf("own 127.0.0.2:%d inside=false other=false", port))
		if backend != machine.Landlock { // Landlock denies it to listen
			confined := greeter(t, c, "confined", fmt.Sprintf("127.0.0.1:%d", port))
			inside := fmt.Sprintf("confined 127.0.0.1:%d inside=true other=", port)
			awaitPorts(t, w, name+"false", inside+"false")
			told := awaitPorts(t, all, name+"true", inside+"true", fmt.Sprintf("own 127.0.0.2:%d inside=false other=false", port))
			for _, p := range told.Ports {
				if p.Inside {
					greetedBy(t, other, execclient.TunnelTarget{Port: p.Port, ProcessID: p.ProcessID, Session: p.Session})
				}
			}
			harness.Must(t, confined.Stdin(t.Context()).Close())
			awaitPorts(t, w, name+"false")
		}
		harness.Must(t, own.Stdin(t.Context()).Close())
		awaitPorts(t, all, name+"true")
		harness.Must(t, plain.Stdin(t.Context()).Close())
		awaitPorts(t, w)
		awaitPorts(t, all)
		harness.Must(t, w.Close())
		if _, err := w.Next(t.Context()); err != execclient.ErrClosed {
			t.Errorf("after the end: %v", err)
		}
		if w, err = c.WatchPorts(t.Context(), execclient.PortOptions{}); err == nil {
			awaitPorts(t, w)
		}
		harness.Must(t, err)
	})
}

// greetedBy opens a tunnel to greet, and checks the greeting.
func greetedBy(t *testing.T, c *execclient.Client, to execclient.TunnelTarget) {
	t.Helper()
	tunnel, err := c.OpenTunnel(t.Context(), to)
	harness.Must(t, err)
	text, err := io.ReadAll(tunnel)
	if !strings.HasPrefix(string(text), "hello from ") {
		t.Errorf(`got text %q, error %v; want text beginning with "hello from "`, text, err)
	}
}

// TestPortsOfOthers: clients try to list the ports of other users.
func TestPortsOfOthers(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	c := dial(t, url)
	for _, to := range []execclient.TunnelTarget{
		{Port: 80, ProcessID: "x", Session: "0123456789abcdef"},
		{Port: 80, Session: "0123456789abcdef"},
	} {
		if _, err := c.OpenTunnel(t.Context(), to); err == nil || !strings.Contains(err.Error(), "session") {
			t.Errorf(`%+v: got error %v, want an error with "session"`, to, err)
		}
	}
}
