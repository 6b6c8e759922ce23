//go:build interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// startUpstream runs Codex CLI with an empty home until the test ends.
func startUpstream(t *testing.T, args []string, stdin string, env ...string) {
	t.Helper()
	cmd := exec.Command(variable(t, upstreamVariable), args...)
	home := t.TempDir()
	cmd.Env = append(append(os.Environ(), "HOME="+home, "CODEX_HOME="+home), env...)
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = in.Write([]byte(stdin))
	harness.Must(t, err)
}

// TestUpstreamMeetsItself: Codex CLI's executor and harness find each other through this project's
// service, and the executor reconnects to the service.
func TestUpstreamMeetsItself(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state.json")
	m := harness.Rendezvous(t, filepath.Join(dir, "tokens.json"), "--state", state)
	token := m.Token("--role", "both", "--environment", "*")
	startUpstream(t, []string{"exec-server", "--remote", m.URL, "--environment-id", "env-1"}, "", "CODEX_API_KEY="+token)
	first := m.Await(token, "the executor", func(s harness.MeetingStatus) bool { return s.Connected })
	startUpstream(t, []string{"app-server"}, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}
{"method":"initialized"}
`, "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL="+m.URL, "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID=env-1", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN="+token)
	// Client to server: resume, handshake, initialize, initialized. Server to client: the responses.
	m.Await(token, "the handshake and initialize", func(s harness.MeetingStatus) bool { return s.Harnesses == 1 && s.Up.Frames >= 4 && s.Down.Frames >= 2 })
	m.End()
	again := harness.Rendezvous(t, m.Tokens, "--state", state, "--listen", strings.TrimPrefix(m.URL, "http://"))
	s := again.Await(token, "the executor comes back", func(s harness.MeetingStatus) bool { return s.Connected })
	if s.Registration != first.Registration {
		t.Errorf("it has registered again: %+v, then %+v", first, s)
	}
}
