package permissions

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestGlobMatches(t *testing.T) {
	for _, tt := range []struct {
		name, pattern, yes, no string
	}{
		{"a star stays within a folder", "/w/*.env", "/w/a.env /w/.env", "/w/d/b.env /w/a.envx /a.env"},
		{"a question mark is one character", "/w/k?", "/w/k1 /w/ké", "/w/k /w/k12"},
		{"and no slash", "/w?k", "/wxk", "/w/k"},
		{"a class", "/w/k[a-cx]", "/w/ka /w/kb /w/kx", "/w/kd /w/k- /w/k"},
		{"a negated class", "/w/k[!a]", "/w/kb", "/w/ka"},
		{"a negated class is no slash", "/w[^a]k", "/wbk", "/w/k /wak"},
		{"a bracket first in a class", "/w/[]a]", "/w/] /w/a", "/w/b"},
		{"an unclosed bracket is literal", "/w/[a", "/w/[a", "/w/a"},
		{"two stars cross", "/w/**/x", "/w/x /w/a/x /w/a/b/x", "/w/ax /x /w/x1"},
		{"two stars at the end", "/w/**", "/w/a /w/a/b", "/w /wx/a"},
		{"two stars within a name cross too", "/w/a**z", "/w/az /w/a/b/z", "/w/a"},
		{"braces", "/w/*.{env,key}", "/w/a.env /w/a.key", "/w/a.e /w/a.{env,key}"},
		{"braces in braces", "/w/{a,b{c,d}}", "/w/a /w/bc /w/bd", "/w/b /w/c"},
		{"an unclosed brace is literal", "/w/{a,b", "/w/{a,b", "/w/a"},
		{"an empty alternative", "/w/a{,b}", "/w/a /w/ab", "/w/b"},
		{"a backslash escapes", `/w/\*`, "/w/*", "/w/a"},
		{"what lies in a match", "/w/s*", "/w/secret/f /w/s", "/w/a/s"},
		{"bytes that are no UTF-8", "/w/?", "/w/\xff", "/w/\xff\xff"},
	} {
		p := compileGlob(tt.pattern)
		if p.err != nil {
			t.Errorf("%s: got p.err %v, want no error", tt.name, p.err)
		}
		for at := range strings.FieldsSeq(tt.yes) {
			if !p.matches(at) {
				t.Errorf("%s: %s does not match %s", tt.name, tt.pattern, at)
			}
		}
		for at := range strings.FieldsSeq(tt.no) {
			if p.matches(at) {
				t.Errorf("%s: %s matches %s", tt.name, tt.pattern, at)
			}
		}
	}
	for _, odd := range []string{"/w", "/a*b", "/[x]/?", `/a\b{c}`, "/{a,b}", "/[[]"} {
		if p := compileGlob(escapeGlob(odd)); !p.matches(odd) || p.matches(odd+"x") || p.programs[0].searchRoot() != path.Dir(odd) {
			t.Errorf("escaped %s: %+v", odd, p)
		}
	}
}

