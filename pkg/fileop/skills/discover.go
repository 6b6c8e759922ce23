// Package skills finds the plugins and skills below directories (capabilityRoots/discoverV1,
// docs/spec/wire.md §5.10).
//
// Discover reads files and changes none. The directories and the files in them are hostile:
// every size is bounded, a FIFO does not block Discover, and files above the root of a manifest
// are refused. Under a sandbox codex-fs runs Discover inside, so the package links little:
// package installed, which needs a YAML library, parses the output in the server.
package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/pathuri"
	"golang.org/x/sys/unix"
)

// Root is one directory, by its native path.
type Root struct {
	ID   string
	URI  string // the path as the client has sent it
	Path string
}

// Discover returns the plugins and skills below each of the roots, in the order of the roots.
// The error is that of ctx.
func Discover(ctx context.Context, roots []Root) ([]execproto.CapabilityRoot, error) {
	all := int64(MaxBytes)
	found := make([]execproto.CapabilityRoot, len(roots))
	for i, r := range roots {
		d := &discovery{root: r.Path, all: &all}
		err := d.run(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("discover capabilities: %w", ctx.Err())
		}
		found[i] = d.found
		if err != nil {
			text := err.Error()
			found[i] = execproto.CapabilityRoot{Error: &text}
		}
		found[i].ID, found[i].Path = r.ID, r.URI
	}
	return found, nil
}

// discovery is the search in one root.
type discovery struct {
	root  string
	bytes int64  // total size of the files of this root that were read
	all   *int64 // how many bytes all roots together may still read
	found execproto.CapabilityRoot
}

// manifests are the possible paths of a plugin's manifest; the first existing
// one counts.
var manifests = [...]string{".codex-plugin/plugin.json", ".claude-plugin/plugin.json", ".cursor-plugin/plugin.json"}

// run fills in found. It returns an error that affects the whole root.
func (d *discovery) run(ctx context.Context) error {
	uri := pathuri.Format(d.root)
	switch info, err := files.Stat(d.root, files.Options{}); {
	case err != nil:
		return fmt.Errorf("failed to inspect capability root %s: %w", uri, err)
	case !info.IsDirectory:
		return fmt.Errorf("capability root %s is not a directory", uri)
	}
	walk, err := files.Walk(ctx, d.root, files.WalkOptions{
		MaxDepth: maxDepth, MaxDirectories: maxDirectories, MaxEntries: maxWalkEntries, FollowDirectorySymlinks: true,
	})
	if err != nil {
		return fmt.Errorf("failed to scan capability root %s: %w", uri, err)
	}
	for _, e := range walk.Errors {
		d.warn("failed to scan capability path %s: %v", pathuri.Format(e.Path), e.Err)
	}
	if walk.Truncated {
		d.warn("capability scan reached its traversal limit (root: %s)", uri)
	}
	d.plugin()
	d.namespaces(walk.Entries)
	d.skills(walk.Entries)
	if *d.all < 0 {
		return fmt.Errorf("capability root %s: the roots of one request hold more than %d bytes", uri, MaxBytes)
	}
	return nil
}

// warn adds a warning.
func (d *discovery) warn(format string, args ...any) {
	switch n := len(d.found.Warnings); {
	case n < maxWarnings:
		d.found.Warnings = append(d.found.Warnings, fmt.Sprintf(format, args...))
	case n == maxWarnings:
		d.found.Warnings = append(d.found.Warnings, "there are further warnings")
	}
}

// read returns a file, or nil. A file that is missing or not regular causes no warning.
func (d *discovery) read(name string) *execproto.CapabilityFile {
	if *d.all < 0 {
		return nil
	}
	uri := pathuri.Format(name)
	text, err := readText(name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, files.ErrNotFile):
		return nil
	case errors.Is(err, errTooLarge):
		d.warn("capability file %s exceeds the %d-byte limit", uri, maxFile)
		return nil
	case err != nil:
		d.warn("failed to read capability file %s: %v", uri, err)
		return nil
	case !utf8.ValidString(text):
		d.warn("capability file %s is not UTF-8: it has an invalid byte", uri)
		return nil
	case d.bytes+int64(len(text)) > maxRoot:
		d.warn("capability root bundle exceeds the %d-byte limit", maxRoot)
		return nil
	}
	d.bytes += int64(len(text))
	*d.all -= int64(len(text))
	return &execproto.CapabilityFile{Path: uri, Contents: text}
}

