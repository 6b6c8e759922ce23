package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/permissions"
)

// The built-in profiles of Codex CLI.
const (
	builtinReadOnly   = ":read-only"
	builtinWorkspace  = ":workspace"
	builtinFullAccess = ":danger-full-access"
)

// Keys of a named profile, [permissions.NAME] in config.toml.
const (
	keyExtends        = "extends"
	keyDescription    = "description"
	keyFileSystem     = "filesystem"
	keyNetwork        = "network"
	keyWorkspaceRoots = "workspace_roots"
	keyScanDepth      = "glob_scan_max_depth"
)

// projectRootsGlob begins a pattern below each workspace root (docs/spec/sandbox.md §1.2).
const projectRootsGlob = "codex-project-roots://"

// specialPaths are the paths that begin with a colon. Older files use the second name of the
// workspace.
var specialPaths = map[string]permissions.PathKind{
	":root": permissions.Root, ":minimal": permissions.Minimal, ":tmpdir": permissions.Tmpdir, ":slash_tmp": permissions.SlashTmp,
	":workspace_roots": permissions.ProjectRoots, ":project_roots": permissions.ProjectRoots,
}

// accessWords are the kinds of access in config.toml.
var accessWords = map[string]permissions.Access{
	"read": permissions.Read, "write": permissions.Write, "deny": permissions.Deny, "none": permissions.Deny,
}

// namedProfile returns the profile with a name: a built-in one, or one of the tables of [permissions]. cwd is the
// workspace, and home the directory that ~ means. Both are absolute; home may be empty. A key that this program
// would not enforce is an error; Codex CLI warns about it, or ignores it.
func namedProfile(tables map[string]any, name, cwd, home string) (permissions.Profile, error) {
	if p, ok := builtin(name); ok {
		return p, nil
	}
	b := profileReader{name: name, home: home, access: make(map[permissions.Path]permissions.Access), roots: make(map[string]bool)}
	chain, err := inheritance(tables, name)
	if err != nil {
		return permissions.Profile{}, err
	}
	for _, table := range slices.Backward(chain) { // a profile takes precedence over the one that it extends
		if err := b.read(table); err != nil {
			return permissions.Profile{}, fmt.Errorf("the permission profile %q of the configuration: %w", name, err)
		}
	}
	if b.limits != "" && b.network == permissions.NetworkEnabled {
		return permissions.Profile{}, fmt.Errorf("the permission profile %q of the configuration: codex sandbox does not enforce %s.%s, and the network is on; "+
			"set enabled = false, and list hosts with --allow-domain", name, keyNetwork, b.limits)
	}
	return b.profile(cwd), nil
}

// builtin returns a built-in profile of Codex CLI.
func builtin(name string) (p permissions.Profile, ok bool) {
	switch name {
	case builtinReadOnly:
		return permissions.ReadOnly(), true
	case builtinWorkspace:
		return permissions.Workspace(), true
	case builtinFullAccess:
		return permissions.Profile{Kind: permissions.Disabled, FileSystem: permissions.FileSystem{Unrestricted: true}, Network: permissions.NetworkEnabled}, true
	default:
		return p, false
	}
}

// inheritance returns the tables of a profile and of the profiles that it extends. If the chain
// ends with a built-in profile, the last element has only keyExtends.
func inheritance(tables map[string]any, name string) ([]map[string]any, error) {
	var chain []map[string]any
	seen := make(map[string]bool)
	for at, from := name, ""; ; {
		table, ok := tables[at].(map[string]any)
		switch {
		case strings.HasPrefix(at, ":") && (at == builtinReadOnly || at == builtinWorkspace) && from != "":
			return append(chain, map[string]any{keyExtends: at}), nil
		case strings.HasPrefix(at, ":") && from != "":
			return nil, fmt.Errorf("the permission profile %q extends %q: of the built-in profiles it may extend %s and %s", from, at, builtinReadOnly, builtinWorkspace)
		case strings.HasPrefix(at, ":"):
			return nil, cmdutil.Usagef("unknown built-in permission profile %q; expected %s, %s or %s", at, builtinReadOnly, builtinWorkspace, builtinFullAccess)
		case seen[at]:
			return nil, fmt.Errorf("the permission profile %q extends itself, by way of %q", at, from)
		case !ok && from != "":
			return nil, fmt.Errorf("the permission profile %q extends %q, which the configuration does not have", from, at)
		case !ok:
			return nil, fmt.Errorf("the configuration has no permission profile %q; %s", at, known(tables))
		}
		seen[at] = true
		chain = append(chain, table)
		extends, ok := table[keyExtends].(string)
		if table[keyExtends] == nil {
			return chain, nil
		}
		if !ok {
			return nil, fmt.Errorf("permissions.%s.%s must be the name of a profile", at, keyExtends)
		}
		at, from = extends, at
	}
}