func TestExpandGlobs(t *testing.T) {
	view := tree("/w/a.env x", "/w/d/b.env x", "/w/d/e/c.env x", "/w/.h/.env x", "/w/u.env x", "/w/dir.env/f",
		"/w/l.env -> d/plain", "/w/d/plain x", "/w/gone.env -> nowhere", "/w/top.env -> /", "/w/ld -> /out", "/out/o.env x", "/file x", "/alias -> w", "/proc/own x", "/dev/own x")
	for _, tt := range []struct {
		name, rules string
		depth       int
		want        string
	}{
		{"files, folders and links with what they lead to", "glob:/w/*.env=deny", 0, "/w/a.env /w/d/plain /w/dir.env /w/gone.env /w/l.env /w/top.env /w/u.env"},
		{"deeper", "glob:/w/d/**/*.env=deny", 0, "/w/d/b.env /w/d/e/c.env"},
		{"no deeper than the depth", "glob:/w/d/**/*.env=deny", 1, "/w/d/b.env"},
		{"hidden ones", "glob:/w/**/.env=deny", 0, "/w/.h/.env"},
		{"not through linked folders", "glob:/w/**/o.env=deny", 0, ""},
		{"a search root that is a link", "glob:/alias/d/*.env=deny", 0, "/w/d/b.env"},
		{"relative to the cwd", "glob:d/*.env=deny", 0, "/w/d/b.env"},
		{"relative to the project roots", "glob:codex-project-roots://d/*.env=deny", 0, "/w/d/b.env"},
		{"two patterns, one match", "glob:/w/d/*.env=deny glob:/w/d/b*=deny", 0, "/w/d/b.env"},
		{"braces", "glob:/w/d/{b,x}.env=deny", 0, "/w/d/b.env"},
		{"a wildcard right below /", "glob:/*.env=deny glob:/**/b.env=deny glob:/w*/a.env=deny", 0, "/w/a.env /w/d/b.env"},
		{"a class right below /", "glob:/[v-x]/a.env=deny", 0, "/w/a.env"},
		{"alternatives that are absolute", "glob:{/w,/x}/d/b.env=deny glob:{a,../w/u}.env=deny", 0, "/w/a.env /w/d/b.env /w/u.env"},
		{"not in what a view has of its own", "glob:/*/own=deny", 0, ""},
		{"there only by name", "glob:/proc/o*=deny glob:/dev/o*=deny", 0, "/dev/own /proc/own"},
		{"a search root that is a file", "glob:/file/*=deny", 0, ""},
		{"a search root that is missing", "glob:/none/*=deny", 0, ""},
		{"a pattern that is not denied", "glob:/w/*=read", 0, ""},
		{"no wildcard", "glob:/w/a.env=deny", 0, "/w/a.env"},
	} {
		fs := restricted(tt.rules)
		fs.GlobScanMaxDepth = tt.depth
		got, err := Resolve(fs, Scope{Cwd: "/w"}, view).ExpandGlobs()
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf(`%s: got %q, error %v; want no error, strings.Join(got, " ") %v`, tt.name, got, err, tt.want)
		}
	}
}

func TestAFolderThatCannotBeListedIsDeniedWhole(t *testing.T) {
	view := tree("/w/open/x.env x")
	view["/w/closed"] = "!"
	got, err := resolveIn("glob:/w/**/*.env=deny", view).ExpandGlobs()
	if want := []string{"/w/closed", "/w/open/x.env"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v; want no error, %q", got, err, want)
	}
	if got, _ := resolveIn("glob:/w/*.env=deny", view).ExpandGlobs(); len(got) > 0 {
		t.Errorf("where nothing can match: %q", got)
	}
}

// crowd is a file system whose folder /w has many entries.
type crowd struct {
	memory
	name string
	n    int
}

func (c crowd) ReadDir(at string, each func(string, FileType) error) error {
	if at == "/gone" {
		return fs.ErrNotExist
	}
	for i := range c.n {
		if err := each(fmt.Sprintf("%s%d", c.name, i), Regular); err != nil {
			return err
		}
	}
	return nil
}

func TestGlobLimits(t *testing.T) {
	run := func(name string, n int, at string) ([]string, error) {
		return resolveIn("glob:"+at+"/x*=deny", crowd{tree("/w/", "/gone/"), name, n}).ExpandGlobs()
	}
	if got, err := run("x", maxMatches, "/w"); err != nil || len(got) != maxMatches {
		t.Errorf("at the limit: %d, %v", len(got), err)
	}
	if _, err := run("x", maxMatches+1, "/w"); err == nil || err.Error() != "unreadable glob expansion for /w/x* matched more than 8192 paths" {
		t.Errorf("beyond: %v", err)
	}
	if _, err := run("y", maxVisited, "/w"); err != nil {
		t.Errorf("at the limit of entries: %v", err)
	}
	if _, err := run("y", maxVisited+1, "/w"); err == nil || !strings.Contains(err.Error(), "/w/x*") {
		t.Errorf("beyond: %v", err)
	}
	if got, err := run("x", 1, "/gone"); err != nil || len(got) > 0 {
		t.Errorf("a folder that vanished: %q, %v", got, err)
	}
	braces := strings.Repeat("{a,b}", 9)
	for _, pattern := range []string{"/w/[z-a]", "/w/" + braces} {
		p := resolveIn("root=read glob:"+pattern+"=deny", tree("/w/"))
		if _, err := p.ExpandGlobs(); err == nil || !strings.HasPrefix(err.Error(), "unreadable glob pattern is invalid for "+pattern) || !p.DeniesRead("/x") {
			t.Errorf(`%s: got error %v; want an error beginning with %q, p.DeniesRead("/x")`, pattern, err, "unreadable glob pattern is invalid for "+pattern)
		}
	}
	if p := compileGlob("/w/" + strings.Repeat("{a,b}", 8)); p.err != nil || len(p.programs) != maxAlternatives {
		t.Errorf("braces at the limit: %v", p.err)
	}
	p := Resolve(restricted("glob:*.env=deny"), Scope{}, tree())
	if _, err := p.ExpandGlobs(); !errors.Is(err, errGlobCwd) || !p.DeniesRead("/x") {
		t.Errorf("no cwd: %v", err)
	}
}