var errTooLarge = errors.New("the file is too large")

// readText reads a regular file of at most maxFile bytes.
func readText(name string) (string, error) {
	f, size, err := files.OpenRegular(name, files.Options{})
	if errors.Is(err, files.ErrTooLarge) {
		return "", errTooLarge
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if size > maxFile {
		return "", errTooLarge
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1)) // the file may grow while it is read
	if err == nil && len(text) > maxFile {
		err = errTooLarge
	}
	return string(text), err
}

// manifest returns the manifest of a directory, or nil.
func (d *discovery) manifest(dir string) *execproto.CapabilityFile {
	for _, place := range manifests {
		if f := d.read(path.Join(dir, place)); f != nil {
			return f
		}
	}
	return nil
}

// plugin reads the root's manifest and the files that it names.
func (d *discovery) plugin() {
	manifest := d.manifest(d.root)
	if manifest == nil {
		return
	}
	named := ParseManifest(manifest.Contents)
	p := &execproto.CapabilityPlugin{Manifest: *manifest}
	d.found.Plugin = p
	if !named.inline {
		p.MCPConfig = d.read(d.below("mcpServers", named.servers, ".mcp.json", manifest.Path))
	}
	p.AppsConfig = d.read(d.below("apps", named.apps, ".app.json", manifest.Path))
}

// below returns the path that a member of the manifest names, or the default one.
func (d *discovery) below(member string, named *string, otherwise, manifest string) string {
	if named == nil {
		return path.Join(d.root, otherwise)
	}
	rest, relative := strings.CutPrefix(*named, "./")
	why := ""
	switch {
	case !relative:
		why = "path must start with `./`"
	case path.Clean(rest) == "." || path.IsAbs(rest) || strings.ContainsRune(rest, 0) || slices.Contains(strings.Split(rest, "/"), ".."):
		why = "path must remain below the capability root"
	default:
		return path.Join(d.root, rest)
	}
	d.warn("ignoring %s in %s: %s", member, manifest, why)
	return path.Join(d.root, otherwise)
}

// namespaces collects the manifests that determine the namespaces of skills: the manifest of
// the root or, if it has none, of the nearest parent directory, and the manifests of the
// directories below.
func (d *discovery) namespaces(entries []files.WalkEntry) {
	if p := d.found.Plugin; p != nil {
		d.found.NamespaceManifests = append(d.found.NamespaceManifests, p.Manifest)
	} else if f := d.above(); f != nil {
		d.found.NamespaceManifests = append(d.found.NamespaceManifests, *f)
	}
	var dirs []string
	for _, e := range entries {
		dir, found := pluginDir(e.Path)
		if found && !e.IsDirectory && dir != d.root {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if f := d.manifest(dir); f != nil {
			d.found.NamespaceManifests = append(d.found.NamespaceManifests, *f)
		}
	}
}

// above returns the manifest of the nearest parent directory that has one. It
// gives no warnings, because the client has not named these directories.
func (d *discovery) above() *execproto.CapabilityFile {
	quiet := &discovery{root: d.root, bytes: d.bytes, all: d.all}
	defer func() { d.bytes = quiet.bytes }()
	for dir := d.root; dir != "/"; {
		dir = path.Dir(dir)
		if f := quiet.manifest(dir); f != nil {
			return f
		}
	}
	return nil
}

// pluginDir returns the directory of the plugin whose manifest is at a path.
func pluginDir(name string) (dir string, found bool) {
	for _, place := range manifests {
		if dir, found := strings.CutSuffix(name, "/"+place); found {
			return dir, true
		}
	}
	return "", false
}

// skills collects the skills that the walk has found.
func (d *discovery) skills(entries []files.WalkEntry) {
	var names []string
	for _, e := range entries {
		if !e.IsDirectory && path.Base(e.Path) == "SKILL.md" {
			names = append(names, e.Path)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(pathuri.Format(a), pathuri.Format(b)) })
	for _, name := range names {
		f := d.read(name)
		if f == nil {
			continue
		}
		d.found.Skills = append(d.found.Skills, execproto.CapabilitySkill{
			Instructions: *f, Metadata: d.read(path.Join(path.Dir(name), "agents", "openai.yaml")),
		})
	}
}
