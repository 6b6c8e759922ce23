package sandbox

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
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

// TestMissingRoots: a directory of --writable-root that does not exist is an error with a remedy. It once granted nothing, and the
// advice about the failed command was --writable-root.
func TestMissingRoots(t *testing.T) {
	p := &Policy{word: WorkspaceWrite, roots: []string{"/there", ":~/.cache"}}
	if _, err := p.Object("file:///w", "file:///home/me"); err != nil {
		t.Fatal(err)
	}
	var looked []string
	if err := p.CheckRoots(func(path string) error { looked = append(looked, path); return nil }); err != nil || fmt.Sprint(looked) != "[/there /home/me/.cache]" {
		t.Errorf("got %v after looking at %v", err, looked)
	}
	err := p.CheckRoots(func(string) error { return &fs.PathError{Op: "stat", Path: "/there", Err: fs.ErrNotExist} })
	if err == nil || !strings.Contains(err.Error(), "there is no /there on the server") || !strings.Contains(cmdutil.AdviceOn(err), "mkdir -p :/there") {
		t.Errorf("got %v with the advice %q", err, cmdutil.AdviceOn(err))
	}
	if err := p.CheckRoots(func(string) error { return fs.ErrPermission }); err != nil {
		t.Errorf("got %v; the server itself decides about what this client cannot see", err)
	}
	var none *Policy
	if err := none.CheckRoots(nil); err != nil {
		t.Error(err)
	}
}

// TestNoNetwork: the failure of a command that has no network is told from other failures by what programs print.
func TestNoNetwork(t *testing.T) {
	for _, tt := range []struct {
		policy Policy
		output string
		want   bool
	}{
		{Policy{word: ReadOnly}, "curl: (6) Could not resolve host: registry.npmjs.org\n", true},
		{Policy{word: WorkspaceWrite}, "npm error code EAI_AGAIN\n", true},
		{Policy{word: WorkspaceWrite}, "dial tcp: lookup proxy.golang.org: no such host", true},
		{Policy{word: WorkspaceWrite, network: true}, "curl: (6) Could not resolve host: a.test\n", false},
		{Policy{word: WorkspaceWrite}, "no such file or directory", false},
	} {
		if _, err := tt.policy.Object("file:///w", ""); err != nil {
			t.Fatal(err)
		}
		if got := tt.policy.WithoutNetwork(tt.output); (got != "") != tt.want {
			t.Errorf("%q: got %q, want advice: %v", tt.output, got, tt.want)
		}
	}
	var none *Policy
	if got := none.WithoutNetwork("Could not resolve host"); got != "" {
		t.Errorf("without a sandbox: got %q", got)
	}
}
