package sandbox

import (
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/account/home"
	"codex.internal/pkg/sandbox/permissions"
)

// readNamed parses a document and returns its profile t. The tables of the document are the tables
// of [permissions].
func readNamed(document string) (permissions.Profile, error) {
	var tables map[string]any
	if err := home.DecodeTOML([]byte(document), &tables, false); err != nil {
		return permissions.Profile{}, err
	}
	return namedProfile(tables, "t", "/w", "/home/me")
}

// entriesOf formats the entries of a profile, one on each line.
func entriesOf(p permissions.Profile) string {
	var lines []string
	for _, e := range p.FileSystem.Entries {
		at := map[permissions.PathKind]string{
			permissions.Root: ":root", permissions.Minimal: ":minimal", permissions.Tmpdir: ":tmpdir",
			permissions.SlashTmp: ":slash_tmp", permissions.ProjectRoots: ":workspace_roots/",
		}[e.Path.Kind] + e.Path.Text + e.Path.Subpath
		lines = append(lines, at+" "+e.Access.String())
	}
	if p.Network == permissions.NetworkEnabled {
		lines = append(lines, "network")
	}
	return strings.Join(lines, "\n")
}

// TestNamedProfile reads tables of config.toml. The expected permissions were compared
// with those that Codex CLI 0.169.0 enforces.
func TestNamedProfile(t *testing.T) {
	for name, tt := range map[string]struct{ document, want string }{
		"paths": {`
			[t]
			description = "for work"
			[t.filesystem]
			":root" = "read"
			"/srv/x/" = "write"
			"~/.cache" = "write"
			"/srv/secret" = "none"
			[t.filesystem.":workspace_roots"]
			"." = "write"
			docs = "read"
			"a/b" = "deny"`,
			"/home/me/.cache write\n/srv/secret deny\n/srv/x write\n:root read\n:workspace_roots/ write\n:workspace_roots/a/b deny\n:workspace_roots/docs read"},
		"patterns of everything":    {"[t.filesystem]\n\"/**\" = \"deny\"", "/ deny"},
		"everything below the root": {"[t.filesystem.\"/\"]\n\"**\" = \"deny\"", "/ deny"},
		"special paths": {"[t.filesystem]\n\":minimal\" = \"read\"\n\":tmpdir\" = \"write\"\n\":slash_tmp\" = {\".\" = \"write\"}\n\":project_roots\" = \"read\"",
			":minimal read\n:workspace_roots/ read\n:tmpdir write\n:slash_tmp write"},
		"patterns": {"[t.filesystem]\n\"/srv/**\" = \"write\"\n\"/srv/*.key\" = \"deny\"\n[t.filesystem.\":workspace_roots\"]\n\"**/*.env\" = \"deny\"\n\"src/**\" = \"write\"",
			"/srv write\n/srv/*.key deny\ncodex-project-roots://**/*.env deny\n:workspace_roots/src write"},
		"what it extends": {"[t]\nextends = \"b\"\n[t.filesystem.\":workspace_roots\"]\n\".\" = \"read\"\n[b]\nextends = \":workspace\"\n[b.filesystem]\n\":tmpdir\" = \"read\"\n[b.network]\nenabled = true",
			":root read\n:workspace_roots/ read\n:workspace_roots/.agents read\n:workspace_roots/.codex read\n:workspace_roots/.git read\n:tmpdir read\n:slash_tmp write\nnetwork"},
		"the network is off again": {"[t]\nextends = \"b\"\n[t.network]\nenabled = false\n[b.network]\nenabled = true\ndomains = {\"a.test\" = \"allow\"}", ""},
		"more workspace roots": {"[t.filesystem]\n\":workspace_roots\" = \"write\"\n[t.workspace_roots]\n\"/srv\" = true\n\"/no\" = false",
			"/w write\n/srv write"},
		"repositories":                {"[t.filesystem.\":git\"]\n\".\" = \"write\"\n\"a/b\" = \"write\"", ":git write\n:gita/b write"},
		"an empty one grants nothing": {"[t]", ""},
	} {
		p, err := readNamed(tt.document)
		if err != nil || p.Kind != permissions.Managed || entriesOf(p) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, entriesOf(p), tt.want)
		}
	}
	for name, tt := range map[string]struct{ document, want string }{
		"no such profile":           {"[u]", `no permission profile "t"; there are u, :read-only`},
		"extends itself":            {"[t]\nextends = \"u\"\n[u]\nextends = \"t\"", `"t" extends itself, by way of "u"`},
		"extends nothing":           {"[t]\nextends = \"u\"", `extends "u", which the configuration does not have`},
		"extends everything":        {"[t]\nextends = \":danger-full-access\"", "may extend :read-only and :workspace"},
		"extends a number":          {"[t]\nextends = 1", "must be the name of a profile"},
		"an unknown key":            {"[t]\nfile_system = {}", `unknown key "file_system"`},
		"an unknown special path":   {"[t.filesystem]\n\":cwd\" = \"deny\"", "unknown special path :cwd"},
		"an unknown access":         {"[t.filesystem]\n\"/x\" = \"all\"", `must be "read", "write" or "deny", not all`},
		"a relative path":           {"[t.filesystem]\nx = \"read\"", `"x" must be an absolute path`},
		"another user's home":       {"[t.filesystem]\n\"~you/x\" = \"read\"", "must be an absolute path"},
		"a repository to read":      {"[t.filesystem]\n\":git\" = \"read\"", `the access can only be "write"`},
		"below a special path":      {"[t.filesystem.\":tmpdir\"]\nx = \"write\"", ":tmpdir takes no paths below it"},
		"out of the workspace":      {"[t.filesystem.\":workspace_roots\"]\n\"../x\" = \"write\"", `"../x" must be a relative path`},
		"out of it, hidden":         {"[t.filesystem.\":workspace_roots\"]\n\"a/../../x\" = \"write\"", "must be a relative path"},
		"absolute in the workspace": {"[t.filesystem.\":workspace_roots\"]\n\"/x\" = \"write\"", "must be a relative path"},
		"a pattern that grants":     {"[t.filesystem]\n\"/srv/*\" = \"write\"", "a pattern can only be denied"},
		"no depth":                  {"[t.filesystem]\nglob_scan_max_depth = 0", "at least 1"},
		"a list of files":           {"[t]\nfilesystem = []", "filesystem must be a table"},
		"hosts of a network":        {"[t.network]\nenabled = true\ndomains = {\"a.test\" = \"allow\"}", "list hosts with --allow-domain"},
		"hosts that are inherited":  {"[t]\nextends = \"b\"\n[t.network]\nenabled = true\n[b.network]\ndomains = {\"a.test\" = \"allow\"}", "does not enforce network.domains"},
		"a root that is a number":   {"[t.workspace_roots]\n\"/x\" = 1", "must be true or false"},
		"a relative root":           {"[t.workspace_roots]\n\"../x\" = true", "must be an absolute path"},
	} {
		if p, err := readNamed(tt.document); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got p %v, error %v; want error with %q", name, p, err, tt.want)
		}
	}
	if _, err := namedProfile(nil, ":all", "/w", "/"); err == nil || !strings.Contains(err.Error(), `unknown built-in permission profile ":all"`) {
		t.Errorf("an unknown built-in profile: %v", err)
	}
}

