package plan

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// node is a file, a directory or a symbolic link of a file system in memory.
type node struct {
	dir  bool
	link string // an absolute target
	text string
	kids map[string]*node

	host string // its path on the host; "" if it is made by a sandbox
	mode uint32 // for files that a sandbox makes
}

// memory is the host as a permissions.View. It is made from lines such as
// `/w/`, `/w/f text` and `/w/l -> /target`; parent folders are made as needed.
type memory struct{ root *node }

func tree(lines ...string) memory {
	m := memory{&node{dir: true, kids: map[string]*node{}, host: "/"}}
	for _, line := range lines {
		at, text, _ := strings.Cut(line, " ")
		link, isLink := strings.CutPrefix(text, "-> ")
		switch {
		case isLink:
			m.add(at, &node{link: link})
		case strings.HasSuffix(at, "/"):
			m.add(path.Clean(at), &node{dir: true})
		default:
			m.add(at, &node{text: text})
		}
	}
	return m
}

// add puts a node at a path, and folders above it.
func (m memory) add(at string, n *node) {
	dir := m.root
	n.host = at
	for name := range strings.SplitSeq(strings.Trim(path.Dir(at), "/"), "/") {
		if name == "" {
			continue
		}
		if dir.kids[name] == nil {
			dir.kids[name] = &node{dir: true, kids: map[string]*node{}, host: path.Join(dir.host, name)}
		}
		dir = dir.kids[name]
	}
	if n.dir && n.kids == nil {
		n.kids = map[string]*node{}
	}
	if old := dir.kids[path.Base(at)]; old == nil {
		dir.kids[path.Base(at)] = n
	}
}

// at returns the node at a path, as lstat does; nil if it is missing.
func (m memory) at(name string) *node {
	for range 41 {
		n, rest, link := m.root, strings.Trim(name, "/"), ""
		for rest != "" && n != nil && link == "" {
			var part string
			part, rest, _ = strings.Cut(rest, "/")
			if n = n.kids[part]; n != nil && rest != "" {
				link = n.link
			}
		}
		if link == "" {
			return n
		}
		name = path.Join(link, rest)
	}
	return nil
}

func (n *node) fileType() permissions.FileType {
	switch {
	case n == nil:
		return permissions.Missing
	case n.dir:
		return permissions.Dir
	case n.link != "":
		return permissions.Symlink
	default:
		return permissions.Regular
	}
}

func (m memory) Lstat(name string) (permissions.Info, error) {
	n := m.at(name)
	info := permissions.Info{Type: n.fileType()}
	if n != nil {
		info.Size = int64(len(n.text))
	}
	return info, nil
}

func (m memory) Readlink(name string) (string, error) {
	if n := m.at(name); n.fileType() == permissions.Symlink {
		return n.link, nil
	}
	return "", errors.New("not a link")
}

func (m memory) ReadFile(name string, limit int) ([]byte, error) {
	n := m.at(name)
	if n.fileType() != permissions.Regular {
		return nil, errors.New("not a file")
	}
	return []byte(n.text[:min(limit, len(n.text))]), nil
}

func (m memory) ReadDir(name string, each func(string, permissions.FileType) error) error {
	n := m.at(name)
	if n.fileType() != permissions.Dir {
		return errors.New("not a directory")
	}
	for _, kid := range slices.Sorted(maps.Keys(n.kids)) {
		if err := each(kid, n.kids[kid].fileType()); err != nil {
			return err
		}
	}
	return nil
}

// each yields a node and every node below it.
func (n *node) each(f func(*node)) {
	f(n)
	for _, name := range slices.Sorted(maps.Keys(n.kids)) {
		n.kids[name].each(f)
	}
}

// rules makes entries of a list such as `root=read /w=write glob:*.env=deny
// project_roots/.git=read`.
func rules(t testing.TB, list string) []permissions.Entry {
	t.Helper()
	var entries []permissions.Entry
	for word := range strings.FieldsSeq(list) {
		i := strings.LastIndexByte(word, '=')
		e := permissions.Entry{Path: permissions.Path{Text: word[:i]}}
		switch word[i+1:] {
		case "read":
			e.Access = permissions.Read
		case "write":
			e.Access = permissions.Write
		case "deny":
			e.Access = permissions.Deny
		default:
			t.Fatalf("no access in %q", word)
		}
		pattern, isGlob := strings.CutPrefix(word[:i], "glob:")
		sub, hasSub := strings.CutPrefix(word[:i], "project_roots/")
		switch {
		case isGlob:
			e.Path = permissions.Path{Kind: permissions.Glob, Text: pattern}
		case hasSub:
			e.Path = permissions.Path{Kind: permissions.ProjectRoots, Subpath: sub, HasSubpath: true}
		case !path.IsAbs(word):
			kind, ok := map[string]permissions.PathKind{
				"root": permissions.Root, "minimal": permissions.Minimal, "project_roots": permissions.ProjectRoots,
				"tmpdir": permissions.Tmpdir, "slash_tmp": permissions.SlashTmp,
			}[word[:i]]
			if !ok {
				t.Fatalf("no path in %q", word)
			}
			e.Path = permissions.Path{Kind: kind}
		}
		entries = append(entries, e)
	}
	return entries
}

func managed(t testing.TB, list string) permissions.Profile {
	t.Helper()
	return permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: rules(t, list)}}
}
