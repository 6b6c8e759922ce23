package permissions

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
)

// memory is a file system in memory. It maps each absolute path to "" for a directory, to
// "->TARGET" for a symbolic link, and otherwise to the text of a file.
type memory map[string]string

// tree makes a memory from lines such as `/w/`, `/w/f text`, `/w/l -> target`. It adds parent
// folders as needed.
func tree(lines ...string) memory {
	m := memory{"/": ""}
	for _, line := range lines {
		at, text, _ := strings.Cut(line, " ")
		text, link := strings.CutPrefix(text, "-> ")
		for dir := path.Dir(path.Clean(at)); dir != "/"; dir = path.Dir(dir) {
			m[dir] = ""
		}
		switch {
		case link:
			text = "->" + text
		case strings.HasSuffix(at, "/"):
			text = ""
		case text == "":
			text = "text"
		}
		m[path.Clean(at)] = text
	}
	return m
}

func (m memory) Lstat(at string) (Info, error) {
	text, ok := m[at]
	switch {
	case !ok:
		return Info{}, nil
	case text == "":
		return Info{Type: Dir}, nil
	case text == "!":
		return Info{Type: Dir}, nil
	case strings.HasPrefix(text, "->"):
		return Info{Type: Symlink}, nil
	default:
		return Info{Type: Regular, Size: int64(len(text))}, nil
	}
}

func (m memory) Readlink(at string) (string, error) {
	target, ok := strings.CutPrefix(m[at], "->")
	if !ok {
		return "", errors.New("not a link")
	}
	return target, nil
}

func (m memory) ReadFile(at string, limit int) ([]byte, error) {
	text := m[at]
	return []byte(text[:min(len(text), limit)]), nil
}

// ReadDir hides the type of names that begin with a `u`, and cannot list a directory whose text is
// "!".
func (m memory) ReadDir(at string, each func(string, FileType) error) error {
	if m[at] == "!" {
		return errors.New("permission denied")
	}
	for p := range m {
		if p != "/" && path.Dir(p) == at {
			info, _ := m.Lstat(p)
			if strings.HasPrefix(path.Base(p), "u") {
				info.Type = Other
			}
			if err := each(path.Base(p), info.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules makes entries of a list such as `root=read /w=write glob:*.env=deny
// project_roots/.git=read`.
func rules(list string) []Entry {
	var entries []Entry
	for word := range strings.FieldsSeq(list) {
		i := strings.LastIndexByte(word, '=')
		name, access := word[:i], map[string]Access{"read": Read, "write": Write, "deny": Deny}[word[i+1:]]
		e := Entry{Path{Text: name}, access}
		pattern, isGlob := strings.CutPrefix(name, "glob:")
		sub, hasSub := strings.CutPrefix(name, "project_roots/")
		switch {
		case isGlob:
			e.Path = Path{Kind: Glob, Text: pattern}
		case hasSub:
			e.Path = Path{Kind: ProjectRoots, Subpath: sub, HasSubpath: true}
		case !path.IsAbs(name):
			kind := map[string]PathKind{"root": Root, "minimal": Minimal, "project_roots": ProjectRoots, "tmpdir": Tmpdir, "slash_tmp": SlashTmp, "unknown": Unknown}[name]
			e.Path = Path{Kind: kind}
			if kind == Unknown {
				e.Path.Text = "later"
			}
		}
		entries = append(entries, e)
	}
	return entries
}

func restricted(list string) FileSystem { return FileSystem{Entries: rules(list)} }

func managed(list string) Profile { return Profile{Kind: Managed, FileSystem: restricted(list)} }

func resolveIn(list string, view View) *Policy {
	return Resolve(restricted(list), Scope{Cwd: "/w", Tmpdir: "/t"}, view)
}

func sameList(t *testing.T, name string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}
