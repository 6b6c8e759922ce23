package cli

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// listening starts a server, and returns it with the URLs that it has printed.
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

// TestSeveralListeners: one server listens at several addresses and admits clients by the rules of
// each address. An option that weakens the rules of one address does not weaken those of another.
func TestSeveralListeners(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
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
	one := fmt.Sprintln(server.Process.Pid)
	run := func(url string, code int, want string, args ...string) {
		t.Helper()
		args = append(append([]string{"remote", "run", "--url", url}, args...), "--", "sh", "-c", "echo $PPID")
		if out, errs, got := harness.Run(t, "", args...); got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%s: %d %q %q, want %d %q", url, got, out, errs, code, want)
		}
	}
	run(urls[0], 0, one)
	run(urls[1], 255, "certificate required", "--ca", file("ours.pem"))
	run(urls[1], 0, one, "--ca", file("ours.pem"), "--client-cert", file("me.pem"), "--client-key", file("me.key"))
	run(open, 0, one)
	run(urls[3], 0, one)
	for _, url := range []string{open, urls[3]} {
		web := http.Client{Timeout: harness.Patience}
		res, err := web.Get("http" + strings.TrimPrefix(url, "ws") + "/readyz")
		harness.Must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s/readyz: %s", url, res.Status)
		}
	}
	if os.Geteuid() == 0 { // another user can connect only to the address that is open to all users
		for url, want := range map[string]string{open: "101", urls[3]: "403"} {
			if got := upgradeAs(65534, "http"+strings.TrimPrefix(url, "ws")); got != want {
				t.Errorf("another user at %s: %s, want %s", url, got, want)
			}
		}
	}
	// The error names the address that is in use, and the server closes the listeners before it.
	_, errs, code := harness.Run(t, "", "exec-server", "--listen", "unix://"+file("other"), "--listen", urls[3])
	if code != 1 || !strings.Contains(errs, "listen on "+strings.TrimPrefix(urls[3], "ws://")+": ") {
		t.Errorf("an address in use: %d %s", code, errs)
	}
	if _, err := os.Lstat(file("other")); err == nil {
		t.Error("the socket is left")
	}
	harness.Must(t, server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
	if _, err := os.Lstat(file("s")); err == nil {
		t.Error("the socket of the server that ended is left")
	}
}

// TestListenersAreChosenWell: the server refuses conflicting options before it listens.
func TestListenersAreChosenWell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	newAuthority(t, dir, "ours").server("server")
	newAuthority(t, dir, "clients")
	for want, args := range map[string][]string{
		"--listen stdio cannot be used with another --listen": {"--listen", "ws://127.0.0.1:0", "--listen", "stdio"},
		"is not a loopback address":                           {"--listen", "ws://127.0.0.1:0", "--listen", "ws://0.0.0.0:0"},
		"at most 16 times":                                    strings.Fields(strings.Repeat("--listen ws://127.0.0.1:0 ", 17)),
		"needs --tls-cert":                                    {"--listen", "ws://127.0.0.1:0", "--listen", "wss://127.0.0.1:0"},
		// --tls-client-ca applies only to clients of the address with TLS.
		"--listen ws://0.0.0.0:0 is not a loopback address": {"--listen", "wss://127.0.0.1:0", "--listen", "ws://0.0.0.0:0",
			"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("clients.pem")},
	} {
		if _, errs, code := harness.Run(t, "", append([]string{"exec-server"}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: got exit code %d, stderr %s; want exit code other than 0, stderr with %q", args, code, errs, want)
		}
	}
}

// upgradeAs makes curl send a websocket request as another user, and returns the status of the
// response. The arguments are passed to curl.
func upgradeAs(user uint32, args ...string) string {
	cmd := exec.Command("curl", append([]string{
		"-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "2", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket",
		"-H", "Sec-WebSocket-Version: 13", "-H", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
	}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, _ := cmd.Output() // an accepted websocket stays open until curl's time limit
	return string(out)
}

// TestListensOnOneFamily: a wildcard address of IPv4 does not include IPv6.
func TestListensOnOneFamily(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(harness.Codex, "exec-server", "--listen", "ws://0.0.0.0:0", "--allow-unauthenticated-bind")
	cmd.Stderr = harness.ShownOnFailure(t)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil || !strings.HasPrefix(string(line[:n]), "ws://0.0.0.0:") {
		t.Errorf(`got line[:n] %q, error %v; want no error, line[:n] beginning with "ws://0.0.0.0:"`, line[:n], err)
	}
	harness.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}
