package permissions

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// decodeLegacy decodes a policy without any text after it.
func decodeLegacy(text []byte, decode PathDecoder) (p LegacyPolicy, err error) {
	d := decoder{decode: decode}
	return p, d.alone(text, d.legacy(&p))
}

func TestLegacyPoliciesRoundTrip(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"danger-full-access","x":1}`:                    `{"type":"danger-full-access"}`,
		`{"type":"read-only"}`:                                   `{"type":"read-only"}`,
		`{"type":"read-only","network_access":false}`:            `{"type":"read-only"}`,
		`{"type":"read-only","network_access":true}`:             `{"type":"read-only","network_access":true}`,
		`{"type":"external-sandbox"}`:                            `{"type":"external-sandbox","network_access":"restricted"}`,
		`{"network_access":"enabled","type":"external-sandbox"}`: `{"type":"external-sandbox","network_access":"enabled"}`,
		`{"type":"workspace-write"}`:                             `{"type":"workspace-write","network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":false}`,
		`{"type":"workspace-write","writable_roots":["/a/../b"],"network_access":true,"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}`: `{"type":"workspace-write","writable_roots":["/b"],"network_access":true,"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}`,
	} {
		p, err := decodeLegacy([]byte(text), NativePath(""))
		if got := string(p.AppendJSON(nil)); err != nil || got != want {
			t.Errorf("%s: got %s, error %v; want no error, %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		`{}`, `{"type":"x"}`, `{"type":"read-only","network_access":"enabled"}`, `{"type":"external-sandbox","network_access":true}`,
		`{"type":"workspace-write","writable_roots":["rel"]}`, `{"type":"read-only"} x`, `{"type":"read-only","type":"read-only"}`,
		`{"type":"workspace-write","writable_roots":["/a"` + strings.Repeat(`,"/a"`, maxRoots) + `]}`,
	} {
		if _, err := decodeLegacy([]byte(text), NativePath("")); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestLegacyToProfile(t *testing.T) {
	view := tree("/w/.git/", "/r/.git gitdir: meta", "/r/meta/", "/r/.codex/")
	const fixed = " project_roots/.git=read project_roots/.agents=read project_roots/.codex=read"
	for _, tt := range []struct {
		name string
		p    LegacyPolicy
		cwd  string
		want string
	}{
		{"read-only", LegacyPolicy{Kind: LegacyReadOnly}, "/w", "root=read"},
		{"workspace-write without a cwd", LegacyPolicy{Kind: WorkspaceWrite}, "", "root=read project_roots=write slash_tmp=write tmpdir=write" + fixed},
		{"with a cwd", LegacyPolicy{Kind: WorkspaceWrite, ExcludeTmpdir: true}, "/w", "root=read project_roots=write slash_tmp=write" + fixed + " /w/.git=read /w/.codex=read"},
		{"with roots", LegacyPolicy{Kind: WorkspaceWrite, ExcludeTmpdir: true, ExcludeSlashTmp: true, WritableRoots: []string{"/r", "/s"}}, "",
			"root=read project_roots=write /r=write /s=write" + fixed + " /r/meta=read /r/.git=read /r/.codex=read"},
		{"metadata with an entry of its own", LegacyPolicy{Kind: WorkspaceWrite, ExcludeTmpdir: true, ExcludeSlashTmp: true, WritableRoots: []string{"/w/.git"}}, "/w",
			"root=read project_roots=write /w/.git=write" + fixed + " /w/.codex=read"},
	} {
		want := managed(tt.want)
		if got := tt.p.ToProfile(tt.cwd, view); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s\nwant %s", tt.name, got.AppendJSON(nil), want.AppendJSON(nil))
		}
	}
	if p := (LegacyPolicy{Kind: DangerFullAccess}).ToProfile("/w", view); p.Kind != Disabled || p.Network != NetworkEnabled {
		t.Errorf("danger-full-access: %+v", p)
	}
	if p := (LegacyPolicy{Kind: ExternalSandbox, Network: NetworkEnabled}).ToProfile("/w", view); p.Kind != External || p.Network != NetworkEnabled {
		t.Errorf("external-sandbox: %+v", p)
	}
}

func TestLegacyFromProfile(t *testing.T) {
	const outside = "permissions profile requests filesystem writes outside the workspace root, which is not supported until the runtime enforces FileSystemSandboxPolicy directly"
	for list, want := range map[string]string{
		"":                               `{"type":"read-only"}`,
		"root=read /w=deny glob:/x=deny": `{"type":"read-only"}`,
		"root=write":                     `{"type":"external-sandbox","network_access":"restricted"}`,
		"root=read project_roots=write":  `{"type":"workspace-write","network_access":false,"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}`,
		"/w=write tmpdir=write":          `{"type":"workspace-write","network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":true}`,
		"/w=write /x=write project_roots/s=write slash_tmp=write": `{"type":"workspace-write","writable_roots":["/x","/w/s"],"network_access":false,"exclude_tmpdir_env_var":true,"exclude_slash_tmp":false}`,
		"/x=write":              outside,
		"tmpdir=write":          outside,
		"project_roots/s=write": outside,
		"root=write /x=read":    outside,
	} {
		p, err := LegacyFromProfile(managed(list), "/w")
		got := string(p.AppendJSON(nil))
		if err != nil {
			got = err.Error()
		}
		if got != want || (err != nil) != errors.Is(err, ErrOutsideWorkspace) {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
	for want, p := range map[LegacyKind]Profile{
		DangerFullAccess: {Kind: Disabled},
		ExternalSandbox:  {Kind: External},
	} {
		if got, err := LegacyFromProfile(p, "/w"); err != nil || got.Kind != want {
			t.Errorf("%+v: got %+v, error %v; want no error, Kind %v", p, got, err, want)
		}
	}
	full := Profile{Kind: Managed, FileSystem: FileSystem{Unrestricted: true}, Network: NetworkEnabled}
	if got, _ := LegacyFromProfile(full, "/w"); got.Kind != DangerFullAccess {
		t.Errorf("full access with the network: %+v", got)
	}
}

func TestNeedsDirectEnforcement(t *testing.T) {
	const workspace = "root=read project_roots=write project_roots/.git=read project_roots/.agents=read project_roots/.codex=read"
	bare, whole := tree("/w/"), tree("/w/.git/", "/w/.agents/", "/w/.codex/", "/w/keep/")
	for _, tt := range []struct {
		name, rules string
		view        View
		want        bool
	}{
		{"read-only", "root=read", bare, false},
		{"full write", "root=write", bare, false},
		{"a workspace without .git", workspace, bare, true},
		{"a workspace with all metadata", workspace, whole, false},
		{"the same without naming it", "root=read project_roots=write", whole, false},
		{"a write elsewhere", "root=read /x=write", whole, true},
		{"a carve-out", workspace + " project_roots/keep=read", whole, true},
		{"a grant for metadata", "root=read project_roots=write /w/.git=write", whole, true},
		{"a denied path", "root=read /x=deny", bare, true},
		{"a denied glob", "root=read glob:/x/*=deny", bare, true},
		{"restricted reads", "minimal=read /x=read", bare, true},
		{"nothing readable", "", bare, true},
	} {
		if got := NeedsDirectEnforcement(managed(tt.rules), Scope{Cwd: "/w"}, tt.view); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, p := range []Profile{{Kind: Disabled}, {Kind: External}, {Kind: Managed, FileSystem: FileSystem{Unrestricted: true}}} {
		if NeedsDirectEnforcement(p, Scope{}, bare) {
			t.Errorf("got %+v, want not NeedsDirectEnforcement(p, Scope{}, bare)", p)
		}
	}
}

func TestContextOfTheOldestGeneration(t *testing.T) {
	c, err := DecodeContext([]byte(`{"sandboxPolicy":{"type":"workspace-write","exclude_slash_tmp":true,"exclude_tmpdir_env_var":true},"windowsSandboxLevel":"disabled",
		"useLegacyLandlock":true,"additionalPermissions":{"network":{"enabled":true},"file_system":{"write":["file:///x"]}}}`), uris)
	if err != nil || !c.UseLegacyLandlock || !c.Profile.NeedsCwd() || !c.ConfinesFiles() {
		t.Fatalf("got c %+v, error %v; want no error, c.UseLegacyLandlock true, c.Profile.NeedsCwd(), c.ConfinesFiles()", c, err)
	}
	got := string(c.ProfileFor("/w", tree("/w/.agents/")).AppendJSON(nil))
	want := managed("root=read project_roots=write project_roots/.git=read project_roots/.agents=read project_roots/.codex=read /w/.agents=read /w/.codex=read /x=write")
	want.Network = NetworkEnabled
	if got != string(want.AppendJSON(nil)) {
		t.Errorf("got %s, want string(want.AppendJSON(nil))", got)
	}
	if c, err := DecodeContext([]byte(`{"sandboxPolicy":{"type":"read-only"},"additionalPermissions":null}`), uris); err != nil || c.Additional != nil {
		t.Errorf("a null overlay: %+v, %v", c, err)
	}
}