// FuzzNamedProfile: a trusted project can write config.toml, too. Any content leads to an error, or
// to a profile that the launcher reads in the same way.
func FuzzNamedProfile(f *testing.F) {
	f.Add("[t]\nextends = \":workspace\"\n[t.filesystem]\n\"/srv/*.key\" = \"deny\"\n[t.filesystem.\":workspace_roots\"]\ndocs = \"read\"")
	f.Add("[t.filesystem]\n\":root\" = \"read\"\n\"~/x\" = \"write\"\nglob_scan_max_depth = 3\n[t.network]\nenabled = true")
	f.Add("[t]\nextends = \"t\"\n[t.workspace_roots]\n\"/x\" = true")
	f.Fuzz(func(t *testing.T, document string) {
		p, err := readNamed(document)
		if err != nil {
			return
		}
		text := p.AppendJSON(nil)
		again, err := permissions.DecodeProfile(text, permissions.NativePath("/home/me"))
		if err != nil && isLarge(&p) {
			return // the launcher reports this error
		}
		if err != nil {
			t.Fatalf("the launcher does not take %s: %v", text, err)
		}
		if string(again.AppendJSON(nil)) != string(text) {
			t.Errorf("%s became %s", text, again.AppendJSON(nil))
		}
	})
}

// isLarge reports whether a profile may have more entries, or longer paths, than the
// launcher accepts (docs/spec/sandbox.md §2).
func isLarge(p *permissions.Profile) bool {
	const entries, path = 1024, 4095
	return len(p.FileSystem.Entries) > entries || slices.ContainsFunc(p.FileSystem.Entries, func(e permissions.Entry) bool {
		return len(e.Path.Text) > path || len(e.Path.Subpath) > path
	})
}
