package rendezvous

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// executor starts codex exec-server --remote and waits until it is connected.
func executor(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return connected(t, env, exec.Command(harness.Codex, append([]string{"exec-server"}, args...)...))
}

// connected starts a command that execs an executor, and waits until the executor is connected.
func connected(t *testing.T, env []string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	cmd.Env = env
	stderr, err := cmd.StderrPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(stderr)
	var said strings.Builder
	for {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			t.Fatalf("the executor ends: %s", said.String())
		}
		if strings.Contains(line, `msg="connected to the relay"`) {
			break
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-drained })
	return cmd
}

// registryEnv returns the environment of a client that uses a registry.
func registryEnv(env []string, m *harness.Meeting, token string) []string {
	return append(env[:len(env):len(env)], "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL="+m.URL, "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN="+token)
}

// TestRemoteEnvironment: a client and an executor meet at a service with its own certificate. Each
// has a token for its role only.
func TestRemoteEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, _ := certificate(t, dir)
	m := harness.Rendezvous(t, filepath.Join(dir, "tokens.json"), "--tls-cert", cert, "--tls-key", key)
	home, env := harness.HomeDirectory(t, nil)
	env = append(env, "CODEX_CA_CERTIFICATE="+cert)
	theirs := m.Token("--role", "executor", "--environment", "ci-*")
	executor(t, append(env, "CODEX_RENDEZVOUS_TOKEN="+theirs), "--remote", m.URL+"/", "--environment-id", " ci-1 ", "--name", "a name")
	client := registryEnv(env, m, m.Token("--role", "harness", "--environment", "ci-1"))

	out, errs, code := harness.RunWith(t, client, home, "in", "remote", "--env", "ci-1", "run", "--", "sh", "-c", "cat; env | grep cxr_; echo err >&2; exit 7")
	if code != 7 || out != "in" || errs != "err\n" {
		t.Errorf("run: %d %q %q", code, out, errs)
	}
	big := filepath.Join(dir, "big")
	harness.Must(t, os.WriteFile(big, []byte(strings.Repeat("0123456789abcdef", 1<<18)), 0o600))
	if out, errs, code := harness.RunWith(t, client, home, "", "remote", "--env", "ci-1", "cat", big); code != 0 || len(out) != 4<<20 {
		t.Errorf("cat: %d, %d bytes, %q", code, len(out), errs)
	}
	named := append(client[:len(client):len(client)], "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID=ci-1")
	if out, errs, code := harness.RunWith(t, named, home, "", "environments", "check"); code != 0 || !strings.Contains(out, "remote  ok ") {
		t.Errorf("check: %d %q %q", code, out, errs)
	}
	if _, errs, code := harness.RunWith(t, client, home, "", "remote", "--env", "ci-2", "info"); code != 255 || !strings.Contains(errs, "authentication failed (403 Forbidden)") {
		t.Errorf("an environment that the token is not for: %d %q", code, errs)
	}
	// The executor's token is not valid for clients.
	if _, errs, code := harness.RunWith(t, registryEnv(env, m, theirs), home, "", "remote", "--env", "ci-1", "info"); code != 255 || !strings.Contains(errs, "authentication failed (403 Forbidden)") {
		t.Errorf("the executor's token: %d %q", code, errs)
	}
	if _, errs, code := harness.RunWith(t, registryEnv(env[:len(env)-1], m, theirs), home, "", "remote", "--env", "ci-1", "info"); code != 255 || !strings.Contains(errs, "certificate signed by unknown authority") {
		t.Errorf("an unknown authority: %d %q", code, errs)
	}

	// The file of environments names the authority, and Codex CLI starts this program.
	token := filepath.Join(dir, "token")
	harness.Must(t, os.WriteFile(token, []byte(m.Token("--role", "harness", "--environment", "ci-1")), 0o600))
	plain := env[:len(env)-1]
	_, errs, code = harness.RunWith(t, plain, home, "", "environments", "add", "box", "--rendezvous", m.URL, "--environment-id", "ci-1", "--token-file", token, "--ca", cert, "--default")
	if code != 0 {
		t.Fatalf("add: %d %q", code, errs)
	}
	if out, errs, code := harness.RunWith(t, plain, home, "", "remote", "run", "--", "echo", "there"); code != 0 || out != "there\n" {
		t.Errorf("run in the file's environment: %d %q %q", code, out, errs)
	}
	c, err := execclient.StartCommand(t.Context(), harness.WrittenProgram(t, home, plain, "box"), execclient.Options{})
	harness.Must(t, err)
	if out, err := c.CommandContext(t.Context(), "echo", "there").Output(); err != nil || string(out) != "there\n" {
		t.Errorf("through the program: %q, %v", out, err)
	}
	harness.Must(t, c.Close())
}

