// Package peers tests the server and the rendezvous service with clients that use other
// websocket libraries: npm's ws, Python's websockets, coder/websocket and curl.
//
// With the server, each client is refused without a token, sends initialize, reads 3 MB of a
// command's output, writes a file with a message of 4 MB in fragments, with a ping in between if
// the library can do that, and closes. With the relay, it sends a ping, messages that are not
// frames, and a ping, and closes.
//
// scripts/peers installs the libraries and runs it: it sets CODEX_TEST_PROGRAMS to a
// directory with codex, and NODE_PATH.
package peers

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/relay/noise"
)

// limit bounds a conversation and the start of a server.
const limit = time.Minute

// peer runs a client. mode is "converse", "relay", or the status with which the
// handshake must be refused. file is the URL of a file that "converse" writes.
type peer func(ctx context.Context, mode, url, token, file string) error

var peers = map[string]peer{
	"ws":              program("node", "testdata/peer.js"),
	"websockets":      program("/usr/bin/python3", "testdata/peer.py"),
	"coder/websocket": coder,
}

func program(name string, arguments ...string) peer {
	return func(ctx context.Context, mode, url, token, file string) error {
		c := exec.CommandContext(ctx, name, append(arguments, mode, url, token, file)...)
		var said strings.Builder
		c.Stdout, c.Stderr = &said, &said
		if err := c.Run(); err != nil {
			return &failure{err, said.String()}
		}
		return nil
	}
}

// failure describes how a program ended, with its output.
type failure struct {
	error
	said string
}

func (f *failure) Error() string { return f.error.Error() + ": " + strings.TrimSpace(f.said) }

func TestServer(t *testing.T) {
	dir := t.TempDir()
	const token = "d1f2a7c05b7e4c0e9a3b8c7d6e5f4a3b2c1d0e9f"
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, "exec-server", "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", path)
	for name, run := range peers {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := run(ctx, "401", url, "", ""); err != nil {
				t.Error("without a token: ", err)
			}
			file := filepath.Join(t.TempDir(), "file")
			if err := run(ctx, "converse", url, token, "file://"+file); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("curl", func(t *testing.T) { curl(t, url, token) })
}

func TestRendezvous(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	url := serve(t, "rendezvous", "--listen", "127.0.0.1:0", "--tokens", tokens)
	t.Setenv("CODEX_API_KEY", newToken(t, tokens, "executor"))
	start(t, "exec-server", "--remote", url, "--environment-id", "peers")
	harness := newToken(t, tokens, "harness")
	for name, run := range peers {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := run(ctx, "relay", relayURL(ctx, t, url, harness), "", ""); err != nil {
				t.Error(err)
			}
			if err := run(ctx, "401", "ws"+strings.TrimPrefix(url, "http")+"/relay", "", ""); err != nil {
				t.Error("without a credential: ", err)
			}
		})
	}
}

// relayURL requests a connection to the executor from the service, until the executor has
// registered.
func relayURL(ctx context.Context, t *testing.T, url, token string) string {
	t.Helper()
	client, err := registry.New(registry.Options{BaseURL: url, Authorizer: registry.Bearer(token, "")})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := noise.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := client.Connect(ctx, "peers", identity.PublicKey())
		if err == nil {
			return c.URL
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newToken makes a token for a role at the service.
func newToken(t *testing.T, tokens, role string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), codex(t), "rendezvous", "token", "create", "--tokens", tokens, "--role", role, "--environment", "peers")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// curl opens a websocket by hand, as people do to check whether a proxy forwards it. It reads the
// server's answer to a missing handshake.
func curl(t *testing.T, url, token string) {
	address := "http" + strings.TrimPrefix(url, "ws")
	for _, test := range []struct {
		name, status string
		headers      []string
	}{
		{"upgrade", "101", []string{
			"Authorization: Bearer " + token, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
		}},
		{"no token", "401", []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}},
		{"no upgrade", "400", []string{"Authorization: Bearer " + token}},
		{"an old version", "400", []string{
			"Authorization: Bearer " + token, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The server keeps an upgraded connection open, so reading the headers is enough.
			arguments := []string{"-sS", "--http1.1", "-N", "-m", "2", "-o", filepath.Join(t.TempDir(), "body"), "-w", "%{http_code}"}
			for _, h := range test.headers {
				arguments = append(arguments, "-H", h)
			}
			out, err := exec.CommandContext(t.Context(), "curl", append(arguments, address)...).Output()
			if string(out) != test.status {
				t.Errorf("%s, %v; want %s", out, err, test.status)
			}
		})
	}
}

func codex(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CODEX_TEST_PROGRAMS")
	if dir == "" {
		t.Fatal("CODEX_TEST_PROGRAMS is not set: run scripts/peers")
	}
	return filepath.Join(dir, "codex")
}

// start starts codex, and stops it when the test ends. It returns its standard output.
func start(t *testing.T, arguments ...string) io.ReadCloser {
	t.Helper()
	c := exec.CommandContext(t.Context(), codex(t), arguments...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	var said strings.Builder
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Wait() // the context of the test has ended, which has stopped it
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return out
}

// serve is start for a program that prints its address.
func serve(t *testing.T, arguments ...string) string {
	t.Helper()
	out := start(t, arguments...)
	defer time.AfterFunc(limit, func() { _ = out.Close() }).Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	_, address, _ := strings.Cut(url, "://")
	if _, _, err := net.SplitHostPort(address); err != nil {
		t.Fatalf("%q: got error %v, want no error", line, err)
	}
	return url
}
