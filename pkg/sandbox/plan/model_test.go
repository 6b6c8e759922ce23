package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// model is a command's view after the mounts of a plan have been made, in the
// launcher's order, on a host in memory. Mounts are modelled as in the kernel:
// each is attached to a place of another mount.
type model struct {
	host   memory
	mounts []attached
	over   map[place]int // the mount at a place
	made   []string
	empty  bool // the root is
}

type attached struct {
	root     *node
	readOnly bool
}

// place is a node seen through a mount.
type place struct {
	mount int
	node  *node
}

var errMissing = errors.New("it is missing")

// build makes the mounts. Its errors are those that the launcher would get.
func build(plan *Plan, host memory) (*model, error) {
	m := &model{host: host, over: map[place]int{}, empty: plan.Root == RootEmpty}
	root := attached{root: host.root, readOnly: plan.Root == RootReadOnly}
	if m.empty {
		root.root = &node{dir: true, kids: map[string]*node{}, mode: 0o755}
	}
	m.mounts = []attached{root}
	for _, mt := range plan.Mounts {
		// A missing path exists as a placeholder.
		if mt.Placeholder && host.at(mt.Target) == nil {
			host.add(mt.Target, &node{dir: !mt.File, mode: 0o555})
			host.at(mt.Target).host = ""
		}
	}
	for _, mt := range plan.Mounts {
		if err := m.mount(mt); err != nil {
			return m, fmt.Errorf("mount on %s: %w", mt.Target, err)
		}
	}
	m.mounts[0].readOnly = plan.Root != RootWritable
	return m, nil
}

func (m *model) mount(mt Mount) error {
	if mt.Kind == Link {
		m.parents(Mount{Target: path.Dir(mt.Target)})
		dir, err := m.find(path.Dir(mt.Target), false)
		if err != nil || dir.mount != 0 || dir.node.kids[path.Base(mt.Target)] != nil {
			return errors.New("no place for the link")
		}
		dir.node.kids[path.Base(mt.Target)] = &node{link: mt.Source}
		return nil
	}
	m.parents(mt)
	a := attached{readOnly: mt.Kind != BindWritable}
	switch mt.Kind {
	case BindReadOnly, BindWritable:
		if a.root = m.host.at(mt.Source); a.root == nil || (a.root.link != "") != mt.Symlink {
			return errors.New("the source is missing or a link")
		}
		if a.root.dir == mt.File {
			return errors.New("the kind of the source is wrong")
		}
	case EmptyFile:
		a.root = &node{mode: mt.Mode}
	case EmptyDir:
		a.root = &node{dir: true, kids: map[string]*node{}, mode: mt.Mode}
		for _, h := range mt.MountPoints {
			at := a.root
			for part := range strings.SplitSeq(path.Dir(h.Path), "/") {
				if part != "." {
					at = at.kids[part]
				}
			}
			at.kids[path.Base(h.Path)] = &node{dir: !h.File, kids: map[string]*node{}, mode: mt.Mode}
		}
	default:
		return errors.New("unknown kind")
	}
	at, err := m.find(path.Dir(mt.Target), false)
	if err == nil && mt.Symlink {
		at = m.top(place{at.mount, at.node.kids[path.Base(mt.Target)]})
	} else {
		at, err = m.find(mt.Target, false)
	}
	if err != nil {
		return err
	}
	if at.node.dir != a.root.dir {
		return errors.New("a directory on a file, or the other way round")
	}
	m.mounts = append(m.mounts, a)
	m.over[at] = len(m.mounts) - 1
	m.made = append(m.made, mt.Target)
	return nil
}

// parents makes the parents of a target in an empty root.
func (m *model) parents(mt Mount) {
	if !m.empty || slices.ContainsFunc(m.made, func(made string) bool { return permissions.Within(mt.Target, made) }) {
		return
	}
	for at := range prefixes(mt.Target) {
		parent, err := m.find(path.Dir(at), true)
		if err != nil || parent.mount != 0 || parent.node.kids[path.Base(at)] != nil {
			continue
		}
		parent.node.kids[path.Base(at)] = &node{dir: at != mt.Target || !mt.File, kids: map[string]*node{}, mode: 0o755}
	}
}