// TestForward: a client reaches a listening server through a program that registers for it. It also
// does so after the server was down for a while.
func TestForward(t *testing.T) {
	t.Parallel()
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	home, env := harness.HomeDirectory(t, nil)
	url := "unix://" + filepath.Join(t.TempDir(), "socket")
	forward := executor(t, append(env, "CODEX_RENDEZVOUS_TOKEN="+m.Token("--role", "executor", "--environment", "e")),
		"forward", "--remote", m.URL, "--environment-id", "e", "--connect", url)
	client := registryEnv(env, m, m.Token("--role", "harness", "--environment", "e"))
	run := func(args ...string) (out, errs string, code int) {
		t.Helper()
		return harness.RunWith(t, client, home, "in", append([]string{"remote", "--env", "e"}, args...)...)
	}
	if out, errs, code := run("info"); code != 255 || errs == "" {
		t.Errorf("without a server: %d %q %q", code, out, errs)
	}
	for range 2 {
		server, _ := harness.Server(t, "--listen", url)
		out, errs, code := run("run", "--", "sh", "-c", "cat; head -c 3000000 /dev/zero; echo err >&2; exit 7")
		if code != 7 || len(out) != 3000002 || !strings.HasPrefix(out, "in") || errs != "err\n" {
			t.Errorf("run: %d, %d bytes, %q", code, len(out), errs)
		}
		harness.Must(t, server.Process.Kill())
		_ = server.Wait()
	}
	harness.Must(t, forward.Process.Signal(syscall.SIGTERM))
	if err := forward.Wait(); err != nil {
		t.Error(err)
	}
}

// A program that inherits blocked signals executes itself once more. It must still have its secrets
// then.
func TestExecutorInheritsBlockedSignals(t *testing.T) {
	t.Parallel()
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	home, env := harness.HomeDirectory(t, nil)
	cmd := connected(t, append(env, "CODEX_RENDEZVOUS_TOKEN="+m.Token("--role", "executor", "--environment", "e")),
		exec.Command("env", "--block-signal", harness.Codex, "exec-server", "--remote", m.URL, "--environment-id", "e"))
	client := registryEnv(env, m, m.Token("--role", "harness", "--environment", "e"))
	if out, errs, code := harness.RunWith(t, client, home, "", "remote", "--env", "e", "run", "--", "grep", "SigBlk", "/proc/self/status"); code != 0 || out != "SigBlk:\t0000000000000000\n" {
		t.Errorf("run: %d %q %q", code, out, errs)
	}
	harness.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	const config = "environment registry configuration error: "
	const makeToken = "\nhint: for codex rendezvous set CODEX_RENDEZVOUS_TOKEN to a token: on its machine, run codex rendezvous token create --role executor"
	for _, tt := range []struct {
		name, variable string
		args           []string
		want           string
	}{
		{"blank id", "CODEX_API_KEY=k", []string{"--remote", m.URL, "--environment-id", " "}, config + "environment id is required for remote exec-server registration"},
		{"blank URL", "CODEX_ACCESS_TOKEN=", []string{"--remote", " ", "--environment-id", "e"}, "remote exec-server registration requires ChatGPT authentication or API key authentication; run `codex login` or set CODEX_API_KEY" + makeToken},
		{"wrong key", "CODEX_API_KEY=k", []string{"--remote", m.URL, "--environment-id", "e"}, "environment registry authentication error: environment registry authentication failed (401 Unauthorized): the token is unknown, revoked or expired\nhint: set CODEX_RENDEZVOUS_TOKEN to a token of that service"},
		{"key for others", "CODEX_API_KEY=k", []string{"--remote", "https://example.com", "--environment-id", "e"}, "remote exec-server API-key authentication is restricted to HTTPS openai.com and openai.org hosts and subdomains or loopback hosts" + makeToken},
		{"token in the clear", "CODEX_RENDEZVOUS_TOKEN=k", []string{"--remote", "http://example.com", "--environment-id", "e"}, "CODEX_RENDEZVOUS_TOKEN is sent only over https, or to a loopback address\nhint: give --remote https://HOST:PORT"},
		{"no scheme", "CODEX_RENDEZVOUS_TOKEN=k", []string{"--remote", "example.com:1", "--environment-id", "e"}, "remote exec-server registration URL must include a host\nhint: give --remote https://HOST:PORT"},
		{"no agent", "CODEX_API_KEY=k", []string{"--remote", m.URL, "--environment-id", "e", "--use-agent-identity-auth"}, "CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set"},
		{"no registry there", "CODEX_API_KEY=k", []string{"--remote", "http://127.0.0.1:1/", "--environment-id", "e"}, "environment registry request failed: error sending request for url (http://127.0.0.1:1/cloud/environment/e/register)\n\nCaused by:\n    dial tcp 127.0.0.1:1: connect: connection refused\nhint: is codex rendezvous running there?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, env := harness.HomeDirectory(t, nil)
			out, errs, code := harness.RunWith(t, append(env, tt.variable), home, "", append([]string{"exec-server"}, tt.args...)...)
			if code != 1 || out != "" || harness.WithoutLog(errs) != fmt.Sprintf("Error: %s\n", tt.want) {
				t.Errorf("exit code %d, %q %q\nwant %q", code, out, errs, tt.want)
			}
		})
	}
	home, env := harness.HomeDirectory(t, nil)
	if _, errs, code := harness.RunWith(t, env, home, "", "exec-server", "--remote", m.URL, "--environment-id", "e", "--ws-auth", "capability-token", "--ws-token-sha256", strings.Repeat("0", 64)); code != 2 || !strings.Contains(errs, "--ws-auth") {
		t.Errorf("--ws-auth: %d %q", code, errs)
	}
}
