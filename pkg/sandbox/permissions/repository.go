package permissions

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// GitPath is the name of a special path of kind unknown. With write access it grants the git
// repositories of the project roots or, with a subpath, of that directory: what `git commit` and
// the like write. It does not grant what decides which programs git runs, so that a command cannot
// make the user's own git run a program. Codex CLI keeps special paths that it does not know, so a
// profile with this path can come from one of its clients, and means nothing to its own server.
const GitPath = ":git"

// isGit reports whether a path is GitPath.
func (p Path) isGit() bool { return p.Kind == Unknown && p.Text == GitPath }

const (
	// maxGitDirs bounds the directories of a repository, its submodules and worktrees. Each takes
	// about ten mounts.
	maxGitDirs = 64
	// maxModuleNames bounds the names that the search for submodules and worktrees looks at.
	maxModuleNames = 4096
)

// commonDir is a file that names the directory in which git finds the configuration. An empty one
// makes git fail.
const commonDir = "commondir"

// commonNames are the paths in a repository that decide which programs git runs, or where it finds
// such paths. They must neither be written nor created. New worktrees and submodules would bring
// their own configuration.
var commonNames = []string{"config", "config.worktree", "hooks", commonDir, "modules", "worktrees", "info/attributes", "objects/info/alternates"}

// worktreeNames are those in the directory of a linked worktree, which has no configuration of its
// own.
var worktreeNames = []string{"config.worktree", commonDir, "gitdir", "modules"}

// gitDir is a directory that GitPath grants, and the paths in it that it does not.
type gitDir struct {
	path      string
	protected []string
}

// grantRepositories adds entries for those of GitPath. The other entries must have been added.
func (p *Policy) grantRepositories(scope Scope) {
	var dirs []gitDir
	var index []int
	for i, e := range p.fs.Entries {
		if !e.Path.isGit() || e.Access != Write {
			continue
		}
		starts := scope.roots()
		if path.IsAbs(e.Path.Subpath) {
			starts = []string{"/"}
		}
		for _, start := range starts {
			found, err := p.repositoryOf(join(start, e.Path.Subpath))
			if err != nil && p.err == nil {
				p.err = err
			}
			for _, d := range found {
				dirs, index = append(dirs, d), append(index, i)
			}
		}
	}
	denied := func(at string) bool {
		return slices.ContainsFunc(p.entries, func(e resolved) bool {
			return e.access == Deny && e.path != "/" && Within(at, e.effective)
		})
	}
	for i, d := range dirs {
		if denied(d.path) {
			continue
		}
		if _, again := p.repositories[d.path]; again {
			continue
		}
		p.repositories[d.path] = d.protected
		p.add(d.path, Write, index[i])
		for _, name := range d.protected {
			p.add(path.Join(d.path, name), Read, index[i])
			e := &p.entries[len(p.entries)-1]
			e.unmasked, e.directory = name == commonDir, name == "hooks" || name == "modules" || name == "worktrees"
		}
	}
}

// repositoryOf returns the directories of the repository to which a directory belongs. It finds it
// as git does. It returns none if there is no repository, or if a command could write the .git that
// leads to it: then the command could have chosen the repository.
func (p *Policy) repositoryOf(dir string) ([]gitDir, error) {
	dir, _ = EffectivePath(p.view, dir)
	if _, t := stat(p.view, path.Join(dir, ".git")); t == Missing && p.isRepository(dir) {
		return p.gitDirs(dir, dir) // a bare one
	}
	for at := range ancestors(dir) {
		git := path.Join(at, ".git")
		real, t := stat(p.view, git)
		if t == Missing {
			continue
		}
		if p.CanWrite(git) || Foreign(p.view, git) || Foreign(p.view, real) {
			return nil, nil
		}
		if t == Regular {
			to := pointer(p.view, real)
			if to == "" {
				return nil, nil
			}
			real, t = stat(p.view, join(at, to))
		}
		if t != Dir {
			return nil, nil
		}
		common := real
		if at, t := stat(p.view, path.Join(real, commonDir)); t == Regular {
			text, _ := p.view.ReadFile(at, maxPointer)
			if common, t = stat(p.view, join(real, asGitReads(text))); t != Dir {
				return nil, nil
			}
		}
		return p.gitDirs(real, common)
	}
	return nil, nil
}

