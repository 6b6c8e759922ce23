package permissions

import (
	"errors"
	"reflect"
	"testing"

	"codex.internal/pkg/wire/jsonwire"
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

// decodeAdditional decodes an overlay without any text after it.
func decodeAdditional(text []byte, decode PathDecoder) (a AdditionalProfile, err error) {
	d := decoder{decode: decode}
	return a, d.alone(text, d.additional(&a))
}

// alone reads text, and returns an error if text continues after the value.
func (d *decoder) alone(text []byte, read func(*jsonwire.Reader) error) error {
	r := jsonwire.NewReader(text)
	if err := read(r); err != nil {
		return err
	}
	if err := r.End(); err != nil {
		return err
	}
	return d.bad
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
		a, err := decodeAdditional([]byte(text), NativePath(""))
		if got := string(a.AppendJSON(nil)); err != nil || got != want {
			t.Errorf("%s: got %s, error %v; want no error, %s", text, got, err, want)
		}
	}
	for _, text := range []string{`{"x":1}`, `{"type":"disabled"}`, `{"file_system":{"read":["rel"]}}`, `{} x`, `[]`} {
		if _, err := decodeAdditional([]byte(text), NativePath("")); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestNormalizeOverlays(t *testing.T) {
	view := tree("/real/f x", "/l -> real", "/real/m -> f")
	got, err := over("/l/f=read /real/f=read /l/m=write /l/none=read /l=read root=read root=read", 0, nil).Normalize(view)
	if want := over("/real/f=read /real/m=write /l/none=read /l=read root=read", 0, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got FileSystem %+v, error %v; want no error, %v", got.FileSystem, err, want)
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
			t.Errorf("%s: got %s, want %v", tt.name, got.AppendJSON(nil), tt.want)
		}
	}
}

func TestApplyOverlays(t *testing.T) {
	a := over("/a=write", 0, mode(NetworkEnabled))
	base := managed("root=read")
	want := managed("root=read /a=write")
	want.Network = NetworkEnabled
	if got := a.Apply(base); !reflect.DeepEqual(got, want) || len(base.FileSystem.Entries) != 1 {
		t.Errorf("got %+v; want %+v, len(base.FileSystem.Entries) 1", got, want)
	}
	external := Profile{Kind: External, FileSystem: FileSystem{Unrestricted: true}}
	if got := a.Apply(external); got.Kind != External || !got.FileSystem.Unrestricted || got.FileSystem.Entries != nil || got.Network != NetworkEnabled {
		t.Errorf("got %+v; want Kind %v, got.FileSystem.Unrestricted true, got.FileSystem.Entries nil, Network %v", got, External, NetworkEnabled)
	}
	if got := over("", 0, mode(NetworkRestricted)).Apply(want); got.Network != NetworkEnabled {
		t.Error("an overlay took the network away")
	}
}
