package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestHomeOfFIFOs: each file of CODEX_HOME is a FIFO whose other end is not open. No command waits
// for it. Commands refuse to read it, and to write it they replace or skip it.
func TestHomeOfFIFOs(t *testing.T) {
	for _, tt := range []struct {
		file  string
		args  []string
		stdin string
		says  string // empty: the command must succeed
	}{
		{"auth.json", []string{"login", "status"}, "", "not a regular file"},
		{"auth.json", []string{"login", "--with-api-key"}, "sk-key\n", ""},
		{"auth.json", []string{"logout"}, "", ""},
		{"log/codex-login.log", []string{"login", "--with-api-key"}, "sk-key\n", ""},
		{"config.toml", []string{"login", "status"}, "", "not a regular file"},
		{".env", []string{"exec-server", "--listen", "no"}, "", "not a regular file"},
		{"environments.toml", []string{"remote", "info"}, "", "not a regular file"},
		{"rendezvous/tokens.json", []string{"rendezvous", "token", "list"}, "", "not a regular file"},
		{"rendezvous/tokens.json", []string{"rendezvous", "--listen", "127.0.0.1:0"}, "", "not a regular file"},
		{"rendezvous/tokens.json.lock", []string{"rendezvous", "token", "create", "--role", "executor", "--environment", "x"}, "", "not a regular file"},
	} {
		t.Run(tt.file+": "+strings.Join(tt.args, " "), func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("CODEX_HOME", home)
			path := filepath.Join(home, tt.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, code := harness.Run(t, tt.stdin, tt.args...)
			if code < 0 {
				t.Fatal("it waits")
			}
			if tt.says == "" && code != 0 || !strings.Contains(out+errs, tt.says) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