// gitDirs returns the directories of a repository: the common one, that of the worktree if it is a
// linked one, and those of the submodules.
func (p *Policy) gitDirs(git, common string) (dirs []gitDir, err error) {
	if !p.isRepository(common) {
		return nil, nil
	}
	names := slices.Clone(commonNames)
	err = p.view.ReadDir(common, func(name string, _ FileType) error {
		if strings.HasPrefix(name, "config") && !slices.Contains(names, name) {
			names = append(names, name) // a file that config includes, perhaps
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot grant the repository %s: %w", common, err)
	}
	dirs = append(dirs, gitDir{common, names})
	if git != common {
		dirs = append(dirs, gitDir{git, worktreeNames})
	}
	// git gc also writes the logs of other worktrees.
	looked := 0
	worktrees, err := p.directoriesIn(path.Join(common, "worktrees"), &looked)
	if err != nil {
		return nil, err
	}
	for _, at := range worktrees {
		if _, t := stat(p.view, path.Join(at, "HEAD")); t == Regular && at != git {
			dirs = append(dirs, gitDir{at, worktreeNames})
		}
	}
	for _, d := range slices.Clone(dirs) {
		if dirs, err = p.modules(dirs, path.Join(d.path, "modules"), &looked); err != nil {
			return nil, err
		}
	}
	if len(dirs) > maxGitDirs {
		return nil, fmt.Errorf("cannot grant the repository %s: it has more than %d submodules and worktrees", common, maxGitDirs)
	}
	for _, d := range dirs {
		for _, name := range []string{"info", "logs", "objects", "objects/info", "refs"} {
			if info, err := p.view.Lstat(path.Join(d.path, name)); err == nil && info.Type == Symlink {
				return nil, fmt.Errorf("cannot grant the repository %s: its %s is a symbolic link; grant the directories that git must write by name", d.path, name)
			}
		}
	}
	return dirs, nil
}

// modules appends the repositories of submodules in a directory. Their names may contain slashes.
func (p *Policy) modules(dirs []gitDir, in string, looked *int) ([]gitDir, error) {
	found, err := p.directoriesIn(in, looked)
	if err != nil {
		return nil, err
	}
	for _, at := range found {
		if p.isRepository(at) {
			dirs = append(dirs, gitDir{at, commonNames})
			at = path.Join(at, "modules")
		}
		if dirs, err = p.modules(dirs, at, looked); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// directoriesIn returns the directories in a directory, sorted. A missing one has none.
func (p *Policy) directoriesIn(in string, looked *int) (found []string, err error) {
	if info, err := p.view.Lstat(in); err != nil || info.Type != Dir {
		return nil, nil
	}
	var names []string
	err = p.view.ReadDir(in, func(name string, _ FileType) error {
		if *looked++; *looked > maxModuleNames {
			return fmt.Errorf("the search for submodules and worktrees found more than %d names", maxModuleNames)
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot grant the repository: read %s: %w", in, err)
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(in, name)
		if info, err := p.view.Lstat(at); err == nil && info.Type == Dir {
			found = append(found, at)
		}
	}
	return found, nil
}

// isRepository reports whether git takes a directory for a repository, as far as its entries tell.
func (p *Policy) isRepository(dir string) bool {
	_, head := stat(p.view, path.Join(dir, "HEAD"))
	_, objects := stat(p.view, path.Join(dir, "objects"))
	_, refs := stat(p.view, path.Join(dir, "refs"))
	return head == Regular && objects == Dir && refs == Dir
}

// Repositories returns the git directories that entries for GitPath grant, sorted.
func (p *Policy) Repositories() []string { return slices.Sorted(maps.Keys(p.repositories)) }

// Err returns why the policy cannot be enforced, or nil.
func (p *Policy) Err() error { return p.err }
