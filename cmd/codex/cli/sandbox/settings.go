package sandbox

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/host/codexconfig"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/sandbox/permissions"
	"github.com/urfave/cli/v2"
)

// Keys of config.toml about the permissions of commands.
const (
	keyPermissions        = "permissions"
	keyDefaultPermissions = "default_permissions"
	keySandboxMode        = "sandbox_mode"
	keyWorkspaceWrite     = "sandbox_workspace_write"
)

// configSuffix is the suffix of the file names of config profiles.
const configSuffix = ".config.toml"

// maxLayerFile bounds the file of --profile, in bytes. Every other config.toml has the same limit.
const maxLayerFile = 1 << 20

// settings is the part of the configuration about the permissions of commands.
type settings struct {
	tree     map[string]any // all layers, merged
	override map[string]any // only -c, which tree contains, too
}

// loadSettings reads config.toml of the system, of the user and of trusted projects of cwd, which
// is absolute. The layer of --profile is above the user's, and -c is above all. The order is the
// same as in Codex CLI.
func loadSettings(c *cli.Context, cwd string) (settings, error) {
	s := settings{tree: make(map[string]any), override: make(map[string]any)}
	dir, err := home.Find()
	if err != nil {
		return s, err
	}
	machine := codexconfig.Machine{System: codexconfig.SystemDirectory, Home: dir}
	found, err := machine.Read(c.Context, codexconfig.Query{
		Cwd: cwd, Config: [][]string{{keyPermissions}, {keyDefaultPermissions}, {keyWorkspaceWrite}},
	})
	if err != nil {
		return s, fmt.Errorf("read the configuration: %w", err)
	}
	layers := found.Config.Layers
	if c.IsSet("profile") {
		layer, err := profileLayer(dir, c.String("profile"))
		if err != nil {
			return s, err
		}
		at := found.Config.System
		if at < len(layers) && layers[at].Source == "user ("+filepath.Join(dir, "config.toml")+")" {
			at++
		}
		layers = slices.Insert(slices.Clone(layers), at, layer)
	}
	for _, layer := range layers {
		var tree map[string]any
		if err := home.DecodeTOML([]byte(layer.TOML), &tree, false); err != nil {
			return s, fmt.Errorf("%s: %w", layer.Source, err)
		}
		merge(s.tree, tree)
	}
	for _, text := range cmdutil.Overrides(c) {
		key, document, err := home.Override(text)
		if err != nil {
			return s, cmdutil.Usagef("%v", err)
		}
		for _, to := range []map[string]any{s.tree, s.override} {
			var tree map[string]any // each layer has its own tree, because merge may keep tables of it
			if err := home.DecodeTOML(document, &tree, false); err != nil {
				return s, cmdutil.Usagef("-c %s: %s", key, err.Message)
			}
			merge(to, tree)
		}
	}
	return s, nil
}

// configProfileName matches the names of config profiles that Codex CLI accepts.
var configProfileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// profileLayer reads the file of a config profile. Codex CLI ignores a missing file; here it is an error, because
// otherwise the command would run with other permissions than the user requested.
func profileLayer(dir, name string) (codexconfig.Layer, error) {
	var none codexconfig.Layer
	if !configProfileName.MatchString(name) {
		return none, cmdutil.Usagef("--profile %q: expected the name of a config profile, such as work; "+
			"a permission profile in a file is given by --profile-file FILE", name)
	}
	path := filepath.Join(dir, name+configSuffix)
	text, err := safeopen.ReadFile(path, maxLayerFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, fmt.Errorf("--profile %s: %s does not exist; to use a permission profile in a file, give --profile-file FILE", name, path)
	case err != nil:
		return none, fmt.Errorf("--profile %s: %w", name, err)
	}
	return codexconfig.Layer{Source: path, BaseDir: dir, TOML: string(text)}, nil
}

// ProfileNames returns the names that --permission-profile accepts in the current directory. If the configuration
// cannot be read, it returns the built-in ones.
func ProfileNames() []string {
	names := []string{builtinReadOnly, builtinWorkspace, builtinFullAccess}
	cwd, err := os.Getwd()
	if err != nil {
		return names
	}
	s, err := loadSettings(cli.NewContext(&cli.App{}, flag.NewFlagSet("", flag.ContinueOnError), nil), cwd)
	if tables, ok := s.tree[keyPermissions].(map[string]any); err == nil && ok {
		names = append(names, slices.Sorted(maps.Keys(tables))...)
	}
	return names
}

