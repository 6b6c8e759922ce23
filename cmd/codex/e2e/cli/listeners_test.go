//go:build linux

package cli

import (
	"bufio"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// listening starts a server and returns it with the URLs that it prints.
func listening(t *testing.T, args ...string) (cmd *exec.Cmd, urls []string) {
	t.Helper()
	cmd = exec.Command(harness.Codex, append([]string{"exec-server"}, args...)...)
	cmd.Stderr = harness.ShownOnFailure(t)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	for _, arg := range args {
		if arg != "--listen" {
			continue
		}
		line, err := lines.ReadString('\n')
		harness.Must(t, err)
		urls = append(urls, strings.TrimSpace(line))
	}
	return cmd, urls
}

// TestSeveralListeners: one server listens at several addresses and admits clients by the
// rules of each. What weakens the rules of one address does not weaken those of another.
func TestSeveralListeners(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ours, clients := newAuthority(t, dir, "ours"), newAuthority(t, dir, "clients")
	ours.server("server")
	clients.client("me")
	server, urls := listening(t, "--listen", "unix://"+file("s"), "--listen", "wss://127.0.0.1:0", "--listen", "ws://0.0.0.0:0",
		"--listen", "ws://127.0.0.1:0", "--allow-unauthenticated-bind",
		"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("clients.pem"))
	for i, prefix := range []string{"unix://" + file("s"), "wss://127.0.0.1:", "ws://0.0.0.0:", "ws://127.0.0.1:"} {
		if !strings.HasPrefix(urls[i], prefix) {
			t.Fatalf("URL %d is %s, not %s", i+1, urls[i], prefix)
		}
	}
	open := strings.Replace(urls[2], "0.0.0.0", "127.0.0.1", 1)
	run := func(url string, code int, want string, args ...string) {
		t.Helper()
		args = append(append([]string{"remote", "run", "--url", url}, args...), "--", "sh", "-c", "ps -o ppid= -p $$")
		if out, errs, got := harness.Run(t, "", args...); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%s: %d %q %q, want %d %q", url, got, out, errs, code, want)
		}
	}
	run(urls[0], 0, "\n")
	run(urls[1], 255, "certificate required", "--ca", file("ours.pem"))
	run(urls[1], 0, "\n", "--ca", file("ours.pem"), "--client-cert", file("me.pem"), "--client-key", file("me.key"))
	run(open, 0, "\n")
	run(urls[3], 0, "\n")
	for _, url := range []string{open, urls[3]} {
		res, err := http.Get("http" + strings.TrimPrefix(url, "ws") + "/readyz")
		harness.Must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s/readyz: %s", url, res.Status)
		}
	}
	if os.Geteuid() == 0 {
		// Another user passes where everybody does, and nowhere else.
		as := func(url string) int {
			cmd := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket",
				"-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "-m", "2", "http"+strings.TrimPrefix(url, "ws"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, _ := cmd.Output() // a websocket goes on until curl's time is over
			return int(netip.MustParseAddrPort("0.0.0.0:" + string(out)).Port())
		}
		if got := as(open); got != http.StatusSwitchingProtocols {
			t.Errorf("another user at %s: %d", open, got)
		}
		if got := as(urls[3]); got != http.StatusForbidden {
			t.Errorf("another user at %s: %d", urls[3], got)
		}
	}
	// An address in use is named, and those before it are left as they were.
	_, errs, code := harness.Run(t, "", "exec-server", "--listen", "unix://"+file("other"), "--listen", urls[3])
	if code != 1 || !strings.Contains(errs, "listen on "+strings.TrimPrefix(urls[3], "ws://")+": ") {
		t.Errorf("an address in use: %d %s", code, errs)
	}
	if _, err := os.Lstat(file("other")); err == nil {
		t.Error("the socket is left")
	}
	for want, args := range map[string][]string{
		"--listen stdio cannot be used with another --listen": {"--listen", urls[3], "--listen", "stdio"},
		"is not a loopback address":                           {"--listen", "ws://127.0.0.1:0", "--listen", "ws://0.0.0.0:0"},
		"at most 16 times":                                    strings.Fields(strings.Repeat("--listen ws://127.0.0.1:0 ", 17)),
		"needs --tls-cert":                                    {"--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0"},
		// A certificate is asked for where there is TLS.
		"--listen ws://0.0.0.0:0 is not a loopback address": {"--listen", "wss://127.0.0.1:0", "--listen", "ws://0.0.0.0:0",
			"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("clients.pem")},
	} {
		if _, errs, code := harness.Run(t, "", append([]string{"exec-server"}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	harness.Must(t, server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
	if _, err := os.Lstat(file("s")); err == nil {
		t.Error("the socket of the server that ended is left")
	}
}
