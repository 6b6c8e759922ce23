package permissions

import (
	"encoding/json"
	"testing"
)

func TestDecodeContext(t *testing.T) {
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
	} {
		c, err := DecodeContext([]byte(tt.text))
		if err != nil || c.ConfinesFiles() != tt.files || c.ConfinesProcesses() != tt.processes {
			t.Errorf("%s: %+v, %v", tt.name, c, err)
		}
	}
}

func TestDecodeContextRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`5`:                                   "invalid type: number `5`, expected a map",
		`{}`:                                  "missing field `permissions`",
		`{"permissions":{"type":"magic"}}`:    "permissions: unknown variant `magic`, expected one of [\"managed\" \"disabled\" \"external\"]",
		`{"permissions":{"type":"managed"}}`:  "permissions: missing field `network`",
		`{"permissions":{"type":"external"}}`: "permissions: missing field `network`",
		`{"permissions":{"other":1}}`:         "permissions: unknown field `other`",
		`{"permissions":null}`:                "permissions: invalid type: null, expected a map",
		`{"permissions":{"type":"managed","network":"enabled","file_system":{"type":""}}}`: "permissions: file_system: unknown variant ``, expected one of [\"restricted\" \"unrestricted\"]",
		`{"permissions":{"type":"disabled"},"windowsSandboxLevel":"x"}`:                    "windowsSandboxLevel: unknown variant `x`, expected one of [\"disabled\" \"restricted-token\" \"elevated\"]",
		`{"sandboxPolicy":{"type":"x"}}`:                                                   "sandboxPolicy: unknown variant `x`, expected one of [\"danger-full-access\" \"read-only\" \"external-sandbox\" \"workspace-write\"]",
	} {
		if _, err := DecodeContext([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzDecodeContext(f *testing.F) {
	f.Add([]byte(`{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"restricted","entries":[{"path":{"type":"glob_pattern","pattern":"*"},"access":"deny"}],"glob_scan_max_depth":1}}}`))
	f.Add([]byte(`{"sandboxPolicy":{"type":"workspace-write"}}`))
	f.Add([]byte(`{"sandboxPolicy":5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := DecodeContext(text); err == nil && (c.Kind == 0 || !json.Valid(text)) {
			t.Fatalf("%q: %+v", text, c)
		}
	})
}
