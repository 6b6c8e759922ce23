package sandbox

import (
	"strings"
	"testing"
)

func TestWhatIsSentForASandbox(t *testing.T) {
	const (
		root    = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
		project = `{"path":{"type":"special","value":{"kind":"project_roots"`
		tail    = `,"cwd":"file:///src/a%20b","workspaceRoots":["file:///src/a%20b"],"windowsSandboxLevel":"disabled","windowsSandboxPrivateDesktop":false,"useLegacyLandlock":false}`
	)
	managed := func(entries ...string) string {
		return `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + strings.Join(entries, ",") + `]},"network":"restricted"}` + tail
	}
	for name, tt := range map[string]struct {
		policy, want string
		confines     bool
	}{
		"nothing":   {"", "", false},
		"read-only": {"read-only", managed(root), true},
		"workspace-write": {"workspace-write", managed(root, project+`}},"access":"write"}`,
			`{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"}`,
			`{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}`,
			project+`,"subpath":".git"}},"access":"read"}`, project+`,"subpath":".agents"}},"access":"read"}`, project+`,"subpath":".codex"}},"access":"read"}`), true},
		"native paths become URIs": {`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"/x/ü 1"},"access":"none"}]}}`,
			managed(`{"path":{"type":"path","path":"file:///x/%C3%BC%201"},"access":"deny"}`), true},
		"the home is the server's": {`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"~/x"},"access":"write"}]}}`,
			managed(`{"path":{"type":"path","path":"file:///home/me/x"},"access":"write"}`), true},
		"no sandbox":             {`{"type":"disabled"}`, `{"permissions":{"type":"disabled"}` + tail, false},
		"a whole sandbox":        {` {"permissions":1, "more":2}`, ` {"permissions":1, "more":2}`, false},
		"an older whole sandbox": {`{"sandboxPolicy":{"type":"read-only"}}`, `{"sandboxPolicy":{"type":"read-only"}}`, false},
	} {
		p, err := ParsePolicy(tt.policy)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", name, err)
			continue
		}
		got, err := p.Object("file:///src/a%20b", "file:///home/me")
		if err != nil || string(got) != tt.want || p != nil && p.Confines != tt.confines {
			t.Errorf("%s: got error %v, %s; want no error, %s, p.Confines %v", name, err, got, tt.want, tt.confines)
		}
	}
}
