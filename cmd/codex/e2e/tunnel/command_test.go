package tunnel

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// forward starts codex remote forward, and returns the lines that it prints when it is ready.
func forward(t *testing.T, env []string, lines int, args ...string) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command(harness.Codex, append([]string{"remote"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = harness.ShownOnFailure(t)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := bufio.NewReader(out)
	var said []string
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("it said %q, and ended", said)
		}
		said = append(said, strings.TrimSuffix(line, "\n"))
	}
	return cmd, said
}

// webServer starts a program on the server's machine, and returns its port.
func webServer(t *testing.T) (port uint16) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return uint16(s.Listener.Addr().(*net.TCPAddr).Port)
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	r, err := client.Get(url)
	harness.Must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	harness.Must(t, err)
	return string(text)
}

// awaitRefusal waits until no program listens at an address. A child of the server may have the
// socket open for a moment, between its fork and its exec.
func awaitRefusal(t *testing.T, address string) {
	t.Helper()
	harness.Eventually(t, "listener at "+address, func() []string {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return []string{address}
	})
}

// ways are the ways to connect a client to a server: options, and environment variables.
func ways(t *testing.T) map[string][2][]string {
	t.Helper()
	_, direct := harness.Server(t)
	_, socket := harness.Server(t, "--listen", "unix://"+filepath.Join(t.TempDir(), "s"))

	home := t.TempDir()
	config := fmt.Sprintf("[[environments]]\nid = \"child\"\nprogram = %q\nargs = [\"exec-server\", \"--listen\", \"stdio\"]\n", harness.Codex)
	harness.Must(t, os.WriteFile(filepath.Join(home, "environments.toml"), []byte(config), 0o600))

	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	executor := exec.Command(harness.Codex, "exec-server", "--remote", m.URL, "--environment-id", "e")
	executor.Env = append(os.Environ(), "CODEX_RENDEZVOUS_TOKEN="+m.Token("--role", "executor", "--environment", "e"))
	executor.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, executor.Start())
	t.Cleanup(func() {
		_ = executor.Process.Kill()
		_ = executor.Wait()
	})
	client := m.Token("--role", "harness", "--environment", "e")
	relayed := []string{"CODEX_EXEC_SERVER_NOISE_REGISTRY_URL=" + m.URL, "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=" + client}
	harness.Eventually(t, "the executor is registered", func() []string {
		info := exec.Command(harness.Codex, "remote", "info", "--env", "e")
		info.Env = append(os.Environ(), relayed...)
		if out, err := info.CombinedOutput(); err != nil {
			return []string{string(out)}
		}
		return nil
	})
	return map[string][2][]string{
		"direct":     {{"--url", direct}},
		"unix":       {{"--url", socket}},
		"stdio":      {{"--env", "child"}, {"CODEX_HOME=" + home}},
		"rendezvous": {{"--env", "e"}, relayed},
	}
}

// TestForward: each option of the command carries requests, over each way to a server.
func TestForward(t *testing.T) {
	t.Parallel()
	port := webServer(t)
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			args := append(way[0], "forward", "0:"+portText(port), "-D", "0", "-R", "0:"+portText(port))
			cmd, said := forward(t, way[1], 3, args...)
			here := strings.Fields(said[0])[0]
			if got := get(t, http.DefaultClient, "http://"+here+"/here"); got != "hello /here" {
				t.Errorf("through %s: %q", here, got)
			}
			proxy, err := url.Parse("socks5h://" + strings.Fields(said[1])[0])
			harness.Must(t, err)
			transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
			defer transport.CloseIdleConnections()
			// Go uses no proxy for this machine, so this test gives it another name.
			if got := get(t, &http.Client{Transport: transport}, fmt.Sprintf("http://0.0.0.0:%d/socks", port)); got != "hello /socks" {
				t.Errorf("through SOCKS: %q", got)
			}
			there := strings.Fields(said[2])[0]
			if got := get(t, http.DefaultClient, "http://"+there+"/there"); got != "hello /there" {
				t.Errorf("through %s of the server: %q", there, got)
			}
			http.DefaultClient.CloseIdleConnections()
			harness.Must(t, cmd.Process.Signal(syscall.SIGINT))
			_ = cmd.Wait()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("an interrupted command ends with %v", cmd.ProcessState)
			}
			awaitRefusal(t, there)

			ask := exec.Command(harness.Codex, append(append([]string{"remote"}, way[0]...), "forward", "-W", fmt.Sprintf("127.0.0.1:%d", port))...)
			ask.Env = append(os.Environ(), way[1]...)
			ask.Stdin = strings.NewReader("GET /stdio HTTP/1.0\r\n\r\n")
			if out, err := ask.Output(); err != nil || !strings.HasSuffix(string(out), "hello /stdio") {
				t.Errorf("-W: %q, %v", out, err)
			}
		})
	}
}

func TestForwardErrors(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	defer taken.Close()
	port := portText(uint16(taken.Addr().(*net.TCPAddr).Port))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "forward needs a port"},
		{"x", 2, `"x" is not PORT`},
		{"1:2:3:4:5", 2, "is not PORT"},
		{"0", 2, "port 0 needs"},
		{"-D x", 2, "-D: \"x\" is not PORT or ADDRESS:PORT"},
		{"-R a:1:b:2", 2, "-R: \"a:1:b:2\" is not"},
		{"-W localhost", 2, "-W: \"localhost\" is not HOST:PORT"},
		{"-W localhost:1 80", 2, "-W cannot be combined with"},
		{"-W no-such-host.invalid:1", 1, "connect to no-such-host.invalid:1: no such host"},
		{"-W /nonexistent", 1, "connect to /nonexistent: no such file or directory"},
		{port + ":80", 1, "listen on localhost:" + port + ": bind: address already in use"},
		{"-R " + port + ":80", 1, "listen on port " + port + " of the server: address already in use"},
	} {
		args := append([]string{"remote", "--url", url, "forward"}, strings.Fields(tt.args)...)
		if out, errs, code := harness.Run(t, "", args...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("forward %s: exit code %d, %q, %q", tt.args, code, out, errs)
		}
	}
}

