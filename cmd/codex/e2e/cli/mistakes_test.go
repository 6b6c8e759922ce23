package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestMistakes: if only a server can detect a mistake, the error names the object, the reason and a
// remedy. cmd/codex/cli: TestWrongUse has the table of option errors.
func TestMistakes(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	_, url := harness.Server(t)
	env = append(env, "CODEX_EXEC_SERVER_URL="+url, "EDITOR=touch "+filepath.Join(home, "edited"))
	for args, want := range map[string]string{
		"remote logs nosuch":    "Error: nosuch: you have no such detached process; codex remote ps lists yours",
		"remote edit /nosuch/x": "Error: edit /nosuch/x: the directory of the new file: /nosuch: no such file or directory; make it with codex remote mkdir -p",
	} {
		out, errs, code := harness.RunWith(t, env, home, "", strings.Fields(args)...)
		if code != 1 || out != "" || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: got %d %q %q, want 1 and %q", args, code, out, errs, want)
		}
	}
	// The file may be created later. So the server starts, and logs why it admits no client.
	if _, errs, code := harness.RunWith(t, env, home, "", "exec-server", "--listen", "ws://127.0.0.1:0", "--exit-on-stdin-close",
		"--ws-auth", "capability-token", "--ws-tokens", filepath.Join(home, "missing")); code != 0 || !strings.Contains(errs, "the file of --ws-tokens does not exist") {
		t.Errorf("a file of tokens that is missing: %d %q", code, errs)
	}
	if _, err := os.Stat(filepath.Join(home, "edited")); err == nil {
		t.Error("an editor was started for a file that cannot be written")
	}
}
