package plan

import (
	"math/rand/v2"
	"path"
	"strings"
)

// names are the names in random trees; those of metadata are common.
var names = []string{"a", "b", "c", "d.env", ".git", ".agents", ".codex"}

// random makes hosts and policies.
type random struct{ *rand.Rand }

func (r random) path(maxDepth int) string {
	name := ""
	for range 1 + r.IntN(maxDepth) {
		name += "/" + names[r.IntN(len(names))]
	}
	return name
}

// host makes a tree; with links, some of its nodes are symbolic links.
func (r random) host(links bool) memory {
	m := tree("/w/")
	for range 4 + r.IntN(16) {
		at := r.path(4)
		if r.IntN(2) == 0 {
			at = "/w" + at
		}
		// There is nothing behind a link or a file.
		if r.blocked(m, at) {
			continue
		}
		switch n := r.IntN(10); {
		case n < 5:
			m.add(at, &node{dir: true})
		case n < 6 && path.Base(at) == ".git":
			m.add(at, &node{text: "gitdir: " + r.somewhere(m) + "\n"})
		case n < 8 && links:
			m.add(at, &node{link: r.somewhere(m)})
		case n < 9:
			m.add(at, &node{text: "text"})
		default:
			m.add(at, &node{})
		}
	}
	return m
}

func (r random) blocked(m memory, at string) bool {
	for up := range prefixes(at) {
		if n := m.at(up); n != nil && !n.dir {
			return true
		}
	}
	return false
}

// somewhere is a path of the host, or, seldom, one that is missing.
func (r random) somewhere(m memory) string {
	if r.IntN(6) == 0 {
		return r.path(3)
	}
	var all []string
	m.root.each(func(n *node) {
		if n != m.root {
			all = append(all, n.host)
		}
	})
	if r.IntN(8) == 0 {
		return path.Join(all[r.IntN(len(all))], names[r.IntN(len(names))])
	}
	return all[r.IntN(len(all))]
}

// policy makes a list of entries as text.
func (r random) policy(m memory) string {
	var words []string
	switch n := r.IntN(20); {
	case n < 11:
		words = append(words, "root=read")
	case n < 14:
		words = append(words, "root=write")
	}
	if r.IntN(3) > 0 {
		words = append(words, "/w=write")
	}
	if r.IntN(6) == 0 {
		words = append(words, "project_roots/.git=read", "project_roots/.codex=read")
	}
	if r.IntN(5) == 0 {
		words = append(words, "glob:"+[]string{"/w/**/*.env", "**/b", "/a/*", "/w/.git/**/c", "*/[ab]"}[r.IntN(5)]+"=deny")
	}
	for range 1 + r.IntN(6) {
		words = append(words, r.somewhere(m)+"="+[]string{"read", "write", "write", "deny", "deny"}[r.IntN(5)])
	}
	return strings.Join(words, " ")
}
