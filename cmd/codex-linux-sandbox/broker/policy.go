package broker

import (
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
)

// Policy decides by paths alone what the broker may change. Paths are those of the kernel: absolute, without links. It is never
// changed after PolicyOf, so several threads may use it.
type Policy struct {
	rules []rule
	// fixed are the paths whose name, and the names of all directories above, must stay: roots, protected paths, and pinned
	// directories; all folded.
	fixed []string
	// repositories are the granted git directories, in which the command must not make symbolic links.
	repositories []string
}

// rule says whether a path, with all below it, may be changed.
type rule struct {
	path     string // folded, if it is protected
	depth    int    // the number of its components
	writable bool
}

// fold returns a path for a comparison without case. The command must not create .GIT where a checkout on another system would
// take it for .git.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// PolicyOf returns the policy of a plan.
func PolicyOf(p *plan.Plan) *Policy {
	policy := &Policy{repositories: p.Repositories}
	add := func(name string, writable bool) {
		r := rule{path: name, depth: strings.Count(name, "/"), writable: writable}
		if !writable {
			r.path = fold(name)
		}
		policy.rules = append(policy.rules, r)
		policy.fixed = append(policy.fixed, fold(name))
	}
	for _, m := range p.Mounts {
		switch {
		case m.Kind == plan.Link:
		case m.Pin:
			policy.fixed = append(policy.fixed, fold(m.Target))
		default:
			add(m.Target, m.Kind == plan.BindWritable)
		}
	}
	for _, n := range p.Undo {
		add(n.Path, false)
	}
	return policy
}

// deleted is what the kernel appends to the path of a file that has no name any more.
const deleted = " (deleted)"

// Change reports whether the content and the attributes of the file at a path may be changed.
func (p *Policy) Change(at string) bool {
	// A file may also be called so.
	return p.change(at) && p.change(strings.TrimSuffix(at, deleted))
}

func (p *Policy) change(at string) bool {
	folded, depth, writable := fold(at), 0, false
	for _, r := range p.rules {
		name := at
		if !r.writable {
			name = folded
		}
		// Of the same path the last rule counts, as for mounts.
		if permissions.Within(name, r.path) && r.depth >= depth {
			depth, writable = r.depth, r.writable
		}
	}
	return writable
}

// Repository reports whether a directory is in a granted git directory. The user's git writes files there, such as COMMIT_EDITMSG, and
// follows links: a command that made one could choose which file the user's git overwrites. So no link is made there, and, as
// with a mount, nothing is renamed or linked into it from elsewhere.
func (p *Policy) Repository(dir string) bool {
	return slices.ContainsFunc(p.repositories, func(r string) bool { return permissions.Within(dir, r) })
}

// Name reports whether a name in a directory may be made, removed or given to another file.
func (p *Policy) Name(dir, name string) bool {
	if !p.Change(dir) {
		return false
	}
	at := strings.TrimSuffix(dir, "/") + "/" + name
	if !p.Change(at) {
		return false
	}
	folded := fold(at)
	for _, f := range p.fixed {
		if permissions.Within(f, folded) {
			return false
		}
	}
	return true
}
