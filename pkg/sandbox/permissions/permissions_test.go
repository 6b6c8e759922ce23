package permissions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// uris decodes the paths of requests.
func uris(text string) (string, error) { return pathuri.Parse(text, "/home/u") }

func TestDecodeContextConfines(t *testing.T) {
	for _, tt := range []struct {
		name, text       string
		files, processes bool
	}{
		{"disabled", `{"permissions":{"type":"disabled"}}`, false, false},
		{"external", `{"permissions":{"network":"restricted","type":"external"},"cwd":null}`, false, false},
		{"unrestricted", `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"unrestricted"}}}`, false, false},
		{"no network", `{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"unrestricted"}}}`, false, true},
		{"nothing granted", `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[]}}}`, true, true},
		{"root write", `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"write"}]}}}`, false, false},
		{"root write, something denied", `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"write"},{"path":{"type":"path","path":"file:///x"},"access":"none"}]}}}`, true, true},
		{"untagged", `{"permissions":{"network":null,"file_system":{"read":[]}},"workspaceRoots":["file:///w"]}`, true, true},
		{"legacy read-only", `{"sandboxPolicy":{"type":"read-only"},"windowsSandboxLevel":"disabled"}`, true, true},
		{"legacy full access", `{"sandboxPolicy":{"type":"danger-full-access"}}`, false, false},
		{"legacy read-only with the network", `{"sandboxPolicy":{"type":"read-only","network_access":true}}`, true, true},
		{"legacy external", `{"sandboxPolicy":{"type":"external-sandbox"}}`, false, false},
	} {
		c, err := DecodeContext([]byte(tt.text), uris)
		if err != nil || c.ConfinesFiles() != tt.files || c.ConfinesProcesses() != tt.processes {
			t.Errorf("%s: got c %+v, error %v; want no error, c.ConfinesFiles() %v, c.ConfinesProcesses() %v", tt.name, c, err, tt.files, tt.processes)
		}
	}
}

func TestDecodeContextMembers(t *testing.T) {
	c, err := DecodeContext([]byte(`{"permissions":{"type":"disabled"},"cwd":"file:///w","workspaceRoots":["file:///a","/b"],
		"windowsSandboxLevel":"elevated","windowsSandboxPrivateDesktop":true,"useLegacyLandlock":true,"later":[]}`), uris)
	if err != nil || c.Cwd != "file:///w" || !slices.Equal(c.WorkspaceRoots, []string{"file:///a", "/b"}) ||
		c.WindowsSandboxLevel != "elevated" || !c.WindowsSandboxPrivateDesktop || !c.UseLegacyLandlock {
		t.Errorf(`got c %+v, error %v; want no error, c.Cwd "file:///w", c.WorkspaceRoots []string{"file:///a", "/b"}, c.WindowsSandboxLevel "elevated", c.WindowsSandboxPrivateDesktop true, c.UseLegacyLandlock true`, c, err)
	}
	c, err = DecodeContext([]byte(`{"permissions":{}}`), uris)
	if err != nil || c.Cwd != "" || c.WorkspaceRoots != nil || c.WindowsSandboxLevel != "disabled" {
		t.Errorf("defaults: %+v, %v", c, err)
	}
}

