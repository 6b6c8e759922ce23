package permissions

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"codex.internal/pkg/wire/jsonwire"
)

const shapeText = "data did not match any variant of untagged enum PermissionProfileDe"

// These are the JSON texts of entries.
const (
	rootRead  = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	pathWrite = `{"path":{"type":"path","path":"/w"},"access":"write"}`
)

func tag(entries, more string) string {
	return `{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]` + more + `},"network":"restricted"}`
}

func TestTaggedProfilesRoundTrip(t *testing.T) {
	for _, text := range []string{
		`{"type":"disabled"}`,
		`{"type":"external","network":"restricted"}`,
		`{"type":"external","network":"enabled"}`,
		`{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}`,
		tag("", ""),
		tag(rootRead+","+pathWrite, ""),
		tag(`{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}`, `,"glob_scan_max_depth":3`),
		tag(`{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"unknown","path":"later"}},"access":"deny"}`, ""),
		tag(`{"path":{"type":"special","value":{"kind":"unknown","path":"a\"b","subpath":""}},"access":"read"}`, ""),
	} {
		p, err := DecodeProfile([]byte(text), NativePath(""))
		if got := string(p.AppendJSON(nil)); err != nil || got != text {
			t.Errorf("%s\nbecame %s, %v", text, got, err)
		}
	}
}

func TestOtherSpellingsBecomeTagged(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  tag("", ""),
		`{"network":null,"file_system":null}`: tag("", ""),
		`{"network":{},"file_system":{}}`:     tag("", ""),
		`{"network":{"enabled":null}}`:        tag("", ""),
		`{"network":{"enabled":false}}`:       tag("", ""),
		`{"network":{"enabled":true}}`:        strings.Replace(tag("", ""), `"network":"restricted"`, `"network":"enabled"`, 1),
		`{"file_system":{"write":["/w"]}}`:    tag(pathWrite, ""),
		`{"file_system":{"entries":[` + rootRead + `],"glob_scan_max_depth":2}}`: tag(rootRead, `,"glob_scan_max_depth":2`),
		`{"file_system":{"write":["/w"],"read":["/r/../q","~/x"]}}`: tag(
			`{"path":{"type":"path","path":"/q"},"access":"read"},{"path":{"type":"path","path":"/home/u/x"},"access":"read"},`+pathWrite, ""),
		tag(strings.Replace(pathWrite, `"write"`, `"none"`, 1), `,"glob_scan_max_depth":null`):                                    tag(strings.Replace(pathWrite, `"write"`, `"deny"`, 1), ""),
		tag(strings.Replace(pathWrite, `"/w"`, `"/./w//a/.."`, 1), ""):                                                            tag(pathWrite, ""),
		tag(strings.Replace(pathWrite, `"/w"`, `"~"`, 1), ""):                                                                     tag(strings.Replace(pathWrite, `"/w"`, `"/home/u"`, 1), ""),
		tag(`{"path":{"type":"special","value":{"kind":"current_working_directory","subpath":null}},"access":"write","x":1}`, ""): tag(`{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`, ""),
		`{"later":[1],"type":"disabled","network":5}`:                                                                             `{"type":"disabled"}`,
	} {
		p, err := DecodeProfile([]byte(text), NativePath("/home/u"))
		if got := string(p.AppendJSON(nil)); err != nil || got != want {
			t.Errorf("%s\nbecame %s, %v\nwant   %s", text, got, err, want)
		}
	}
}

func TestDecodeProfileRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"another type":                      `5`,
		"null":                              `null`,
		"an unknown type":                   `{"type":"magic"}`,
		"no network":                        `{"type":"external"}`,
		"no file system":                    `{"type":"managed","network":"enabled"}`,
		"an unknown network":                `{"type":"external","network":"on"}`,
		"a member twice":                    `{"type":"external","network":"enabled","network":"restricted"}`,
		"the type twice":                    `{"type":"disabled","type":"disabled"}`,
		"an unknown file system":            `{"type":"managed","file_system":{"type":"x"},"network":"enabled"}`,
		"no entries":                        `{"type":"managed","file_system":{"type":"restricted"},"network":"enabled"}`,
		"a depth of zero":                   tag("", `,"glob_scan_max_depth":0`),
		"a negative depth":                  tag("", `,"glob_scan_max_depth":-1`),
		"an unknown access":                 tag(strings.Replace(pathWrite, `"write"`, `"all"`, 1), ""),
		"no access":                         tag(`{"path":{"type":"path","path":"/w"}}`, ""),
		"an unknown special":                tag(strings.Replace(rootRead, `"root"`, `"later"`, 1), ""),
		"an unknown special without a path": tag(strings.Replace(rootRead, `"root"`, `"unknown"`, 1), ""),
		"an unknown kind of path":           tag(strings.Replace(pathWrite, `"type":"path"`, `"type":"regexp"`, 1), ""),
		"a NUL in a pattern":                tag(`{"path":{"type":"glob_pattern","pattern":"/\u0000"},"access":"deny"}`, ""),
		"a pattern that is too long":        tag(`{"path":{"type":"glob_pattern","pattern":"/`+strings.Repeat("x", maxPath)+`"},"access":"deny"}`, ""),
		"older: another member":             `{"network":null,"file_system":null,"x":1}`,
		"older: another network member":     `{"network":{"on":true}}`,
		"older: the network as a word":      `{"network":"enabled"}`,
		"older: another file system member": `{"file_system":{"type":"restricted","entries":[]}}`,
		"older: lists and entries":          `{"file_system":{"read":["/a"],"entries":[]}}`,
		"older: lists and a depth":          `{"file_system":{"write":[],"glob_scan_max_depth":1}}`,
		"too many entries":                  tag(strings.Repeat(rootRead+",", maxEntries)+rootRead, ""),
		"too many in two lists":             `{"file_system":{"read":["/a"` + strings.Repeat(`,"/a"`, 600) + `],"write":["/a"` + strings.Repeat(`,"/a"`, 600) + `]}}`,
	} {
		var shape *ShapeError
		_, err := DecodeProfile([]byte(text), NativePath("/home/u"))
		if !errors.As(err, &shape) || err.Error() != shapeText || len(shape.Cause.Error()) > 300 {
			t.Errorf("%s: got error %v; want errors.As(err, &shape), %v, len(shape.Cause.Error()) at most 300", name, err, shapeText)
		}
	}
	if _, err := DecodeProfile([]byte(tag(strings.Repeat(rootRead+",", maxEntries-1)+rootRead, "")), NativePath("")); err != nil {
		t.Errorf("at the limit of entries: %v", err)
	}
	for name, text := range map[string]string{
		"truncated": `{"type":"managed"`,
		"empty":     ``,
		"trailing":  `{"type":"disabled"} x`,
		"not JSON":  `{'type':1}`,
		"too deep":  strings.Repeat("[", 1000),
	} {
		var syntax *jsonwire.SyntaxError
		if _, err := DecodeProfile([]byte(text), NativePath("")); !errors.As(err, &syntax) {
			t.Errorf("%s: got error %v, want errors.As(err, &syntax)", name, err)
		}
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		path, want string
		decode     PathDecoder
	}{
		{"rel", "path is not absolute", NativePath("/home/u")},
		{"file:///w", "path is not absolute", NativePath("/home/u")},
		{"~x", "path is not absolute", NativePath("/home/u")},
		{"~/x", "path is relative to a home directory that is not known", NativePath("")},
		{"", "path is not absolute", NativePath("/home/u")},
		{`/a\u0000`, "path contains a NUL byte", NativePath("")},
		{"/" + strings.Repeat("x", maxPath), "path is too long", NativePath("")},
		{"/" + strings.Repeat("/", maxText), "path is too long", NativePath("")},
		{"file://server/share", "'file://server/share' is invalid on 'linux'", uris},
		{"file:///%FF", "path is not valid UTF-8", uris},
	} {
		var p *PathError
		_, err := DecodeProfile([]byte(tag(strings.Replace(pathWrite, "/w", tt.path, 1), "")), tt.decode)
		if !errors.As(err, &p) || err.Error() != "invalid sandbox permission path URI: "+tt.want {
			t.Errorf("%s: got error %v; want errors.As(err, &p), %v", clip(tt.path), err, "invalid sandbox permission path URI: "+tt.want)
		} else if len(p.Text) > maxShown+4 {
			t.Errorf("a text of %d bytes", len(p.Text))
		}
	}
	long := "/" + strings.Repeat("x", maxPath-1)
	if _, err := DecodeProfile([]byte(tag(strings.Replace(pathWrite, "/w", long, 1), "")), NativePath("")); err != nil {
		t.Errorf("the longest path: %v", err)
	}
}

