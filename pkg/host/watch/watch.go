// Package watch reports when missing paths may have been created
// (docs/spec/wire.md §5.8).
//
//	var inotify watch.Instance
//	w := watch.New(&inotify, []string{"/srv/p/.agents/skills"}, "/srv/p/.git")
//	if w == nil {
//		... // these paths cannot be watched
//	}
//	defer w.Close()
//	changed := w.Wait()
//
// A watch needs one descriptor of /proc/self/mountinfo, two eventfds, and a goroutine of the caller
// that waits; watches share the inotify descriptor of an Instance. If it cannot be certain, it reports a change or refuses to watch.
package watch

import (
	"path/filepath"
	"strings"
)

// node is a component of the watched paths: a directory if it has children.
type node struct {
	children map[string]*node
	missing  bool // a path that must not exist ends here
	present  bool // the path that must exist ends here
}

// newTree builds the tree of the components of all paths. It returns nil if the paths cannot be
// watched on any file system.
func newTree(missing []string, present string) *node {
	if len(missing) == 0 || len(missing) > maxMissing {
		return nil
	}
	root := &node{}
	directories := 1
	add := func(path string) *node {
		at := root
		for _, name := range strings.FieldsFunc(path, func(c rune) bool { return c == filepath.Separator }) {
			if at != root && len(at.children) == 0 {
				directories++
			}
			if at.children == nil {
				at.children = make(map[string]*node)
			}
			if at.children[name] == nil {
				at.children[name] = &node{}
			}
			at = at.children[name]
		}
		return at
	}
	for _, path := range missing {
		add(path).missing = true
	}
	if present != "" {
		add(present).present = true
	}
	if root.missing || directories > maxDirectories {
		return nil
	}
	return root
}

// concerns reports whether an event about a name in the node's directory concerns a child. In some
// directories the case of names is ignored, and letters outside ASCII have several spellings, so it
// compares loosely.
func (n *node) concerns(name string) bool {
	for child := range n.children {
		if !isASCII(child) || strings.EqualFold(child, name) {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
