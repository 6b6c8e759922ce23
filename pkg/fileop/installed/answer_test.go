package installed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
)

func TestParseSkill(t *testing.T) {
	long := strings.Repeat("é", maxName)
	for text, want := range map[string]string{
		"---\nname: one\ndescription: first\n---\nbody\n":                           "one|first|",
		"---\r\nname: c\r\ndescription: d\r\n---\r\n":                               "c|d|",
		"---\ndescription: d\n---":                                                  "dir|d|",
		"---\nname: \"a  b\"\ndescription: |\n  l1\n  l2\n---\n":                    "a b|l1 l2|",
		"---\nname: a\ndescription: d\nmetadata:\n  short-description: s  t\n---\n": "a|d|s t",
		"---\nname: " + long + "\ndescription: d\n---\n":                            long + "|d|",
		"---\nname: " + long + "x\ndescription: d\n---\n":                           "",
		"---\nname: [x\n---\n":                                                      "",
		"---\nname: x\n---\n":                                                       "",
		"---\nname: x\ndescription: [d]\n---\n":                                     "",
		"---\nname: q\ndescription: d\n":                                            "",
		"text\n":                                                                    "",
		"":                                                                          "",
		"\ufeff---\nname: one\ndescription: first\n---\n":                           "",
		"---\ndescription: d\nx: |\n  " + strings.Repeat("y", 2*maxYAML) + "\n---\n": "",
	} {
		s, ok := parseSkill(text, "dir")
		got := ""
		if ok {
			got = s.Name + "|" + s.Description + "|"
			if s.ShortDescription != nil {
				got += *s.ShortDescription
			}
		}
		if got != want {
			t.Errorf("%.80q: got %q, want %q", text, got, want)
		}
	}
}

