//go:build linux

package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// NeedSandbox skips a test on a host where nothing can be confined.
func NeedSandbox(t *testing.T) {
	t.Helper()
	out, errs, code := Run(t, "", "doctor", "--json")
	var host struct {
		WorkspaceWrite *bool
		Backends       json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &host); err != nil || host.WorkspaceWrite == nil || *host.WorkspaceWrite != (code == 0) {
		t.Fatalf("codex doctor ends with %d, %v: %s%s", code, err, out, errs)
	}
	if !*host.WorkspaceWrite {
		t.Skipf("this host cannot enforce workspace-write: %s", host.Backends)
	}
}

// Places makes a workspace with a repository in it and a directory beside it,
// outside of /tmp, which workspace-write lets be written.
func Places(t *testing.T) (workspace, beside string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "codex-e2e-")
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	workspace, beside = filepath.Join(dir, "workspace"), filepath.Join(dir, "beside")
	Must(t, os.MkdirAll(filepath.Join(workspace, ".git"), 0o755))
	Must(t, os.Mkdir(beside, 0o755))
	Must(t, os.WriteFile(filepath.Join(workspace, "plain"), []byte("x"), 0o644))
	return workspace, beside
}