// TestForwardWhileRunning runs a command with a forwarded port of its server.
func TestForwardWhileRunning(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	port := webServer(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "-L", "0:"+portText(port), "--", "cat")
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	errs, err := cmd.StderrPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	here, _, found := strings.Cut(strings.TrimPrefix(line, "codex: "), " leads to ")
	if err != nil || !found {
		t.Fatalf("it says %q, %v", line, err)
	}
	if got := get(t, http.DefaultClient, "http://"+here+"/x"); got != "hello /x" {
		t.Errorf(`got %q, want "hello /x"`, got)
	}
	harness.Must(t, in.Close())
	harness.Must(t, cmd.Wait())
	awaitRefusal(t, here)
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--detach", "-L", "80", "--", "true"); code != 2 || !strings.Contains(errs, "--forward") {
		t.Errorf("--detach -L: %d %q", code, errs)
	}
}

// TestSSH: ssh, and git and rsync over ssh, reach a host through -W over a rendezvous.
func TestSSH(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"ssh", "ssh-keygen", "git", "rsync"} {
		_, err := exec.LookPath(program)
		testutil.Need(t, program, err, exec.ErrNotFound)
	}
	const sshd = "/usr/sbin/sshd"
	_, err := os.Stat(sshd)
	testutil.Need(t, sshd, err, os.ErrNotExist)
	dir, err := os.MkdirTemp("/var/tmp", "ssh") // its parent directories must belong to root
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: got error %v, stdout:\n%s\nwant no error", name, args, err, out)
		}
		return string(out)
	}
	for _, key := range []string{"host", "user"} {
		run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key))
	}
	public, err := os.ReadFile(filepath.Join(dir, "user.pub"))
	harness.Must(t, err)
	harness.Must(t, os.WriteFile(filepath.Join(dir, "authorized"), public, 0o600))
	port := portText(freePort(t))
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755)
	}
	daemon := exec.Command(sshd, "-D", "-e", "-f", "/dev/null", "-p", port, "-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "UsePAM=no",
		"-h", filepath.Join(dir, "host"), "-o", "StrictModes=no", "-o", "AuthorizedKeysFile="+filepath.Join(dir, "authorized"))
	daemon.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	testutil.Eventually(t.Context(), t, "sshd listens", func() (string, bool) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return fmt.Sprint(err), err == nil
	})

	way := ways(t)["rendezvous"]
	proxy := strings.Join(append(append([]string{"env"}, way[1]...), append([]string{harness.Codex, "remote"}, append(way[0], "forward", "-W", "%h:%p")...)...), " ")
	config := fmt.Sprintf("Host box\n HostName 127.0.0.1\n Port %s\n IdentityFile %s\n IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile %s\n LogLevel ERROR\n ProxyCommand %s\n",
		port, filepath.Join(dir, "user"), filepath.Join(dir, "known"), proxy)
	sshConfig := filepath.Join(dir, "config")
	harness.Must(t, os.WriteFile(sshConfig, []byte(config), 0o600))
	if out := run("ssh", "-F", sshConfig, "box", "echo through a tunnel"); out != "through a tunnel\n" {
		t.Errorf("ssh: %q", out)
	}
	big := filepath.Join(dir, "big")
	harness.Must(t, os.WriteFile(big, bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600))
	if out := run("ssh", "-F", sshConfig, "box", "cat "+big+" | sha256sum"); out != run("sh", "-c", "sha256sum < "+big) {
		t.Errorf("ssh: %q", out)
	}
	run("git", "init", "-q", "--bare", "far.git")
	run("git", "init", "-q", "near")
	git := func(args ...string) string {
		return run("git", append([]string{"-C", "near", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.sshCommand=ssh -F " + sshConfig}, args...)...)
	}
	git("commit", "-q", "--allow-empty", "-m", "over ssh")
	git("push", "-q", "box:"+filepath.Join(dir, "far.git"), "HEAD:refs/heads/pushed")
	if out := run("git", "-C", "far.git", "log", "--format=%s", "pushed"); out != "over ssh\n" {
		t.Errorf("git: %q", out)
	}
	tree := filepath.Join(dir, "tree")
	for i := range 200 {
		sub := filepath.Join(tree, fmt.Sprint(i%10))
		harness.Must(t, os.MkdirAll(sub, 0o755))
		harness.Must(t, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 100*i), 0o640))
	}
	harness.Must(t, os.Symlink("0/0", filepath.Join(tree, "link")))
	run("rsync", "-a", "-e", "ssh -F "+sshConfig, tree+"/", "box:"+filepath.Join(dir, "there"))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "there", "1", "1"), []byte("changed"), 0o600))
	harness.Must(t, os.Remove(filepath.Join(dir, "there", "2", "2")))
	run("rsync", "-a", "--checksum", "--delete", "-e", "ssh -F "+sshConfig, "box:"+filepath.Join(dir, "there")+"/", filepath.Join(dir, "back"))
	run("diff", "-r", "--no-dereference", filepath.Join(dir, "there"), filepath.Join(dir, "back"))
	if out := run("rsync", "-an", "--checksum", "--delete", "-i", "-e", "ssh -F "+sshConfig, tree+"/", "box:"+filepath.Join(dir, "there")); !strings.Contains(out, " 1/1\n") || !strings.Contains(out, " 2/2\n") {
		t.Errorf("rsync finds the changes %q", out)
	}
}
