package codexconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/host/safeopen"
)

// folder is the directory of a project that holds its configuration.
const folder = ".codex"

// never are the keys that a project must not set. They select credentials, and servers that get the
// user's data. They are removed from the project's files.
var never = []string{
	"model_provider", "model_providers", "openai_base_url", "chatgpt_base_url",
	"profile", "profiles", "notify", "otel",
}

// projects returns the configuration of the trusted directories from the
// project's root down to cwd.
func (r *reader) projects(cwd string) ([]*document, error) {
	markers, err := r.markers()
	if err != nil {
		return nil, err
	}
	root := projectRoot(cwd, markers)
	directories := between(root, cwd)
	if len(directories) > maxDirectories {
		return nil, fmt.Errorf("%s is more than %d directories below its project's root", cwd, maxDirectories)
	}
	tree := findWorkTree(cwd)
	var found []*document
	for _, dir := range directories {
		layers, err := r.project(dir, root, tree)
		if err != nil {
			return nil, err
		}
		found = append(found, layers...)
	}
	return found, nil
}

// project returns the configuration of one directory if it is trusted. In a
// linked work tree whose main tree is trusted, the hooks of the main tree
// replace its own hooks, as a separate layer.
func (r *reader) project(dir, root string, tree workTree) ([]*document, error) {
	// The path with resolved links is checked for trust and then read. A user who can exchange a
	// directory on this path can create files there anyway.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !r.trusted(dir, real, root, tree) || r.isHome(real) {
		return nil, nil
	}
	file := filepath.Join(folder, "config.toml")
	d, err := r.readAs(filepath.Join(real, file), filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	var layers []*document
	if d != nil {
		for _, key := range never {
			d.root.remove(key)
		}
		layers = append(layers, d)
	}
	below, inside := strings.CutPrefix(real+"/", tree.dir+"/")
	if main, _ := r.trustOf(tree.main); !main || !inside || tree.dir == tree.main {
		return layers, nil
	}
	if d != nil {
		d.root.remove("hooks")
	}
	hooks, err := r.read(filepath.Join(tree.main, below, file))
	if err != nil || hooks == nil {
		return layers, err
	}
	hooks.root = selection{"hooks": nil}.of(hooks.root)
	return append(layers, hooks), nil
}

// isHome reports whether a directory's .codex is CODEX_HOME. Its config.toml is then the user's
// layer, and not a project's.
func (r *reader) isHome(dir string) bool {
	a, err := os.Stat(filepath.Join(dir, folder))
	if err != nil {
		return false
	}
	b, err := os.Stat(r.m.Home)
	return err == nil && os.SameFile(a, b)
}

// trusted reports whether the configuration of a directory is used. The entry of the directory
// decides, then the entry of its project's root, then the entry of the main work tree.
func (r *reader) trusted(dir, real, root string, tree workTree) bool {
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		realRoot = root
	}
	for _, path := range []string{real, dir, realRoot, root, tree.main} {
		if trusted, decided := r.trustOf(path); decided {
			return trusted
		}
	}
	return false
}

// trustOf looks a directory up in the `projects` tables of the machine's files. The higher layer
// takes precedence. An entry with any word except trusted denies trust.
func (r *reader) trustOf(path string) (trusted, decided bool) {
	for _, d := range []*document{r.managed, r.user, r.system} {
		if level, ok := d.text("projects", path, "trust_level"); ok && path != "" {
			return level == "trusted", true
		}
	}
	return false, false
}

// markers returns the names that mark the root of a project.
func (r *reader) markers() ([]string, error) {
	for _, d := range []*document{r.managed, r.user, r.system} {
		if names, err := d.strings("project_root_markers"); err != nil || names != nil {
			return names, err
		}
	}
	return []string{".git"}, nil
}

// projectRoot returns the nearest directory from cwd upwards with one of the
// markers, or cwd.
func projectRoot(cwd string, markers []string) string {
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if slices.ContainsFunc(markers, func(name string) bool { return marks(dir, name) }) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return cwd
		}
	}
}

// marks reports whether a directory has a marker. A directory `.git` without a HEAD is not a
// repository. Otherwise an empty `.git` would make each directory below it a part of a project.
func marks(dir, name string) bool {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil || name != ".git" || !info.IsDir() {
		return err == nil
	}
	_, err = os.Stat(filepath.Join(path, "HEAD"))
	return err == nil
}

// between returns the directories from root down to dir, including both. root is dir or a parent of
// it.
func between(root, dir string) []string {
	list := []string{dir}
	for dir != root && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// workTree is the git work tree of a directory, without symbolic links. In a linked work tree, main
// is the tree that has the repository; otherwise main equals dir. Both are empty outside of a work
// tree.
type workTree struct{ dir, main string }

// findWorkTree finds the work tree that contains a directory.
func findWorkTree(cwd string) workTree {
	root := projectRoot(cwd, []string{".git"})
	if !marks(root, ".git") {
		return workTree{}
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return workTree{}
	}
	return workTree{dir: real, main: mainTree(real)}
}

// mainTree returns the main tree of the work tree at dir, or dir if the work tree is not linked.
//
// A hostile project can contain a `.git` file that names the repository of a trusted project.
// Therefore the file alone does not prove a linked tree: the repository must name dir too, as `git
// worktree add` records it.
func mainTree(dir string) string {
	gitFile := filepath.Join(dir, ".git")
	named, ok := readLine(gitFile)
	named, isLink := strings.CutPrefix(named, "gitdir: ")
	if !ok || !isLink {
		return dir
	}
	if !filepath.IsAbs(named) {
		named = filepath.Join(dir, named)
	}
	administration, err := filepath.EvalSymlinks(named)
	if err != nil {
		return dir
	}
	repository, name := filepath.Split(filepath.Dir(administration))
	repository = filepath.Clean(repository)
	back, ok := readLine(filepath.Join(administration, "gitdir"))
	if !filepath.IsAbs(back) {
		back = filepath.Join(administration, back)
	}
	if !ok || name != "worktrees" || filepath.Base(repository) != ".git" || filepath.Clean(back) != gitFile {
		return dir
	}
	return filepath.Dir(repository)
}

// readLine reads a small file of one line.
func readLine(path string) (string, bool) {
	text, err := safeopen.ReadFile(path, maxGitFile)
	return strings.TrimRight(string(text), "\r\n"), err == nil
}
