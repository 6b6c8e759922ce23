//go:build interop

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/faultproxy"
)

// corner is an executor and a client that meet at a rendezvous service of this project.
type corner struct {
	t            *testing.T
	meeting      *harness.Meeting
	state, token string
	// The faulty network between each of them and the service. A proxy can only reset connections
	// to a service that has ended, but a real network refuses them. In that case no proxy is used.
	executor, client *faultproxy.Proxy
}

func newCorner(t *testing.T, executor string, direct bool) *corner {
	t.Helper()
	dir := t.TempDir()
	c := &corner{t: t, state: filepath.Join(dir, "state.json")}
	c.meeting = harness.Rendezvous(t, filepath.Join(dir, "tokens.json"), "--state", c.state)
	c.token = c.meeting.Token("--role", "both", "--environment", "*")
	if !direct {
		c.executor, c.client = c.proxy(), c.proxy()
	}
	cmd := exec.Command(executor, "exec-server", "--remote", c.reach(c.executor), "--environment-id", "env-1")
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "CODEX_HOME="+home, "CODEX_API_KEY="+c.token)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c.meeting.Await(c.token, "the executor", func(s harness.MeetingStatus) bool { return s.Connected })
	return c
}

func (c *corner) proxy() *faultproxy.Proxy {
	c.t.Helper()
	p, err := faultproxy.New(c.t.Context(), strings.TrimPrefix(c.meeting.URL, "http://"), faultproxy.Plan{})
	harness.Must(c.t, err)
	c.t.Cleanup(p.Close)
	return p
}

// reach returns the URL of the service, which leads through the proxy if it is not nil.
func (c *corner) reach(proxy *faultproxy.Proxy) string {
	if proxy == nil {
		return c.meeting.URL
	}
	return "http://" + proxy.Addr()
}

// The faults that a test can cause.
const (
	clientCut   = "client cut off"
	executorCut = "executor cut off"
	restart     = "service restarted"
	kill        = "service killed"
)

func (c *corner) strike(what string) {
	switch what {
	case clientCut:
		c.client.Cut()
		return
	case executorCut:
		c.executor.Cut()
		return
	case restart:
		c.meeting.End()
	case kill:
		_ = c.meeting.Cmd.Process.Kill()
		_ = c.meeting.Cmd.Wait()
	}
	c.meeting = harness.Rendezvous(c.t, c.meeting.Tokens, "--state", c.state, "--listen", strings.TrimPrefix(c.meeting.URL, "http://"))
}

// run makes a client run a command and returns its output.
func (c *corner) run(client, command string) (string, error) {
	env := []string{
		"CODEX_EXEC_SERVER_NOISE_REGISTRY_URL=" + c.reach(c.client), "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID=env-1",
		"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=" + c.token,
	}
	if client != harness.Codex {
		// No server listens at this URL: the other variables take precedence.
		return printing(c.t, "ws://127.0.0.1:1", command, env...)
	}
	cmd := exec.CommandContext(c.t.Context(), client, "remote", "run", "--", "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprintf("%sexited with code %d\n%s", out, exit.ExitCode(), exit.Stderr), nil
	}
	return string(out), err
}

// through makes a command print, causes a fault in the middle of the output, and returns the
// client's output and the duration of the second half.
func (c *corner) through(client, what string) (out string, took time.Duration, err error) {
	name := filepath.Join(c.t.TempDir(), "middle")
	harness.Must(c.t, syscall.Mkfifo(name, 0o600))
	middle, err := os.OpenFile(name, os.O_RDWR, 0)
	harness.Must(c.t, err)
	defer middle.Close()
	var running sync.WaitGroup
	running.Go(func() {
		out, err = c.run(client, numberedLines("echo > "+name))
		_, _ = middle.Write([]byte{'\n'}) // the command may not have reached the middle
	})
	if _, err := middle.Read(make([]byte, 1)); err != nil {
		c.t.Errorf("the middle of the command: %v", err)
	}
	began := time.Now()
	c.strike(what)
	running.Wait()
	return out, time.Since(began), err
}

// unreached is the message of Codex CLI's client about a service to which it had a connection for a
// moment. If a connection is refused, the client tries again. A killed service may cause this
// message. A service that shuts down normally does not.
const unreached = "environment registry request failed: error sending request for url"

// TestCorners breaks the path between executors and clients while a command prints. No output is
// lost, whichever programs are the two ends.
func TestCorners(t *testing.T) {
	upstream := variable(t, upstreamVariable)
	names := map[string]string{harness.Codex: "ours", upstream: "theirs"}
	for executor := range names {
		for client := range names {
			for _, what := range []string{clientCut, executorCut, restart, kill} {
				name := fmt.Sprintf("executor %-7s  client %-7s  %-17s", names[executor], names[client], what)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := newCorner(t, executor, what == restart || what == kill)
					out, took, err := c.through(client, what)
					switch lost := allLines(out); {
					case err != nil:
						t.Fatal(err)
					case lost == nil:
						t.Logf("corner: %s  all output, %.1f s", name, took.Seconds())
					case client == upstream && what == kill && strings.Contains(out, unreached):
						t.Logf("corner: %s  given up by the client: %s", name, unreached)
					default:
						t.Fatalf("output was lost: %v", lost)
					}
				})
			}
		}
	}
}
