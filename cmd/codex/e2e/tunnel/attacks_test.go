package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/machine"
)

// attack tries to connect to addresses, and prints which of them it has reached. With "sockets" it
// lists the sockets that it has inherited. With "listen" it opens the given number of ports.
func attack(args []string) int {
	switch args[0] {
	case "sockets":
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, "socket:") && e.Name() > "2" {
				fmt.Println("reached", e.Name(), to)
			}
		}
	case "listen":
		for range 400 {
			if _, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		for _, address := range args {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				_ = conn.Close()
				fmt.Println("reached", address)
			}
		}
	}
	fmt.Println("done")
	return 0
}

// attacker runs attack and returns its output. If workspace is not empty, it runs in a sandbox.
func attacker(t *testing.T, c *execclient.Client, workspace string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	params := execproto.StartParams{
		ProcessID: fmt.Sprintf("attacker %q %v", workspace, args), Argv: append([]string{self, "attack"}, args...), Cwd: "file:///", Env: map[string]string{},
	}
	if workspace != "" {
		params.Sandbox = sandboxed(workspace)
	}
	p, err := c.Start(t.Context(), params)
	harness.Must(t, err)
	defer p.Release()
	out, err := io.ReadAll(p.Stdout(t.Context()))
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Fatalf("the attacker says %q, %v", out, err)
	}
	return strings.TrimSuffix(string(out), "done\n")
}

// TestConfinedAttacks: tunnels lead into the sandbox of a process and into another sandbox. The
// process tries to use them to reach the server's own port, a port of the server that leads to the
// client, the other sandbox, and leftover sockets. Each attack works without a sandbox.
func TestConfinedAttacks(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		_, url := harness.Server(t, "--sandbox-backend", backend)
		c := dial(t, url)
		workspace, _ := harness.Places(t)
		victim := greeterIn(t, c, "victim", "127.0.0.1:3000", workspace)
		neighbor := greeterIn(t, c, "neighbor", "127.0.0.1:3001", workspace)
		for process, port := range map[string]uint16{victim.ID(): 3000, neighbor.ID(): 3001} {
			tunnel, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: port, ProcessID: process})
			harness.Must(t, err)
			defer tunnel.Close()
		}
		reverse, err := c.Listen(t.Context(), "", 0)
		harness.Must(t, err)
		defer reverse.Close()
		targets := []string{strings.TrimPrefix(url, "ws://"), reverse.Addr().String(), "127.0.0.1:3000", "127.0.0.1:3001", "[::1]:3000"}
		if said := attacker(t, c, workspace, targets...); said != "" {
			t.Errorf("from a sandbox: %s", said)
		}
		if said := attacker(t, c, workspace, "sockets"); said != "" {
			t.Errorf("from a sandbox: %s", said)
		}
		if said, want := attacker(t, c, "", targets...), fmt.Sprintf("reached %s\nreached %s\n", targets[0], targets[1]); said != want {
			t.Errorf("without a sandbox it says %q, want %q", said, want)
		}
		// A tunnel into one sandbox reaches neither another sandbox nor the server.
		for _, port := range []uint16{3001, uint16(reverse.Addr().(*net.TCPAddr).Port)} {
			if got := failure(t, c, execclient.TunnelTarget{Port: port, ProcessID: victim.ID()}); got != execproto.TunnelRefused {
				t.Errorf("port %d from the sandbox of the victim: %s", port, got)
			}
		}
	})
}