func TestNeedsCwd(t *testing.T) {
	git := managed("root=read")
	git.FileSystem.Entries = append(git.FileSystem.Entries, Entry{Path{Kind: Unknown, Text: GitPath}, Write})
	if !git.NeedsCwd() {
		t.Error("got false for the special path :git, want true")
	}
	for list, want := range map[string]bool{
		"root=read /w=write tmpdir=write":       false,
		"project_roots=read":                    true,
		"project_roots/.git=read":               true,
		"glob:*.env=deny":                       true,
		"glob:/w/*.env=deny":                    false,
		"glob:codex-project-roots://*.env=deny": true,
	} {
		if managed(list).NeedsCwd() != want {
			t.Errorf("%s: got %v, want %v", list, !want, want)
		}
	}
}

func TestWithProjectRoots(t *testing.T) {
	p := managed("root=read project_roots=write project_roots/.git=read glob:*.env=deny glob:codex-project-roots://**/*.key=deny")
	got := p.WithProjectRoots([]string{"/a", "/b[1]", "/a"})
	want := managed("root=read /a=write /b[1]=write /a/.git=read /b[1]/.git=read glob:*.env=deny glob:/a/**/*.key=deny glob:/b[[]1]/**/*.key=deny")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	git := Profile{FileSystem: FileSystem{Entries: []Entry{{Path{Kind: Unknown, Text: GitPath, Subpath: "s", HasSubpath: true}, Write}, {Path{Kind: Unknown, Text: ":other"}, Write}}}}
	wantGit := []Entry{{Path{Kind: Unknown, Text: GitPath, Subpath: "/a/s", HasSubpath: true}, Write}, {Path{Kind: Unknown, Text: GitPath, Subpath: "/b/s", HasSubpath: true}, Write}, {Path{Kind: Unknown, Text: ":other"}, Write}}
	if got := git.WithProjectRoots([]string{"/a", "/b"}).FileSystem.Entries; !reflect.DeepEqual(got, wantGit) {
		t.Errorf("got %+v\nwant %+v", got, wantGit)
	}
	if same := p.WithProjectRoots(nil); !reflect.DeepEqual(same, p) {
		t.Errorf("no roots: %+v", same)
	}
}

func FuzzDecodeProfile(f *testing.F) {
	f.Add([]byte(tag(rootRead+","+pathWrite, `,"glob_scan_max_depth":3`)))
	f.Add([]byte(`{"network":{"enabled":true},"file_system":{"read":["~/x"],"write":["/w/.."]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := DecodeProfile(text, NativePath("/home/u"))
		if err != nil {
			return
		}
		again, err := DecodeProfile(p.AppendJSON(nil), NativePath("/home/u"))
		if err != nil || !reflect.DeepEqual(normal(p), normal(again)) {
			t.Fatalf("%q\nis %+v\nand %+v, %v", text, p, again, err)
		}
		view := tree("/w/.git/", "/w/a.env x", "/l -> w")
		policy := Resolve(p.FileSystem, Scope{Cwd: "/w", Tmpdir: "/tmp"}, view)
		for _, root := range policy.WritableRoots() {
			if !policy.CanWrite(root.Path) || policy.FullWrite() {
				t.Fatalf("%q: got %+v; want policy.CanWrite(root.Path), not policy.FullWrite()", text, root)
			}
		}
		for _, at := range policy.UnreadableRoots() {
			if !policy.DeniesRead(at) {
				t.Fatalf("%q: %s is denied and can be read", text, at)
			}
		}
		_, _ = policy.ExpandGlobs()
		NeedsDirectEnforcement(p, Scope{Cwd: "/w"}, view)
	})
}

func normal(p Profile) Profile {
	if len(p.FileSystem.Entries) == 0 {
		p.FileSystem.Entries = nil
	}
	return p
}

func TestDeniedReads(t *testing.T) {
	for text, want := range map[string]bool{
		`{"type":"disabled"}`:                     false,
		`{"type":"external","network":"enabled"}`: false,
		tag("", ""):                     false,
		tag(rootRead+","+pathWrite, ""): false,
		tag(rootRead+`,{"path":{"type":"path","path":"/s"},"access":"none"}`, ""):                        true,
		tag(`{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}`, ""):                 true,
		tag(`{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"deny"}`, ""):          true,
		tag(`{"path":{"type":"special","value":{"kind":"unknown","path":"later"}},"access":"deny"}`, ""): true,
	} {
		p, err := DecodeProfile([]byte(text), NativePath(""))
		if err != nil || p.FileSystem.DeniesReads() != want {
			t.Errorf("%s: got p.FileSystem.DeniesReads() %v, error %v; want no error, p.FileSystem.DeniesReads() %v", text, p.FileSystem.DeniesReads(), err, want)
		}
	}
	if (FileSystem{Unrestricted: true, Entries: []Entry{{Access: Deny}}}).DeniesReads() {
		t.Error("what is unrestricted denies something")
	}
}