func TestDeniesRead(t *testing.T) {
	view := tree("/w/secret/f x", "/w/l -> secret", "/alias -> w", "/w/x.env x", "/w/link -> x.env", "/w/loop -> loop")
	p := resolveIn("root=read /alias/secret=deny glob:/w/*.env=deny root=deny", view)
	for at, want := range map[string]bool{
		"/w/f": false, "/alias/secret/f": true, "/w/secret/f": true, "/w/l/f": true,
		"/w/x.env": true, "/w/link": true, "/w/no.env": true, "/w/x.env/below": true, "/alias/x.env": true,
		"/w/loop": true, "rel": true,
	} {
		if got := p.DeniesRead(at); got != want {
			t.Errorf("%s: got %v, want %v", at, got, want)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("/w/**/[a-c]?{x,y}*", "/w/d/b1x")
	f.Add("/a/**", "/a/b")
	f.Fuzz(func(t *testing.T, text, at string) {
		if !path.IsAbs(text) || !path.IsAbs(at) || path.Clean(at) == "/" {
			return
		}
		text, at = path.Clean(text), path.Clean(at)
		p := compileGlob(text)
		if p.err != nil {
			return
		}
		if e := compileGlob(escapeGlob(at)); e.err != nil || !e.matches(at) {
			t.Fatalf("%q escaped does not match itself", at)
		}
		got := slices.ContainsFunc(p.programs, func(prog program) bool { return prog.accepts(prog.feed(prog.start(), at)) })
		// If slowMatch knows the syntax, its result is the right one.
		plain := !strings.ContainsAny(text, `[]{}\`) && !strings.Contains(strings.ReplaceAll("/"+text+"/", "/**/", "/"), "**")
		if plain && len(text)+len(at) < 40 && got != slowMatch(text, at) && strings.ToValidUTF8(at+text, "") == at+text {
			t.Fatalf("%q and %q: %v", text, at, got)
		}
	})
}

// A pattern that means something else to other programs would deny nothing here, so it is an error.
func TestPatternsThatWouldDenyNothing(t *testing.T) {
	for _, text := range []string{"~", "~/x", "~u/*", "{~/a,b}/*", "{b,~u/a}", "$HOME/*", "${HOME}/.ssh/*", "file:///w/*", "file:/w/*"} {
		p := Resolve(FileSystem{Entries: []Entry{{Path{Kind: Glob, Text: text}, Deny}}}, Scope{Cwd: "/w"}, tree("/w/a x"))
		if got, err := p.ExpandGlobs(); err == nil || !p.DeniesRead("/x") {
			t.Errorf(`%s: got %q; want an error, p.DeniesRead("/x")`, text, got)
		}
	}
	for _, text := range []string{"./~u/*", "~*", "~$*.docx", "$RECYCLE.BIN/*", "$x", "a~/b"} {
		p := Resolve(FileSystem{Entries: []Entry{{Path{Kind: Glob, Text: text}, Deny}}}, Scope{Cwd: "/w"}, tree("/w/a x"))
		if _, err := p.ExpandGlobs(); err != nil {
			t.Errorf("%s: got error %v, want no error", text, err)
		}
	}
}

func TestPatternsBelowTheHomeDirectory(t *testing.T) {
	const profile = `{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"access":"deny","path":{"type":"glob_pattern","pattern":"~/.ssh/*"}}]}}`
	p, err := DecodeProfile([]byte(profile), NativePath("/home/[u]"))
	if err != nil || p.FileSystem.Entries[0].Path.Text != "/home/[[]u]/.ssh/*" {
		t.Errorf(`got p %+v, error %v; want no error, p.FileSystem.Entries[0].Path.Text "/home/[[]u]/.ssh/*"`, p, err)
	}
	if _, err := DecodeProfile([]byte(profile), NativePath("")); err == nil {
		t.Error("without a home directory it is accepted")
	}
}
