package permissions

import (
	"strings"
	"testing"
)

func TestAccessIsDecidedByTheLongestPrefix(t *testing.T) {
	for _, tt := range []struct {
		name, rules, path string
		want              Access
	}{
		{"nothing is granted without an entry", "", "/w", Deny},
		{"an entry grants what lies below", "/w=read", "/w/a/b", Read},
		{"and itself", "/w=write", "/w", Write},
		{"and nothing above", "/w/a=write", "/w", Deny},
		{"a name that begins alike is another", "/w=write", "/wx", Deny},
		{"the longer prefix wins", "/w=deny /w/a=write", "/w/a/f", Write},
		{"whatever the order", "/w/a=write /w=deny", "/w/a/f", Write},
		{"deny beats write", "/w=write /w=deny", "/w", Deny},
		{"write beats read", "/w=write /w=read", "/w", Write},
		{"read after write does not narrow", "/w=read /w=write", "/w", Write},
		{"root is /", "root=read", "/any", Read},
		{"project_roots is the cwd", "project_roots=write", "/w/f", Write},
		{"with a subpath below it", "project_roots/sub=write", "/w/sub/f", Write},
		{"and nothing beside that", "project_roots/sub=write", "/w/f", Deny},
		{"a subpath may leave the root", "project_roots/../x=write", "/x", Write},
		{"an absolute subpath replaces the root", "project_roots//x=write", "/x", Write},
		{"tmpdir is TMPDIR", "tmpdir=write", "/t/f", Write},
		{"slash_tmp is /tmp when that is a directory", "slash_tmp=write", "/tmp/f", Write},
		{"minimal names no path", "minimal=read", "/usr/bin", Deny},
		{"unknown grants nothing", "unknown=write", "/later", Deny},
		{"a glob grants nothing", "glob:/w/*=write", "/w/f", Deny},
		{"a deny glob is no path", "root=read glob:/w/*=deny", "/w/f", Read},
		{"the path is cleaned", "/w=write", "/w/../x", Deny},
		{"a relative path is denied", "root=write", "x", Deny},
	} {
		if got := resolveIn(tt.rules, tree("/tmp/", "/t/", "/w/")).Access(tt.path); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestScope(t *testing.T) {
	p := Resolve(restricted("project_roots=write tmpdir=write slash_tmp=write"), Scope{Cwd: "/w", WorkspaceRoots: []string{"/a", "/b"}, Tmpdir: "t"}, tree("/tmp a file"))
	for at, want := range map[string]Access{"/a": Write, "/b/f": Write, "/w": Deny, "/t": Deny, "/tmp": Deny} {
		if got := p.Access(at); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if p := Resolve(restricted("project_roots=write"), Scope{}, tree()); p.Access("/") != Deny || len(p.WritableRoots()) > 0 {
		t.Error("project_roots without a root grant something")
	}
	if p := Resolve(FileSystem{Entries: []Entry{{Path{}, Write}}}, Scope{}, tree()); len(p.WritableRoots()) > 0 {
		t.Error("an entry without a path grants something")
	}
	if p := Resolve(FileSystem{Unrestricted: true}, Scope{}, tree()); p.Access("/x") != Write || !p.CanWrite("/x/.git") || !p.FullRead() || !p.FullWrite() || p.DeniesRead("/x") {
		t.Error("unrestricted is not")
	}
}

func TestFullAccess(t *testing.T) {
	for _, tt := range []struct {
		rules       string
		read, write bool
	}{
		{"", false, false},
		{"root=read", true, false},
		{"root=write", true, true},
		{"root=deny", false, false},
		{"/=write", false, false}, // only the special path counts
		{"root=write root=read", true, true},
		{"root=write root=deny", false, false},
		{"root=write /x=read", true, false},
		{"root=write /x=read /x=write", true, true},
		{"root=write /x=deny /x=write", false, false},
		{"root=write /=read", true, true},
		{"root=write /tmp=read slash_tmp=write", true, true},
		{"root=write slash_tmp=read /tmp=write", true, true},
		{"root=write slash_tmp=read", true, false},
		{"root=write tmpdir=read", true, false},
		{"root=write tmpdir=deny", false, false},
		{"root=write project_roots=read", true, false},
		{"root=write project_roots=read project_roots=write", true, true},
		{"root=write project_roots/a=read project_roots/b=write", true, false},
		{"root=write glob:/x=deny", false, false},
		{"root=write glob:/x=read", true, false},
		{"root=write minimal=read", true, true},
		{"root=write unknown=read", true, true},
		{"root=read minimal=deny", false, false},
	} {
		fs := restricted(tt.rules)
		if fs.FullRead() != tt.read || fs.FullWrite() != tt.write {
			t.Errorf("%s: read %v, write %v", tt.rules, fs.FullRead(), fs.FullWrite())
		}
	}
}

func TestCanWriteProtectsMetadata(t *testing.T) {
	for _, tt := range []struct {
		name, rules, path string
		want              bool
	}{
		{"a file", "/w=write", "/w/f", true},
		{"protected names", "/w=write", "/w/.git", false},
		{"and what lies below", "/w=write", "/w/.codex/a/b", false},
		{"and .agents", "/w=write", "/w/.agents", false},
		{"deeper ones are free", "/w=write", "/w/a/.git", true},
		{"other spellings are free", "/w=write", "/w/.GIT", true},
		{"a grant opens it", "/w=write /w/.git=write", "/w/.git/x", true},
		{"a deeper grant opens only that", "/w=write /w/.git/objects=write", "/w/.git/objects/f", true},
		{"and not the rest", "/w=write /w/.git/objects=write", "/w/.git/config", false},
		{"a grant above does not", "root=read /w=write /w/a=write", "/w/a/.git", false},
		{"each write entry protects its own", "/w=write /w/.git=write", "/w/.git/.git", false},
		{"full write protects nothing", "root=write", "/.git", true},
		{"a carve-out brings it back", "root=write /x=read", "/.git", false},
		{"reading is no matter", "root=read", "/w/.git", false},
	} {
		if got := resolveIn(tt.rules, tree()).CanWrite(tt.path); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// show writes roots as `PATH[EFFECTIVE] -READONLY… !NAME…`.
func show(roots []WritableRoot) string {
	var b strings.Builder
	for _, root := range roots {
		b.WriteString(root.Path)
		if root.Effective != root.Path {
			b.WriteString("[" + root.Effective + "]")
		}
		for _, ro := range root.ReadOnly {
			b.WriteString(" -" + ro.Path)
			if ro.Default {
				b.WriteString("(default)")
			}
			if ro.ProjectRootsMetadata {
				b.WriteString("(missing)")
			}
		}
		for _, name := range root.Names {
			b.WriteString(" !" + name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestWritableRoots(t *testing.T) {
	const all = " !.git !.agents !.codex"
	for _, tt := range []struct{ name, rules, tree, want string }{
		{"a write entry", "/x=write", "/x/", "/x" + all},
		{"the cwd's .codex, though missing", "/w=write", "/w/", "/w -/w/.codex(default)" + all},
		{"existing metadata", "/x=write", "/x/.git/ /x/.agents/ /x/.codex/", "/x -/x/.git(default) -/x/.agents(default) -/x/.codex(default)" + all},
		{"files of these names, but .git, are no metadata", "/x=write", "/x/.git=no /x/.agents=f /x/.codex=f", "/x -/x/.git(default)" + all},
		{"a gitdir pointer", "/x=write", "/x/.git=gitdir:meta/git /x/meta/git/", "/x -/x/meta/git(default) -/x/.git(default)" + all},
		{"an absolute gitdir pointer", "/x=write", "/x/.git=gitdir:/y/git /y/git/", "/x -/y/git(default) -/x/.git(default)" + all},
		{"a gitdir pointer to nowhere", "/x=write", "/x/.git=gitdir:/y/git", "/x -/x/.git(default)" + all},
		{"an entry takes the place of a default", "/x=write /x/.git=read", "/x/.git/", "/x -/x/.git" + all},
		{"a grant for it", "/x=write /x/.git=write", "/x/.git/", "/x !.agents !.codex\n/x/.git" + all},
		{"a grant below it", "/x=write /x/.git/o=write", "/x/.git/o/", "/x -/x/.git(default)" + all + "\n/x/.git/o" + all},
		{"a missing metadata entry", "/x=write /x/.git=read", "/x/", "/x -/x/.git(missing)" + all},
		{"carve-outs in the order of the entries", "/x/b=deny /x=write /x/a=read", "/x/", "/x -/x/b -/x/a" + all},
		{"a root in a carve-out", "/x=write /x/a=read /x/a/b=write", "/x/", "/x -/x/a" + all + "\n/x/a/b" + all},
		{"a read where a write entry decides is none", "/x=write /x/a=read /x/a=write", "/x/", "/x" + all + "\n/x/a" + all},
		{"a denied root is none", "/x=write /x=deny", "/x/", ""},
		{"nor one denied by another name", "/x=write /l=deny", "/x/ /l->x", ""},
		{"a metadata name without a grant", "root=write /y=read /.git=read", "/", "/ -/y -/.git(missing)" + all},
		{"a link", "/l=write", "/x/ /l->x", "/l[/x]" + all},
		{"two names of one root", "/l=write /x=write /x/keep=read", "/x/keep/ /l->x", "/l[/x] -/l/keep" + all},
		{"a carve-out by the other name", "/l=write /x/keep=read", "/x/keep/ /l->x", "/l[/x] -/l/keep" + all},
		{"a carve-out through a link elsewhere", "/x=write /l/keep=deny", "/x/keep/ /l->x", "/x -/x/keep" + all},
		{"a carve-out that is a link stays one", "/x=write /x/l=read", "/x/ /y/ /x/l->../y", "/x -/x/l" + all},
		{"metadata by the other name", "/l=write /x/.git=write", "/x/.git/ /l->x", "/l[/x] !.agents !.codex\n/x/.git" + all},
		{"below / carve-outs are effective", "/=write /l/a=read", "/x/a/ /l->x", "/ -/x/a" + all},
		{"a symlinked .git", "/x=write", "/x/real/ /x/.git->real", "/x -/x/.git(default)" + all},
		{"full write has no roots", "root=write", "/", ""},
	} {
		var lines []string
		for word := range strings.FieldsSeq(tt.tree) {
			word = strings.Replace(word, "->", " -> ", 1)
			word = strings.Replace(word, "=gitdir:", " gitdir: ", 1)
			lines = append(lines, strings.Replace(word, "=", " ", 1))
		}
		got := show(resolveIn(tt.rules, tree(lines...)).WritableRoots())
		if strings.TrimSuffix(got, "\n") != tt.want {
			t.Errorf("%s:\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestReadableAndUnreadableRoots(t *testing.T) {
	view := tree("/x/", "/l -> x", "/usr/bin/", "/bin -> usr/bin", "/sbin -> nowhere", "/etc/")
	for _, tt := range []struct {
		rules                          string
		readable, platform, unreadable []string
	}{
		{"root=read minimal=read", nil, nil, nil},
		{"minimal=read /x=read", []string{"/x"}, []string{"/bin", "/usr", "/etc"}, nil},
		{"minimal=deny /x=read", []string{"/x"}, nil, nil},
		{"/x=read /l=write", []string{"/x"}, nil, nil},
		{"root=read /x=deny /y=deny /l=deny", []string{"/"}, nil, []string{"/x", "/y"}},
		{"root=read root=deny /=deny", nil, nil, nil},
		{"root=read /x=deny /x=read /x/a=deny", []string{"/"}, nil, []string{"/x", "/x/a"}},
	} {
		p := resolveIn(tt.rules, view)
		sameList(t, tt.rules+" readable", p.ReadableRoots(), tt.readable)
		sameList(t, tt.rules+" platform", p.PlatformRoots(), tt.platform)
		sameList(t, tt.rules+" unreadable", p.UnreadableRoots(), tt.unreadable)
	}
}

func TestEffectivePath(t *testing.T) {
	view := tree("/w/d/f", "/w/l -> d", "/w/abs -> /w/d", "/w/up -> ../w/l/..", "/w/loop -> loop", "/w/gone -> none", "/w/f x", "/w/two -> l")
	for at, want := range map[string]string{
		"/":            "/",
		"/w/d/f":       "/w/d/f",
		"/w/l/f":       "/w/d/f",
		"/w/abs/x/y":   "/w/d/x/y",
		"/w/up/f":      "/w/f",
		"/w/two/f":     "/w/d/f",
		"/w/gone":      "/w/gone",
		"/w/gone/x":    "/w/gone/x",
		"/w/f/x":       "/w/f/x",
		"/none/../w/l": "/w/d",
	} {
		if got, err := EffectivePath(view, at); got != want || err != nil {
			t.Errorf("%s: got %s, error %v; want %s, no error", at, got, err, want)
		}
	}
	if got, err := EffectivePath(view, "/w/loop/x"); got != "/w/loop/x" || err == nil {
		t.Errorf("a loop: %s, %v", got, err)
	}
}
