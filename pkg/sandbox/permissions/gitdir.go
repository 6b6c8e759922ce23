package permissions

import (
	"path"
	"slices"
	"strings"
)

// Git runs programs that are named in the configuration and the hooks of a repository. The .git of
// a work tree leads to them: it is a directory, or a file with `gitdir: PATH`. A file `commondir`
// in that directory leads to another directory, and any of these paths may contain symbolic links.
// If a command can write to the directory at the end of this chain, or can create a missing part of
// it, the user's next git command runs programs that the command has chosen.

// linkedNames are the entries of a repository that are checked for links.
var linkedNames = [...]string{"commondir", "config", "config.worktree", "hooks", "info", "modules", "objects", "refs", "worktrees"}

// repositoryPaths returns the paths to which the .git of a root leads, or the .git of a directory
// above it, because git searches upwards. It includes paths that do not exist. A .git that the
// policy makes writable is not protected. bare has the directories of which it is known that they
// and their parents have no .git, so that nested roots are not each searched up to /.
func (p *Policy) repositoryPaths(root WritableRoot, granted bool, bare map[string]bool) []string {
	g := gitWalk{view: p.view}
	none := true
	for dir := range ancestors(root.Effective) {
		if bare[dir] {
			break
		}
		git := path.Join(dir, ".git")
		if own := dir == root.Effective; own && !granted || !own && !p.CanWrite(git) {
			none = g.repository(git) && none
		} else {
			none = false
		}
	}
	if none {
		bare[root.Effective] = true
	}
	return g.found
}

// givenRepositories returns the effective paths of write entries that name one of the paths to which
// a repository leads. Such an entry means the repository. Scenario: the work tree /wt belongs to the
// repository /m/.git, and an entry grants /m/.git. If git could not write /m/.git/worktrees/wt,
// because the .git of /wt leads there, it could not commit. An entry for a directory above the
// repository does not mean the repository.
func (p *Policy) givenRepositories(repository []string) []string {
	var given []string
	for _, at := range repository {
		real, err := EffectivePath(p.view, at)
		if err == nil && slices.ContainsFunc(p.entries, func(e resolved) bool {
			return e.access == Write && e.writable && e.effective == real
		}) {
			given = append(given, real)
		}
	}
	return given
}

// gitWalk collects the paths that repositories lead to.
type gitWalk struct {
	view  View
	found []string
	steps int
}

// repository follows a .git to the end, and returns false if it does not exist.
func (g *gitWalk) repository(git string) (missing bool) {
	for first := true; git != "" && g.steps < maxRepositories; first = false {
		real, t := stat(g.view, git)
		if t == Missing {
			return first
		}
		g.steps++
		if real != git {
			g.add(real)
		}
		if Foreign(g.view, real) {
			return false // git does not trust files of another user
		}
		next := ""
		switch t {
		case Regular:
			g.target(path.Dir(git), pointer(g.view, real))
			text, _ := g.view.ReadFile(real, maxPointer)
			if to, ok := strings.CutPrefix(asGitReads(text), "gitdir: "); ok {
				next = g.target(path.Dir(git), to)
			}
		case Dir:
			for _, name := range linkedNames {
				if info, err := g.view.Lstat(path.Join(real, name)); err == nil && info.Type == Symlink {
					to, _ := g.view.Readlink(path.Join(real, name))
					g.target(real, to)
				}
			}
			if common, t := stat(g.view, path.Join(real, "commondir")); t == Regular {
				text, _ := g.view.ReadFile(common, maxPointer)
				next = g.target(real, asGitReads(text))
			}
		}
		git = next
	}
	return false
}

// asGitReads returns the path in the text of a file as git reads it: blanks at the end are a part
// of the path, but line ends are not.
func asGitReads(text []byte) string { return strings.TrimRight(string(text), "\r\n") }

// target records the path to which a pointer in a directory leads, and returns it. It returns "" if
// the path does not exist. If the pointer goes down and up again, target also records the directory
// on the way, because a link in its place would lead elsewhere.
func (g *gitWalk) target(dir, to string) string {
	if to == "" {
		return ""
	}
	if path.IsAbs(to) {
		dir = "/"
	}
	at := dir
	for part := range strings.SplitSeq(to, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			at = path.Join(at, part)
		case at == dir:
			dir = path.Dir(dir)
			at = dir
		default:
			g.add(at)
			real, t := stat(g.view, at)
			if t != Dir {
				return ""
			}
			dir = path.Dir(real)
			at = dir
		}
	}
	g.add(at)
	return at
}

func (g *gitWalk) add(at string) {
	if at != "/" {
		g.found = append(g.found, at)
	}
}

// pointer returns the path in the text of a .git file, or "".
func pointer(view View, file string) string {
	text, err := view.ReadFile(file, maxPointer)
	if err != nil {
		return ""
	}
	word, target, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok || strings.TrimSpace(word) != "gitdir" {
		return ""
	}
	return strings.TrimSpace(target)
}