// TestTokenAttacks: clients whose tokens have fewer permissions use tunnels for operations that are forbidden to them.
func TestTokenAttacks(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, _ := harness.Places(t)
	file := filepath.Join(t.TempDir(), "tokens.json")
	client := func(url string, token string) *execclient.Client {
		t.Helper()
		c, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{BearerToken: token})
		harness.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	token := func(args ...string) string {
		t.Helper()
		out, errs, code := harness.Run(t, "", append([]string{"exec-server", "token", "create", "--tokens", file, "--principal", "one"}, args...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return strings.TrimSpace(out)
	}
	full, read, capped := token("--role", "run"), token("--role", "read"), token("--role", "run", "--max-sandbox", "workspace-write", "--cwd", workspace)
	_, url := harness.ServerWith(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-tokens", file)
	owner := client(url, full)
	victim := greeterIn(t, owner, "victim", "127.0.0.1:3000", workspace)
	port := harness.Echo(t)
	all, err := client(url, full).WatchPorts(t.Context(), execclient.PortOptions{AllSessions: true}) // the control: a full token can do this
	harness.Must(t, err)
	told := awaitPorts(t, all, "victim 127.0.0.1:3000 inside=true other=true")
	session := told.Ports[0].Session
	for name, c := range map[string]*execclient.Client{"read": client(url, read), "capped": client(url, capped)} {
		own := "nothing"
		if name == "capped" {
			own = greeterIn(t, c, "own", "127.0.0.1:3000", workspace).ID()
		}
		for _, to := range []execclient.TunnelTarget{
			{Port: port}, {Host: "example.com", Port: 80}, {Path: "/run/x.sock"}, {Port: 3000, ProcessID: own},
			{Port: 3000, ProcessID: victim.ID(), Session: session}, {Port: 3000, ProcessID: execproto.DetachedPrefix + "x"},
		} {
			if tunnel, err := c.OpenTunnel(t.Context(), to); err == nil || !strings.Contains(err.Error(), "token") {
				t.Errorf(`%s: got to %+v, tunnel %v, error %v; want error with "token"`, name, to, tunnel, err)
			}
		}
		if l, err := c.Listen(t.Context(), "", 0); err == nil || !strings.Contains(err.Error(), "token") {
			t.Errorf("%s: listen: %v, %v", name, l, err)
		}
		// The client sees only its own ports, although the principal is the same.
		w, err := c.WatchPorts(t.Context(), execclient.PortOptions{AllSessions: true})
		harness.Must(t, err)
		if name == "capped" {
			awaitPorts(t, w, "own 127.0.0.1:3000 inside=true other=false")
		} else {
			awaitPorts(t, w)
		}
	}
}

// TestPortExhaustion: a sandboxed process opens more ports than the server reports, and clients
// begin an endless number of watches. The server continues, and reports as many ports as it can.
func TestPortExhaustion(t *testing.T) {
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	c := dial(t, url)
	workspace, _ := harness.Places(t)
	self, err := os.Executable()
	harness.Must(t, err)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: "many", Argv: []string{self, "attack", "listen"}, Cwd: "file:///", PipeStdin: true, Env: map[string]string{}, Sandbox: sandboxed(workspace),
	})
	harness.Must(t, err)
	t.Cleanup(func() {
		_, _ = p.Terminate(context.Background())
		p.Release()
	})
	if line, err := bufio.NewReader(p.Stdout(t.Context())).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	bound, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 200 {
		w, err := c.WatchPorts(bound, execclient.PortOptions{})
		harness.Must(t, err)
		ports, err := w.Next(bound)
		harness.Must(t, err)
		if !ports.Truncated || len(ports.Ports) != 256 {
			t.Fatalf("%d ports are told, truncated: %v", len(ports.Ports), ports.Truncated)
		}
		harness.Must(t, w.Close())
	}
	said := startLines(t, exec.Command(harness.Codex, "remote", "--url", url, "forward", "--auto"))
	for range 64 {
		said.await(" leads to port ")
	}
	said.await("more than 64 ports are open")
}

// TestHostileCommandLine: a command's name contains control characters. The message to the user
// about its port must not let them control the terminal.
func TestHostileCommandLine(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	self, err := os.Executable()
	harness.Must(t, err)
	port := freePort(t)
	c := dial(t, url)
	hostile := "\x1b]0;owned\a\r\ncodex: fake"
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: "hostile", Arg0: &hostile, Argv: []string{self, "greet", fmt.Sprintf("127.0.0.1:%d", port)}, Cwd: "file:///", PipeStdin: true, Env: map[string]string{},
	})
	harness.Must(t, err)
	t.Cleanup(func() {
		_, _ = p.Terminate(context.Background())
		p.Release()
	})
	line := startLines(t, exec.Command(harness.Codex, "remote", "--url", url, "forward", "--auto")).await(fmt.Sprintf(" leads to port %d of ", port))
	if strings.ContainsAny(line, "\x1b\a\r") || !strings.Contains(line, "owned") || !strings.Contains(line, "fake") {
		t.Errorf("it says %q", line)
	}
}
