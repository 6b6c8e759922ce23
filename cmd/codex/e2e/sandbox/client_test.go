package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execclient/fsx"
)

// TestClientInASandbox: the client's commands and file requests are confined, and their errors say
// why they fail.
func TestClientInASandbox(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	harness.Must(t, os.Mkdir(filepath.Join(ws, ".git"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(ws, "f"), []byte("text"), 0o644))
	_, url := harness.Server(t)
	client, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{})
	harness.Must(t, err)
	defer client.Close()

	workspace := execclient.WorkspaceSandbox(ws)
	for _, tt := range []struct {
		name    string
		sandbox []byte
		script  string
		denied  bool
	}{
		{"read-only, reading", execclient.ReadOnlySandbox(), "cat f", false},
		{"read-only, writing", execclient.ReadOnlySandbox(), "echo x > new", true},
		{"workspace, writing", workspace, "echo x > new", false},
		{"workspace, writing to .git", workspace, "echo x > .git/new", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := client.CommandContext(t.Context(), "sh", "-c", tt.script)
			cmd.Dir, cmd.Sandbox = ws, tt.sandbox
			out, err := cmd.Output()
			if denied := errors.Is(err, execclient.ErrSandboxDenied); denied != tt.denied || (err == nil) == denied {
				t.Errorf("got stdout %q, error %v; want denied %v", out, err, tt.denied)
			}
		})
	}
	cmd := client.Command("sh", "-c", "exit 1")
	cmd.Sandbox = execclient.ReadOnlySandbox()
	if err := cmd.Run(); err == nil || errors.Is(err, execclient.ErrSandboxDenied) {
		t.Errorf("a failure of its own: %v", err)
	}

	files := client.FS().WithSandbox(execclient.ReadOnlySandbox())
	if err := files.WriteFile(t.Context(), filepath.Join(ws, "f"), []byte("other")); err == nil {
		t.Error("it was written")
	}
	if w, err := files.Create(t.Context(), filepath.Join(ws, "f"), execclient.WriteOptions{}); err == nil {
		w.Abort()
		t.Error("it was opened for writing")
	}
	tree := fsx.New(t.Context(), files, ws)
	if text, err := fs.ReadFile(tree, "f"); err != nil || string(text) != "text" {
		t.Errorf(`got text %q, error %v; want no error, text "text"`, text, err)
	}
	f, err := tree.Open("f")
	harness.Must(t, err)
	defer f.Close()
	text := make([]byte, 4)
	if _, err := f.Read(text); err != nil || string(text) != "text" {
		t.Errorf(`got text %q, error %v; want no error, text "text"`, text, err)
	}
}