func TestParseMetadata(t *testing.T) {
	for text, want := range map[string]string{
		"dependencies:\n  tools:\n    - type: mcp\n      value: x\n      oauth_callback_port: 80\n    - value: y\npolicy:\n" +
			"  allow_implicit_invocation: False\n  products: [codex]\n": `{"tools":[{"type":"mcp","value":"x","description":null,` +
			`"transport":null,"command":null,"url":null,"oauthCallbackPort":80}]} {"allowImplicitInvocation":false,"products":["codex"]}`,
		"dependencies: {}\npolicy: {}\n":                `{"tools":[]} {"allowImplicitInvocation":null,"products":[]}`,
		"policy: {allow_implicit_invocation: \"true\"}": `null {"allowImplicitInvocation":null,"products":[]}`,
		"policy: yes\ndependencies: []":                 `null null`,
		"policy: {":                                     `null null`,
		"dependencies:\n  tools: [{type: a, value: b, oauth_callback_port: 70000}]": `{"tools":[{"type":"a","value":"b","description":null,` +
			`"transport":null,"command":null,"url":null,"oauthCallbackPort":null}]} null`,
	} {
		dependencies, policy := parseMetadata(text)
		got := []string{"null", "null"}
		if dependencies != nil {
			b, _ := execproto.Append(nil, dependencies)
			got[0] = string(b)
		}
		if policy != nil {
			b, _ := execproto.Append(nil, policy)
			got[1] = string(b)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	order := []string{
		"0", "1.0", "a", "v1", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.0+b", "1.2.0",
		"1.10.0", "2.0.0-beta", "2.0.0", local,
	}
	for i, a := range order {
		for j, b := range order {
			if got := compareVersions(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: got %d", a, b, got)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	const cache = "file:///c/plugins/cache"
	entries := map[string]bool{
		cache + "/m/a/1.9.0": true, cache + "/m/a/1.10.0": true, cache + "/m/a/" + RemoteInstall: false, cache + "/m/b/local": true,
		cache + "/m/b/9.0.0": true, cache + "/m/odd%20name/1.0.0": true, cache + "/m/file/1.0.0": false, cache + "/m/../1.0.0": true,
		cache + "/m/deep/1.0.0/x": true, "file:///elsewhere/m/a/2.0.0": true,
	}
	got, truncated := Choose(cache, entries)
	want := []Plugin{
		{"a@m", "1.10.0", cache + "/m/a/1.10.0", cache + "/m/a/" + RemoteInstall},
		{"b@m", "local", cache + "/m/b/local", ""},
	}
	if !slices.Equal(got, want) || truncated {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range MaxLocations {
		entries[fmt.Sprintf("%s/m/p%d/1.0.0", cache, i)] = true
	}
	if got, truncated := Choose(cache, entries); len(got) != MaxLocations || !truncated {
		t.Errorf("%d plugins, truncated: %v", len(got), truncated)
	}
}

func TestParseRemoteInstall(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema_version":1,"remote_plugin_id":"x","more":[]}`:                                "x",
		`{"schema_version":2,"remote_plugin_id":"x"}`:                                          "",
		`{"remote_plugin_id":"x"}`:                                                             "",
		`{"schema_version":1,"remote_plugin_id":""}`:                                           "",
		`{"schema_version":1,"remote_plugin_id":5}`:                                            "",
		`{"schema_version":1,"remote_plugin_id":"x"} y`:                                        "",
		`{"schema_version":1,"remote_plugin_id":"` + strings.Repeat("x", maxRemoteID+1) + `"}`: "",
		``: "",
	} {
		got := ""
		if id := ParseRemoteInstall([]byte(text)); id != nil {
			got = *id
		}
		if got != want {
			t.Errorf("%.60s: got %q, want %q", text, got, want)
		}
	}
}

// rootWith returns a root with the given skills and manifests. The keys are paths.
func rootWith(files map[string]string) *execproto.CapabilityRoot {
	root := &execproto.CapabilityRoot{ID: "id", Path: "file:///r"}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := execproto.CapabilityFile{Path: "file:///r/" + name, Contents: files[name]}
		if strings.HasSuffix(name, "SKILL.md") {
			root.Skills = append(root.Skills, execproto.CapabilitySkill{Instructions: f})
		} else {
			root.NamespaceManifests = append(root.NamespaceManifests, f)
		}
	}
	return root
}

func TestSkillsHaveTheNameOfTheNearestManifest(t *testing.T) {
	const head = "---\ndescription: d\n---\n"
	var a Answer
	a.Skills(rootWith(map[string]string{
		".codex-plugin/plugin.json": `{"name":"outer"}`, "a/SKILL.md": head, "p/.claude-plugin/plugin.json": `{"name":"inner"}`, "p/b/SKILL.md": head,
		"q/.codex-plugin/plugin.json": `{}`, "q/SKILL.md": head, "x%20y/.codex-plugin/plugin.json": `no JSON`, "x%20y/z%20z/SKILL.md": head,
	}))
	r := a.Result()
	var got []string
	for _, s := range r.Skills {
		got = append(got, s.Name)
	}
	if want := []string{"outer:a", "inner:b", "q:q", "outer:z z"}; !slices.Equal(got, want) || len(r.Warnings) != 0 {
		t.Errorf("got %q %q, want %q", got, r.Warnings, want)
	}
}

// TestAnswersAreBounded: entries that do not fit are left out, and the answer says so.
func TestAnswersAreBounded(t *testing.T) {
	files := make(map[string]string)
	for i := range maxEntries + 1 {
		files[fmt.Sprintf("s%d/SKILL.md", i)] = "---\ndescription: d\n---\n"
	}
	var many Answer
	many.Skills(rootWith(files))
	if r := many.Result(); len(r.Skills) != maxEntries || !slices.Equal(r.Warnings, []string{warnSize}) {
		t.Errorf("%d skills, %q", len(r.Skills), r.Warnings)
	}
	var large Answer
	for range 100 {
		root := rootWith(map[string]string{"p/.codex-plugin/plugin.json": strings.Repeat("x", 100_000)})
		root.Plugin = &execproto.CapabilityPlugin{Manifest: root.NamespaceManifests[0]}
		large.Plugin(Plugin{ID: "a@m", Version: "1"}, root, nil)
	}
	r := large.Result()
	text, err := json.Marshal(r)
	if err != nil || len(r.AppendJSON(nil)) > maxAnswer+1024 || len(r.Plugins) == 0 || len(r.Plugins) == 100 || !slices.Contains(r.Warnings, warnSize) {
		t.Errorf("%d plugins, %d bytes, %q, %v", len(r.Plugins), len(text), r.Warnings, err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	hidden := "the sandbox hides it"
	var a Answer
	a.Skills(&execproto.CapabilityRoot{Error: &hidden})
	if r := a.Result(); len(r.Skills)+len(r.Warnings) != 0 {
		t.Errorf("a hidden root: got %v", r)
	}
	a = Answer{}
	a.Plugin(Plugin{ID: "a@m"}, &execproto.CapabilityRoot{}, nil)
	a.Unresolved()
	if r := a.Result(); len(r.Plugins) != 0 || !slices.Equal(r.Warnings, []string{warnMetadata, warnLocations}) {
		t.Errorf("got %v", r)
	}
}