// ConfigProfiles returns the names that --profile accepts. It returns none if they cannot be read.
func ConfigProfiles() (names []string) {
	dir, err := home.Find()
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), configSuffix); ok && configProfileName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// merge copies the values of one tree into another one, table by table.
func merge(to, over map[string]any) {
	for key, value := range over {
		table, isTable := value.(map[string]any)
		if at, ok := to[key].(map[string]any); ok && isTable {
			merge(at, table)
			continue
		}
		to[key] = value
	}
}

// configured returns the profile that --permission-profile or the configuration names, for a command in cwd, which
// is absolute. It returns nil if neither names one.
func configured(c *cli.Context, cwd string) (*permissions.Profile, error) {
	named := c.IsSet("permission-profile")
	s, err := loadSettings(c, cwd)
	if err != nil {
		return nil, err
	}
	name, mode := c.String("permission-profile"), s.override[keySandboxMode]
	if !named && s.override[keyDefaultPermissions] == nil && mode != nil {
		return s.legacy(mode)
	}
	if !named {
		switch value := s.tree[keyDefaultPermissions].(type) {
		case nil:
			return nil, nil
		case string:
			name = value
		default:
			return nil, fmt.Errorf("%s of the configuration must be a string", keyDefaultPermissions)
		}
	}
	tables, ok := s.tree[keyPermissions].(map[string]any)
	if !ok && s.tree[keyPermissions] != nil {
		return nil, fmt.Errorf("%s of the configuration must be a table", keyPermissions)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // only a path with ~ needs the home directory
	}
	p, err := namedProfile(tables, name, cwd, user)
	if err != nil {
		return nil, err
	}
	if !named && p.Kind == permissions.Disabled {
		fmt.Fprintf(c.App.ErrWriter, "codex: %s is %s: the command runs without a sandbox\n", keyDefaultPermissions, name)
	}
	return &p, nil
}

// legacy returns the profile of sandbox_mode and sandbox_workspace_write. As in Codex CLI, only -c sets the mode:
// in config.toml, sandbox_mode is for sessions of Codex CLI.
func (s settings) legacy(mode any) (*permissions.Profile, error) {
	var policy permissions.LegacyPolicy
	var roots []string
	switch mode {
	case ReadOnly:
		policy.Kind = permissions.LegacyReadOnly
	case FullAccess:
		policy.Kind = permissions.DangerFullAccess
	case WorkspaceWrite:
		policy.Kind = permissions.WorkspaceWrite
		var err error
		if table, ok := s.tree[keyWorkspaceWrite].(map[string]any); ok {
			roots, err = workspaceWrite(table, &policy)
		} else if s.tree[keyWorkspaceWrite] != nil {
			err = fmt.Errorf("%s of the configuration must be a table", keyWorkspaceWrite)
		}
		if err != nil {
			return nil, err
		}
	default:
		return nil, cmdutil.Usagef("-c %s: expected %s, %s or %s, got %v", keySandboxMode, ReadOnly, WorkspaceWrite, FullAccess, mode)
	}
	p := policy.ToProfile("", nil)
	for _, root := range roots {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permissions.Entry{Path: permissions.Path{Text: root}, Access: permissions.Write})
	}
	return &p, nil
}

// workspaceWrite reads sandbox_workspace_write, and returns its writable roots.
func workspaceWrite(table map[string]any, policy *permissions.LegacyPolicy) (roots []string, err error) {
	for key, value := range table {
		set, isBool := value.(bool)
		switch {
		case key == "writable_roots":
			list, ok := value.([]any)
			if !ok {
				return nil, fmt.Errorf("%s.%s must be an array of paths", keyWorkspaceWrite, key)
			}
			for _, item := range list {
				root, ok := item.(string)
				if !ok || !filepath.IsAbs(root) {
					return nil, fmt.Errorf("%s.%s: %v is not an absolute path", keyWorkspaceWrite, key, item)
				}
				roots = append(roots, filepath.Clean(root))
			}
		case !isBool:
			return nil, fmt.Errorf("%s.%s must be true or false", keyWorkspaceWrite, key)
		case key == "network_access" && set:
			policy.Network = permissions.NetworkEnabled
		case key == "exclude_tmpdir_env_var":
			policy.ExcludeTmpdir = set
		case key == "exclude_slash_tmp":
			policy.ExcludeSlashTmp = set
		case key != "network_access":
			return nil, fmt.Errorf("%s has no %s", keyWorkspaceWrite, key)
		}
	}
	return roots, nil
}

// absolute returns the directory of --cwd as an absolute path.
func absolute(c *cli.Context) (string, error) {
	cwd, err := filepath.Abs(c.String("cwd"))
	if err != nil {
		return "", fmt.Errorf("--cwd: %w", err)
	}
	return cwd, nil
}