// known returns the names of all profiles, for an error.
func known(tables map[string]any) string {
	names := append(slices.Sorted(maps.Keys(tables)), builtinReadOnly, builtinWorkspace, builtinFullAccess)
	return "there are " + strings.Join(names, ", ")
}

// profileReader makes a profile from tables. A later table takes precedence.
type profileReader struct {
	name, home string
	access     map[permissions.Path]permissions.Access
	depth      int
	network    permissions.Network
	limits     string          // a key that restricts the network and is not enforced; "": no such key
	roots      map[string]bool // workspace roots besides the directory of the command
}

// read adds the permissions of a table.
func (b *profileReader) read(table map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		var err error
		switch key {
		case keyExtends:
			if p, ok := builtin(table[key].(string)); ok {
				for _, e := range p.FileSystem.Entries {
					b.access[e.Path] = e.Access
				}
			}
		case keyDescription:
		case keyFileSystem:
			err = b.eachOf(key, table[key], b.fileSystem)
		case keyNetwork:
			err = b.readNetwork(table[key])
		case keyWorkspaceRoots:
			err = b.eachOf(key, table[key], b.workspaceRoot)
		default:
			err = fmt.Errorf("unknown key %q; expected %s, %s, %s, %s or %s", key, keyDescription, keyExtends, keyFileSystem, keyNetwork, keyWorkspaceRoots)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachOf calls a function for each key of a table, in sorted order.
func (b *profileReader) eachOf(name string, value any, do func(key string, value any) error) error {
	table, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s must be a table", name)
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if err := do(key, table[key]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// fileSystem reads one key of the table of files.
func (b *profileReader) fileSystem(key string, value any) error {
	if key == keyScanDepth {
		const most = 1<<31 - 1 // a depth greater than that of any tree
		depth, ok := value.(int64)
		if !ok || depth < 1 {
			return fmt.Errorf("%s must be a number, at least 1", key)
		}
		b.depth = int(min(depth, most))
		return nil
	}
	below, ok := value.(map[string]any)
	if !ok {
		return b.entry(key, ".", value)
	}
	return b.eachOf(key, below, func(sub string, value any) error { return b.entry(key, sub, value) })
}

// entry reads the access to sub below a path; "." is the path itself.
func (b *profileReader) entry(key, sub string, value any) error {
	word, _ := value.(string)
	access, ok := accessWords[word]
	if !ok {
		return fmt.Errorf("%s: the access must be \"read\", \"write\" or \"deny\", not %v", key, value)
	}
	if sub != "." && (path.IsAbs(sub) || sub == "" || path.Clean(sub) != strings.TrimSuffix(sub, "/") || sub == ".." || strings.HasPrefix(sub, "../")) {
		return fmt.Errorf("%s: %q must be a relative path that has no . or .. in it", key, sub)
	}
	kind, special := specialPaths[key]
	switch {
	case key == permissions.GitPath && access != permissions.Write:
		return fmt.Errorf("%s: the access can only be \"write\", not %v", key, value)
	case key == permissions.GitPath && sub == ".":
		b.access[permissions.Path{Kind: permissions.Unknown, Text: key}] = access
		return nil
	case key == permissions.GitPath:
		b.access[permissions.Path{Kind: permissions.Unknown, Text: key, Subpath: path.Clean(sub), HasSubpath: true}] = access
		return nil
	case special && sub == ".":
		b.access[permissions.Path{Kind: kind}] = access
		return nil
	case special && kind != permissions.ProjectRoots:
		return fmt.Errorf("%s takes no paths below it", key)
	case special:
		return b.below(projectRootsGlob, sub, word, access)
	case strings.HasPrefix(key, ":"):
		return fmt.Errorf("unknown special path %s; expected one of %s", key, strings.Join(append(slices.Sorted(maps.Keys(specialPaths)), permissions.GitPath), ", "))
	}
	dir, err := b.absolute(key)
	if err != nil {
		return err
	}
	return b.below("", path.Join(dir, sub), word, access)
}

// below reads the access to a path or pattern. base is projectRootsGlob for a path below the
// workspace roots, and empty for an absolute path.
func (b *profileReader) below(base, at, word string, access permissions.Access) error {
	const glob = "*?["
	pattern, isPattern := at, strings.ContainsAny(at, glob)
	if dir, ok := strings.CutSuffix(at, "/**"); ok && !strings.ContainsAny(dir, glob) {
		at, isPattern = cmp.Or(dir, "/"), false // DIR/** means DIR with everything below it
	}
	switch {
	case isPattern && access != permissions.Deny:
		return fmt.Errorf("%s: a pattern can only be denied; for %q give a path, or one that ends with /**", pattern, word)
	case isPattern:
		b.access[permissions.Path{Kind: permissions.Glob, Text: base + pattern}] = access
	case base != "":
		b.access[permissions.Path{Kind: permissions.ProjectRoots, Subpath: path.Clean(at), HasSubpath: true}] = access
	default:
		b.access[permissions.Path{Kind: permissions.Literal, Text: path.Clean(at)}] = access
	}
	return nil
}

// absolute returns a path of the configuration, which is absolute or begins with ~/.
func (b *profileReader) absolute(text string) (string, error) {
	rest, inHome := strings.CutPrefix(text, "~")
	switch {
	case inHome && (rest == "" || rest[0] == '/') && b.home == "":
		return "", fmt.Errorf("%s: no home directory is known: set HOME, or give an absolute path", text)
	case inHome && (rest == "" || rest[0] == '/'):
		return path.Join(filepath.ToSlash(b.home), rest), nil
	case !filepath.IsAbs(text):
		return "", fmt.Errorf("%q must be an absolute path, begin with ~/, or be a special path such as :workspace_roots", text)
	default:
		return path.Clean(filepath.ToSlash(text)), nil
	}
}

// workspaceRoot reads one key of the table of workspace roots.
func (b *profileReader) workspaceRoot(key string, value any) error {
	on, ok := value.(bool)
	if !ok {
		return fmt.Errorf("%s must be true or false", key)
	}
	at, err := b.absolute(key)
	if err == nil {
		b.roots[at] = on
	}
	return err
}

// readNetwork reads the table of the network. Only "enabled" has a meaning here: the other keys are for the proxy
// of Codex CLI's sessions.
func (b *profileReader) readNetwork(value any) error {
	return b.eachOf(keyNetwork, value, func(key string, value any) error {
		if key != "enabled" {
			b.limits = key
			return nil
		}
		on, ok := value.(bool)
		if !ok {
			return fmt.Errorf("%s must be true or false", key)
		}
		b.network = permissions.NetworkRestricted
		if on {
			b.network = permissions.NetworkEnabled
		}
		return nil
	})
}

// profile returns the profile that was read, for a workspace.
func (b *profileReader) profile(cwd string) permissions.Profile {
	p := permissions.Profile{Kind: permissions.Managed, Network: b.network}
	p.FileSystem.GlobScanMaxDepth = b.depth
	for at, access := range b.access {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permissions.Entry{Path: at, Access: access})
	}
	slices.SortFunc(p.FileSystem.Entries, func(x, y permissions.Entry) int {
		if x.Path.Kind != y.Path.Kind {
			return int(x.Path.Kind) - int(y.Path.Kind)
		}
		return strings.Compare(x.Path.Text+x.Path.Subpath, y.Path.Text+y.Path.Subpath)
	})
	roots := []string{cwd}
	for _, root := range slices.Sorted(maps.Keys(b.roots)) {
		if b.roots[root] {
			roots = append(roots, root)
		}
	}
	if len(roots) > 1 {
		p = p.WithProjectRoots(roots)
	}
	return p
}