// top is the node that is visible at a place.
func (m *model) top(at place) place {
	for {
		over, ok := m.over[at]
		if !ok {
			return at
		}
		at = place{over, m.mounts[over].root}
	}
}

// find goes to a path like a program without capabilities. While the view is
// built (follow is false), links are not followed and modes do not count.
func (m *model) find(name string, follow bool) (place, error) {
	for range 40 {
		at := m.top(place{0, m.mounts[0].root})
		rest, link := strings.Trim(name, "/"), ""
		for rest != "" {
			var part string
			part, rest, _ = strings.Cut(rest, "/")
			switch {
			case !at.node.dir:
				return at, errMissing
			case follow && !at.node.searchable():
				return at, errors.New("it may not be searched")
			case at.node.kids[part] == nil:
				return at, errMissing
			}
			at = m.top(place{at.mount, at.node.kids[part]})
			if at.node.link != "" {
				link = at.node.link
				break
			}
		}
		if link == "" {
			return at, nil
		}
		if !follow {
			return at, errors.New("it is, or lies behind, a link")
		}
		name = path.Join(link, rest)
	}
	return place{}, errors.New("too many links")
}

func (n *node) searchable() bool { return n.host != "" || n.mode&0o100 != 0 }

// shows reports whether a path leads to a file of the host.
func (m *model) shows(name string) bool {
	at, err := m.find(name, true)
	return err == nil && at.node.host != ""
}

// changes reports whether the file at a path can be changed or, if it does not
// exist, created.
func (m *model) changes(name string) bool {
	at, err := m.find(name, true)
	if err == nil {
		return at.node.host != "" && !m.mounts[at.mount].readOnly
	}
	if !errors.Is(err, errMissing) {
		return false
	}
	at, err = m.find(path.Dir(name), true)
	return err == nil && at.node.dir && at.node.host != "" && at.node.kids[path.Base(name)] == nil && !m.mounts[at.mount].readOnly
}

// reachable yields all places that can be reached by name.
func (m *model) reachable(f func(place)) {
	seen := map[place]bool{}
	var visit func(place)
	visit = func(at place) {
		if seen[at] {
			return
		}
		seen[at] = true
		f(at)
		if !at.node.dir || !at.node.searchable() {
			return
		}
		for _, kid := range at.node.kids {
			visit(m.top(place{at.mount, kid}))
		}
	}
	visit(m.top(place{0, m.mounts[0].root}))
}

// dump returns the lines that make a host.
func dump(m memory) string {
	var lines []string
	m.root.each(func(n *node) {
		switch {
		case n == m.root:
		case n.dir:
			lines = append(lines, n.host+"/")
		case n.link != "":
			lines = append(lines, n.host+" -> "+n.link)
		default:
			lines = append(lines, strings.TrimSpace(n.host+" "+n.text))
		}
	})
	return "  " + strings.Join(lines, "\n  ")
}

func dumpPlan(plan *Plan) string {
	lines := []string{fmt.Sprintf("  root %d, undo %v", plan.Root, plan.Undo)}
	for _, m := range plan.Mounts {
		lines = append(lines, "  "+line(m))
	}
	return strings.Join(lines, "\n")
}

// line returns a mount in the notation of the tests.
func line(m Mount) string {
	text := m.Target
	switch m.Kind {
	case BindReadOnly:
		text = "ro " + text
		if m.Symlink {
			text = "link " + text
		}
		if m.Source != m.Target {
			text += " from " + m.Source
		}
	case BindWritable:
		text = "rw " + text
	case Link:
		text = "link " + text + " -> " + m.Source
	case EmptyDir:
		text = fmt.Sprintf("dir %03o %s", m.Mode, text)
		for _, h := range m.MountPoints {
			text += " +" + h.Path
			if !h.File {
				text += "/"
			}
		}
	case EmptyFile:
		text = fmt.Sprintf("file %03o %s", m.Mode, text)
	}
	if m.Placeholder && m.Kind != BindReadOnly {
		text += " placeholder"
	}
	return text
}
