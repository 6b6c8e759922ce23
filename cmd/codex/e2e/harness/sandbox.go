package harness

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
)

// NeedSandbox skips a test on a host without a working sandbox.
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

// Unconfined, in a list of backends, means commands without a sandbox.
const Unconfined = "none"

// EachBackend runs a subtest for each chosen backend of the sandbox: see testutil.Choice. If the
// machine lacks a requirement of a backend, such as bubblewrap, the subtest is skipped.
func EachBackend(t *testing.T, backends []string, test func(t *testing.T, backend string)) {
	t.Helper()
	for _, backend := range testutil.Choice(t.Name(), backends) {
		t.Run(backend, func(t *testing.T) {
			if backend != Unconfined {
				machine.NeedBackend(t, backend)
			}
			test(t, backend)
		})
	}
}

// Places creates a workspace with a repository in it, and a directory beside the workspace. Both
// are outside of /tmp, because workspace-write permits writing to /tmp.
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

// Object is a JSON object of a request.
type Object = map[string]any

// FileURI returns the URI of a path. It does not change the path, even if the path contains "..".
func FileURI(path string) string { return "file://" + path }

// PathEntry returns an entry of a profile for a path.
func PathEntry(path, access string) Object {
	return Object{"path": Object{"type": "path", "path": FileURI(path)}, "access": access}
}

// SpecialEntry returns an entry of a profile for a special path, such as root.
func SpecialEntry(kind, access string) Object {
	return Object{"path": Object{"type": "special", "value": Object{"kind": kind}}, "access": access}
}

// ManagedSandbox returns the sandbox of a request: a managed profile without a network.
func ManagedSandbox(entries ...Object) Object {
	return Object{"permissions": Object{
		"type": "managed", "file_system": Object{"type": "restricted", "entries": entries}, "network": "restricted",
	}}
}

// With returns a copy of o with more members, each a name and its value.
func With(o Object, more ...any) Object {
	all := maps.Clone(o)
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}
