package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestRefusedPolicy: if a sandbox cannot be set up, nothing runs, and process/exited names the
// refused policy and the reason. If a command itself ends in the same way, it is not reported as
// refused.
func TestRefusedPolicy(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	harness.Must(t, err)
	// The path is a link in a writable directory, so the launcher cannot enforce a denial of it.
	harness.Must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	harness.Must(t, os.Symlink("real", filepath.Join(dir, "link")))
	for _, tt := range []struct {
		name, denied, script string
		refused              bool
	}{
		{"refused", "link", "touch ran", true},
		{"not refused", "real", "echo 'codex-linux-sandbox: cannot make the sandbox' >&2; exit 125", false},
	} {
		cmd := exec.CommandContext(t.Context(), harness.Codex, "exec-server", "--listen", "stdio")
		stdin, err := cmd.StdinPipe()
		harness.Must(t, err)
		stdout, err := cmd.StdoutPipe()
		harness.Must(t, err)
		harness.Must(t, cmd.Start())
		script, err := json.Marshal(tt.script)
		harness.Must(t, err)
		_, err = fmt.Fprintf(stdin, `{"id":1,"method":"initialize","params":{"clientName":"t"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["/bin/sh","-c",%s],"cwd":"file://%s","env":{"PATH":"/usr/bin:/bin"},"tty":false,"sandbox":{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"file://%s"},"access":"write"},{"path":{"type":"path","path":"file://%s/%s"},"access":"deny"}]}},"cwd":"file://%s"}}}
`, script, dir, dir, dir, tt.denied, dir)
		harness.Must(t, err)
		exited := ""
		lines := bufio.NewScanner(stdout)
		for exited == "" && lines.Scan() {
			if strings.Contains(lines.Text(), `"process/exited"`) {
				exited = lines.Text()
			}
		}
		harness.Must(t, stdin.Close())
		_ = cmd.Wait()
		var n struct {
			Params struct {
				ExitCode       int
				SandboxRefusal *struct {
					Policy json.RawMessage
					Reason string
				}
			}
		}
		harness.Must(t, json.Unmarshal([]byte(exited), &n))
		r := n.Params.SandboxRefusal
		if n.Params.ExitCode != 125 || (r != nil) != tt.refused ||
			r != nil && (!strings.Contains(string(r.Policy), dir+"/link") || !strings.Contains(r.Reason, "crosses writable symlink")) {
			t.Errorf(`%s: got %s; want n.Params.ExitCode 125, r != nil: %v, r.Policy with %q, r.Reason with "crosses writable symlink"`, tt.name, exited, tt.refused, dir+"/link")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}