func TestDecodeContextRefuses(t *testing.T) {
	const shape = "data did not match any variant of untagged enum PermissionProfileDe"
	managed := func(entries string) string {
		return `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[` + entries + `]}}}`
	}
	for text, want := range map[string]string{
		`5`:                                   "invalid type: number `5`, expected a map",
		`{}`:                                  "missing field `permissions`",
		`{"permissions":{"type":"magic"}}`:    shape,
		`{"permissions":{"type":"managed"}}`:  shape,
		`{"permissions":{"type":"external"}}`: shape,
		`{"permissions":{"other":1}}`:         shape,
		`{"permissions":null}`:                shape,
		`{"permissions":{"type":"managed","network":"enabled","file_system":{"type":""}}}`:                     shape,
		`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"x"}`:                                        "windowsSandboxLevel: unknown variant `x`, expected one of `disabled`, `restricted-token`, `elevated`, `mxc`",
		`{"sandboxPolicy":{"type":"x"}}`:                                                                       "sandboxPolicy: unknown variant `x`, expected one of `danger-full-access`, `read-only`, `external-sandbox`, `workspace-write`",
		`{"permissions":{"type":"disabled"},"permissions":{"type":"disabled"}}`:                                "duplicate field `permissions`",
		`{"permissions":{"type":"disabled"},"cwd":5}`:                                                          "cwd: invalid type: number `5`, expected a string",
		`{"permissions":{"type":"disabled"}} x`:                                                                "trailing characters at offset 36",
		managed(`{"path":{"type":"path","path":"file://server/share"},"access":"read"}`):                       "invalid sandbox permission path URI: 'file://server/share' is invalid on 'linux'",
		managed(`{"path":{"type":"path","path":"file://server/share"},"access":"reed"}`):                       shape,
		`{"sandboxPolicy":{"type":"workspace-write","writable_roots":["x"]}}`:                                  "invalid sandbox permission path URI: path is not absolute: x",
		`{"sandboxPolicy":{"type":"read-only"},"additionalPermissions":{"x":1}}`:                               "additionalPermissions: unknown field `x`",
		`{"permissions":{"type":"disabled"},"workspaceRoots":[` + strings.Repeat(`"/a",`, maxRoots) + `"/a"]}`: "workspaceRoots: more than 64 workspace roots",
		`{"sandboxPolicy":{"type":"` + strings.Repeat("y", 100) + `"}}`:                                        "sandboxPolicy: unknown variant `" + strings.Repeat("y", 64) + "…`, expected one of `danger-full-access`, `read-only`, `external-sandbox`, `workspace-write`",
		managed(strings.Repeat(`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},`, 1024) + `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`): shape,
	} {
		if _, err := DecodeContext([]byte(text), uris); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	var p *PathError
	if _, err := DecodeContext([]byte(managed(`{"path":{"type":"path","path":"file://h/x"},"access":"read"}`)), uris); !errors.As(err, &p) || p.Text != "file://h/x" {
		t.Errorf("no PathError: %v", err)
	}
}

func FuzzDecodeContext(f *testing.F) {
	f.Add([]byte(`{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[{"path":{"type":"glob_pattern","pattern":"*"},"access":"deny"}],"glob_scan_max_depth":1}}}`))
	f.Add([]byte(`{"sandboxPolicy":{"type":"workspace-write"}}`))
	f.Add([]byte(`{"sandboxPolicy":5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := DecodeContext(text, uris)
		if err != nil {
			if len(err.Error()) > 4*pathuri.MaxLength {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if c.Profile.Kind == 0 || jsonwire.NewReader(text).Skip() != nil {
			t.Fatalf("%q: got %+v; want c.Profile.Kind other than 0, jsonwire.NewReader(text).Skip() nil", text, c)
		}
	})
}

// The directories of a policyContext replace those next to it.
func TestPolicyContext(t *testing.T) {
	for _, tt := range []struct {
		name, members, cwd string
		roots              []string
	}{
		{"none", `"cwd":"file:///c","workspaceRoots":["file:///r"]`, "file:///c", []string{"file:///r"}},
		{"null", `"cwd":"file:///c","workspaceRoots":["file:///r"],"policyContext":null`, "file:///c", []string{"file:///r"}},
		{"alone", `"policyContext":{"cwd":"file:///p","workspaceRoots":["file:///q"]}`, "file:///p", []string{"file:///q"}},
		{"before the others", `"policyContext":{"cwd":"file:///p","workspaceRoots":["file:///q"],"more":1},"cwd":"file:///c","workspaceRoots":["file:///r"]`, "file:///p", []string{"file:///q"}},
		{"empty", `"cwd":"file:///c","workspaceRoots":["file:///r"],"policyContext":{}`, "", nil},
	} {
		c, err := DecodeContext([]byte(`{"permissions":{"type":"disabled"},`+tt.members+`}`), nil)
		if err != nil || c.Cwd != tt.cwd || !slices.Equal(c.WorkspaceRoots, tt.roots) {
			t.Errorf("%s: got c %+v, error %v; want no error, c.Cwd %v, c.WorkspaceRoots %v", tt.name, c, err, tt.cwd, tt.roots)
		}
	}
	for _, wrong := range []string{`1`, `{"cwd":1}`, `{"workspaceRoots":"/a"}`} {
		if _, err := DecodeContext([]byte(`{"permissions":{"type":"disabled"},"policyContext":`+wrong+`}`), nil); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
