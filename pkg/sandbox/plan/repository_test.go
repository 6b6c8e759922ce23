package plan

import (
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// repositoryLines are a repository at a path.
func repositoryLines(at string, more ...string) []string {
	lines := []string{"/HEAD ref", "/objects/info/", "/refs/", "/config text", "/hooks/", "/info/attributes text", "/objects/info/alternates text", "/.git/", "/.agents/", "/.codex/"}
	for i := range lines {
		lines[i] = at + lines[i]
	}
	return append(lines, more...)
}

// TestRepositories: an entry for the special path :git grants the repository of the project roots as git finds it, except what
// decides which programs git runs. In each of the hosts those files exist, so that no placeholders are needed.
func TestRepositories(t *testing.T) {
	metadata := []string{"/w/.agents/", "/w/.codex/"}
	common := func(at string) []string {
		lines := []string{"rw " + at, "rw " + at + "/info", "rw " + at + "/objects", "rw " + at + "/objects/info"}
		for _, name := range []string{".agents", ".codex", ".git", "config", "config.worktree", "hooks", "modules", "worktrees", "info/attributes", "objects/info/alternates"} {
			lines = append(lines, "ro "+at+"/"+name)
		}
		return lines
	}
	full := func(at string, more ...string) []string {
		return repositoryLines(at, append(more, at+"/config.worktree text", at+"/modules/", at+"/worktrees/", at+"/commondir")...)
	}
	for _, tt := range []struct {
		name    string
		host    []string
		entries string
		want    []string // what is mounted at or below the repository, without the mount of /w; nil: the repository is not writable
		undo    []string
		refused string
	}{
		{"a directory", full("/w/.git"), "", append(common("/w/.git"), "ro /w/.git/commondir"), nil, ""},
		{"the profile of a workspace, which names .git", full("/w/.git"), "project_roots/.git=read", append(common("/w/.git"), "ro /w/.git/commondir"), nil, ""},
		{
			"names that are missing", []string{"/w/.git/HEAD ref", "/w/.git/objects/", "/w/.git/refs/", "/w/.git/info/"}, "",
			[]string{
				"rw /w/.git", "rw /w/.git/info", "rw /w/.git/objects", "dir 555 /w/.git/.agents placeholder", "dir 555 /w/.git/.codex placeholder",
				"file 600 /w/.git/config placeholder", "file 600 /w/.git/config.worktree placeholder", "dir 555 /w/.git/hooks placeholder", "dir 555 /w/.git/modules placeholder",
				"dir 555 /w/.git/worktrees placeholder", "file 600 /w/.git/info/attributes placeholder", "file 600 /w/.git/objects/info placeholder",
			}, []string{"/w/.git/commondir", "/w/.git/.git"}, "",
		},
		{"a file that configuration includes", full("/w/.git", "/w/.git/config.local text"), "", append(common("/w/.git"), "ro /w/.git/commondir", "ro /w/.git/config.local"), nil, ""},
		{"a directory above", append(full("/.git"), "/w/x"), "", append(common("/.git"), "ro /.git/commondir"), nil, ""},
		{"a bare repository", full("/w"), "", nil, nil, ""},
		{
			"a linked worktree", append(full("/p/.git"), "/w/.git gitdir: /p/.git/worktrees/w", "/p/.git/worktrees/w/HEAD ref", "/p/.git/worktrees/w/commondir ../..", "/p/.git/worktrees/w/gitdir /w/.git",
				"/p/.git/worktrees/w/modules/", "/p/.git/worktrees/w/config.worktree text", "/p/.git/worktrees/w/.git/", "/p/.git/worktrees/w/.agents/", "/p/.git/worktrees/w/.codex/"), "",
			append(append(common("/p/.git"), "ro /p/.git/commondir"), "rw /p/.git/worktrees/w", "ro /p/.git/worktrees/w/.agents", "ro /p/.git/worktrees/w/.codex", "ro /p/.git/worktrees/w/.git",
				"ro /p/.git/worktrees/w/commondir", "ro /p/.git/worktrees/w/config.worktree", "ro /p/.git/worktrees/w/gitdir", "ro /p/.git/worktrees/w/modules"), nil, "",
		},
		{"a submodule of a submodule", append(full("/w/.git"), full("/w/.git/modules/a/b/modules/c")...), "", append(append(common("/w/.git"), "ro /w/.git/commondir"), append(common("/w/.git/modules/a/b/modules/c"), "ro /w/.git/modules/a/b/modules/c/commondir")...), nil, ""},
		{"a .git that is a link", append(full("/p/.git"), "/w/.git -> /p/.git"), "", append(common("/p/.git"), "ro /p/.git/commondir"), nil, ""},
		{"hooks that are a link", append(slices.DeleteFunc(full("/w/.git"), func(l string) bool { return strings.HasSuffix(l, "/hooks/") }), "/w/.git/hooks -> /h", "/h/"), "",
			append(slices.DeleteFunc(common("/w/.git"), func(l string) bool { return strings.HasSuffix(l, "/hooks") }), "ro /w/.git/commondir", "link ro /w/.git/hooks"), nil, ""},
		{"objects that are a link", []string{"/w/.git/HEAD ref", "/w/.git/objects -> /o", "/o/", "/w/.git/refs/"}, "", nil, nil, "cannot grant the repository /w/.git: its objects is a symbolic link"},
		{"no repository", []string{"/w/.git/HEAD ref"}, "", nil, nil, ""},
		{"a .git that a command could have made", append(full("/x"), "/v/w2/.git gitdir: /x"), "/v=write /v/w2/d=write git:/v/w2/d=write", nil, nil, ""},
		{"denied", full("/w/.git"), "/w/.git=deny", nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			profile := managed(t, "root=read /w=write "+strings.ReplaceAll(tt.entries, "git:/v/w2/d=write", ""))
			profile.FileSystem.Entries = append(profile.FileSystem.Entries, permissions.Entry{
				Path: permissions.Path{Kind: permissions.Unknown, Text: permissions.GitPath}, Access: permissions.Write,
			})
			if strings.Contains(tt.entries, "git:/v/w2/d") {
				profile.FileSystem.Entries = append(profile.FileSystem.Entries, permissions.Entry{
					Path: permissions.Path{Kind: permissions.Unknown, Text: permissions.GitPath, Subpath: "/v/w2/d", HasSubpath: true}, Access: permissions.Write,
				})
			}
			plan, err := Make(profile, permissions.Scope{Cwd: "/w"}, tree(append(slices.Clone(tt.host), metadata...)...), false)
			if err != nil || tt.refused != "" {
				if err == nil || tt.refused == "" || !strings.HasPrefix(err.Error(), tt.refused) {
					t.Fatalf("got error %v, want %q", err, tt.refused)
				}
				return
			}
			var got []string
			for _, m := range plan.Mounts {
				if slices.ContainsFunc(plan.Repositories, func(dir string) bool { return dir != "/w" && permissions.Within(m.Target, dir) }) && (m.Kind != 0) {
					got = append(got, line(m))
				}
			}
			want := slices.Sorted(slices.Values(tt.want))
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			var undo []string
			for _, n := range plan.Undo {
				undo = append(undo, n.Path)
			}
			if tt.undo != nil && !slices.Equal(undo, tt.undo) {
				t.Errorf("got %q to undo, want %q", undo, tt.undo)
			}
			if err := plan.LandlockRefusal(true); (err != nil) != (len(plan.Repositories) > 0) {
				t.Errorf("got error %v of Landlock with %q", err, plan.Repositories)
			}
		})
	}
}

// TestABareRepository: of a workspace that is a bare repository the configuration and the hooks become read-only.
func TestABareRepository(t *testing.T) {
	profile := managed(t, "root=read /w=write")
	profile.FileSystem.Entries = append(profile.FileSystem.Entries, permissions.Entry{Path: permissions.Path{Kind: permissions.Unknown, Text: permissions.GitPath}, Access: permissions.Write})
	host := slices.DeleteFunc(repositoryLines("/w", "/w/config.worktree text", "/w/modules/", "/w/worktrees/", "/w/commondir"), func(l string) bool { return l == "/w/.git/" })
	plan, err := Make(profile, permissions.Scope{Cwd: "/w"}, tree(host...), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config", "config.worktree", "hooks", "commondir", "modules", "worktrees", "info/attributes", "objects/info/alternates"} {
		if !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Kind == BindReadOnly && m.Target == "/w/"+name }) {
			t.Errorf("%s is not read-only: %s", name, dumpPlan(plan))
		}
	}
}
