//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestLimitsOfAFile: limits in a server's file with options hold for commands, and clients
// may ask for less, not for more.
func TestLimitsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "options.toml")
	harness.Must(t, os.WriteFile(file, []byte("limit-open-files = \"64\"\n"), 0o600))
	_, url := harness.Server(t, "--config-file", file)
	for want, args := range map[string][]string{
		"64\n": nil, "32\n": {"--open-files", "32"},
	} {
		args = append(append([]string{"remote", "run", "--url", url}, args...), "--", "sh", "-c", "ulimit -n")
		if out, errs, code := harness.Run(t, "", args...); out != want || code != 0 {
			t.Errorf("%q: exit code %d, %q, want %q\n%s", args, code, out, want, errs)
		}
	}
	if out, errs, _ := harness.Run(t, "", "remote", "run", "--url", url, "--open-files", "128", "--", "sh", "-c", "ulimit -n"); out != "64\n" {
		t.Errorf("a client that asks for more gets %q\n%s", out, errs)
	}
}
