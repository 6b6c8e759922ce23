package permissions

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func mode(n Network) *Network { return &n }

// over makes an overlay of entries, with a depth and a network mode.
func over(list string, depth int, net *Network) AdditionalProfile {
	a := AdditionalProfile{Network: net}
	if list != "" {
		a.FileSystem = &FileSystem{Entries: rules(list), GlobScanMaxDepth: depth}
	}
	return a
}

func TestOverlaysRoundTrip(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                           `{"network":null,"file_system":null}`,
		`{"network":{"enabled":true}}`: `{"network":{"enabled":true},"file_system":null}`,
		`{"network":{"enabled":null}}`: `{"network":null,"file_system":null}`,
		`{"file_system":{}}`:           `{"network":null,"file_system":{"entries":[]}}`,
		`{"file_system":{"write":["/b"],"read":["/a"]}}`:                          `{"network":null,"file_system":{"read":["/a"],"write":["/b"]}}`,
		`{"file_system":{"entries":[` + pathWrite + `]}}`:                         `{"network":null,"file_system":{"write":["/w"]}}`,
		`{"file_system":{"entries":[` + pathWrite + `],"glob_scan_max_depth":2}}`: `{"network":null,"file_system":{"entries":[` + pathWrite + `],"glob_scan_max_depth":2}}`,
		`{"file_system":{"entries":[` + rootRead + `]}}`:                          `{"network":null,"file_system":{"entries":[` + rootRead + `]}}`,
	} {
		a, err := DecodeAdditional([]byte(text), NativePath(""))
		if got := string(a.AppendJSON(nil)); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"x":1}`, `{"type":"disabled"}`, `{"file_system":{"read":["rel"]}}`, `{} x`, `[]`} {
		if _, err := DecodeAdditional([]byte(text), NativePath("")); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestNormalizeOverlays(t *testing.T) {
	view := tree("/real/f x", "/l -> real", "/real/m -> f")
	got, err := over("/l/f=read /real/f=read /l/m=write /l/none=read /l=read root=read root=read", 0, nil).Normalize(view)
	if want := over("/real/f=read /real/m=write /l/none=read /l=read root=read", 0, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got.FileSystem, err)
	}
	if _, err := over("glob:/x=read", 0, nil).Normalize(view); !errors.Is(err, ErrGlobAccess) {
		t.Errorf("a readable glob: %v", err)
	}
	if got, _ := (AdditionalProfile{FileSystem: &FileSystem{}}).Normalize(view); got.FileSystem != nil {
		t.Error("an overlay that says nothing stays")
	}
}

func TestMergeOverlays(t *testing.T) {
	for _, tt := range []struct {
		name       string
		a, b, want AdditionalProfile
	}{
		{"new entries are appended", over("/a=read", 0, nil), over("/a=read /a=write", 0, nil), over("/a=read /a=write", 0, nil)},
		{"either enables the network", over("", 0, mode(NetworkRestricted)), over("", 0, mode(NetworkEnabled)), over("", 0, mode(NetworkEnabled))},
		{"else it is absent", over("", 0, mode(NetworkRestricted)), over("", 0, nil), over("", 0, nil)},
		{"one side", over("", 0, nil), over("/a=read", 0, nil), over("/a=read", 0, nil)},
		{"the larger depth", over("glob:/a=deny", 2, nil), over("glob:/b=deny", 5, nil), over("glob:/a=deny glob:/b=deny", 5, nil)},
		{"a side without a depth", over("glob:/a=deny", 2, nil), over("glob:/b=deny", 0, nil), over("glob:/a=deny glob:/b=deny", 0, nil)},
		{"a side without globs does not count", over("glob:/a=deny", 2, nil), over("/b=deny", 0, nil), over("glob:/a=deny /b=deny", 2, nil)},
		{"nor does its depth", over("glob:/a=deny", 2, nil), over("/b=deny", 9, nil), over("glob:/a=deny /b=deny", 2, nil)},
	} {
		if got := tt.a.Merge(tt.b); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %s", tt.name, got.AppendJSON(nil))
		}
	}
}

func TestApplyOverlays(t *testing.T) {
	a := over("/a=write", 0, mode(NetworkEnabled))
	base := managed("root=read")
	want := managed("root=read /a=write")
	want.Network = NetworkEnabled
	if got := a.Apply(base); !reflect.DeepEqual(got, want) || len(base.FileSystem.Entries) != 1 {
		t.Errorf("%+v", got)
	}
	external := Profile{Kind: External, FileSystem: FileSystem{Unrestricted: true}}
	if got := a.Apply(external); got.Kind != External || !got.FileSystem.Unrestricted || got.FileSystem.Entries != nil || got.Network != NetworkEnabled {
		t.Errorf("%+v", got)
	}
	if got := over("", 0, mode(NetworkRestricted)).Apply(want); got.Network != NetworkEnabled {
		t.Error("an overlay took the network away")
	}
}

func TestIntersect(t *testing.T) {
	for _, tt := range []struct{ name, requested, granted, want string }{
		{"what was asked for", "/a=read", "/a=read", "/a=read"},
		{"less than asked for", "/a=write", "/a/b=read", "/a/b=read"},
		{"more than asked for", "/a/b=read", "/a=read", ""},
		{"write where read was asked for", "/a=read", "/a=write", ""},
		{"what was not asked for", "/a=read", "/a=read /b=read", "/a=read"},
		{"what the request denies", "/a=read /a/b=deny", "/a/b=read", ""},
		{"what a requested pattern denies", "/a=read glob:/a/*.env=deny", "/a/x.env=read /a/y=read", "/a/y=read glob:/a/*.env=deny"},
		{"denied ones that overlap", "/a=read /a/b=deny /c=deny", "/a=read /a/d=deny", "/a=read /a/b=deny /a/d=deny"},
		{"denied patterns by their fixed part", "/a=read glob:/a/*.env=deny glob:/c/*.env=deny", "/a=read", "/a=read glob:/a/*.env=deny"},
		{"project roots become concrete", "project_roots=write glob:*.env=deny", "project_roots=write", "/w=write glob:/w/*.env=deny"},
		{"minimal", "minimal=read", "minimal=read", "minimal=read"},
		{"minimal that was not asked for", "/a=read", "minimal=read", ""},
		{"the root", "root=read", "root=read", "root=read"},
	} {
		got := Intersect(over(tt.requested, 0, nil), over(tt.granted, 0, nil), Scope{Cwd: "/w"}, tree("/w/"))
		if want := over(tt.want, 0, nil); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, want %s", tt.name, got.AppendJSON(nil), want.AppendJSON(nil))
		}
	}
	on, off := over("", 0, mode(NetworkEnabled)), over("", 0, nil)
	if got := Intersect(on, on, Scope{}, tree()); !got.enabled() {
		t.Error("both enable the network")
	}
	if Intersect(on, off, Scope{}, tree()).enabled() || Intersect(off, on, Scope{}, tree()).enabled() {
		t.Error("one side enables the network")
	}
	if got := strings.Count(string(Intersect(over("/a=read glob:/a/x=deny", 3, nil), over("/a=read glob:/a/y=deny", 5, nil), Scope{}, tree()).AppendJSON(nil)), `depth":5`); got != 1 {
		t.Error("the depth is not the larger")
	}
}
