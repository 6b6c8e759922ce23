//go:build linux

package cli

import (
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// TestCauses: each cause that needs no cgroup is told to the client and the log, without a
// sandbox and with each backend. scripts/services shows memory and pids.
func TestCauses(t *testing.T) {
	harness.NeedSandbox(t)
	const readOnly = `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}}`
	for _, backend := range []string{"none", "namespaces", "bwrap", "landlock"} {
		t.Run(backend, func(t *testing.T) {
			log, args := &serverLog{}, []string{"--log-format", "json", "--session-ttl", "1ms"}
			var sandbox []byte
			if backend != "none" {
				sandbox, args = []byte(readOnly), append(args, "--sandbox-backend", backend)
			}
			server, url := harness.ServerLogging(t, log, args...)
			c, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{RecoveryTimeout: -1})
			harness.Must(t, err)
			start := func(c *execclient.Client, id, script string, limits *execproto.ProcessLimits) *execclient.Process {
				p, err := c.Start(t.Context(), execproto.StartParams{
					ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}, Sandbox: sandbox, Limits: limits,
				})
				harness.Must(t, err)
				return p
			}
			logged := func(id string, want execproto.Cause) {
				harness.Eventually(t, id+": another cause than "+string(want)+" in the log", func() []string {
					if got := log.cause(t, id); got != string(want) {
						return []string{got}
					}
					return nil
				})
			}
			ofSignal := execproto.CauseExit
			if sandbox != nil { // whose launcher tells a status alone
				ofSignal = execproto.CauseSignal
			}
			for _, tt := range []struct {
				id, script string
				limits     *execproto.ProcessLimits
				code       int
				want       execproto.Cause
			}{
				{"exit", "exit 3", nil, 3, execproto.CauseExit},
				{"status 137", "exit 137", nil, 137, ofSignal},
				{"signal", "kill -KILL $$", nil, 137, execproto.CauseSignal},
				{"timeout", "sleep 1000", &execproto.ProcessLimits{WallMS: 300}, 137, execproto.CauseTimeout},
				{"output", "yes", &execproto.ProcessLimits{OutputBytes: 100}, 137, execproto.CauseOutput},
				{"cpu", "while :; do :; done", &execproto.ProcessLimits{CPUSeconds: 1}, 152, execproto.CauseCPU},
				{"terminated", "sleep 1000", nil, 137, execproto.CauseTerminated},
			} {
				p := start(c, tt.id, tt.script, tt.limits)
				if tt.want == execproto.CauseTerminated {
					_, err := p.Terminate(t.Context())
					harness.Must(t, err)
				}
				end, err := p.WaitClosed(t.Context())
				if err != nil || end.Code != tt.code || end.Cause != tt.want {
					t.Errorf("%s: %+v, %v, want %d, %s", tt.id, end, err, tt.code, tt.want)
				}
				p.Release()
				logged(tt.id, tt.want)
			}
			start(c, "session", "sleep 1000", nil)
			harness.Must(t, c.Close())
			logged("session", execproto.CauseSessionEnded)
			other, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{RecoveryTimeout: -1})
			harness.Must(t, err)
			defer other.Close()
			start(other, "server", "sleep 1000", nil)
			began := time.Now()
			harness.Must(t, server.Process.Signal(syscall.SIGTERM))
			_ = server.Wait()
			logged("server", execproto.CauseServerStopped)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("the server has ended after %v", took)
			}
		})
	}
}
