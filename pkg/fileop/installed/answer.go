// Package installed makes the answer about the plugins and skills that the server's user has
// (capabilities/discoverV2, docs/spec/wire.md §5.11). It reads no files: it parses the hostile
// texts that package skills found.
package installed

import (
	"path"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/skills"
	"codex.internal/pkg/wire/pathuri"
)

// The warnings of an answer. They contain no paths, because a sandbox may hide the paths.
const (
	warnMetadata  = "some capability metadata could not be loaded; discovery may be incomplete"
	warnLocations = "some capability locations could not be resolved; discovery may be incomplete"
	warnSize      = "capability discovery size limit reached"
)

// Answer collects an answer. The zero value is empty.
type Answer struct {
	result                    execproto.InstalledResult
	metadata, locations, size bool // the warnings
	entries, bytes            int
}

// Unresolved adds the warning that a directory could not be listed.
func (a *Answer) Unresolved() { a.locations = true }

// Truncated adds the warning that the search was incomplete.
func (a *Answer) Truncated() { a.size = true }

// Skills adds the skills below a root, each with the root's ID. A root that cannot be read has
// no skills: it is missing, or the sandbox hides it.
func (a *Answer) Skills(root *execproto.CapabilityRoot) {
	if root.Error != nil {
		return
	}
	for _, s := range a.skillsOf(root) {
		s.DiscoveryRoot = &execproto.SkillRoot{ID: root.ID, Path: root.Path}
		if a.admit(&s) {
			a.result.Skills = append(a.result.Skills, s)
		}
	}
}

// Plugin adds a plugin and, if it has one, its id in another system.
func (a *Answer) Plugin(p Plugin, root *execproto.CapabilityRoot, remote *string) {
	if root.Error != nil || root.Plugin == nil {
		a.metadata = true
		return
	}
	manifest := skills.ParseManifest(root.Plugin.Manifest.Contents)
	found := execproto.InstalledPlugin{
		ID: p.ID, DisplayName: firstOf(manifest.Display, manifest.Name, p.Version), RemotePluginID: remote, Version: p.Version, Root: p.Dir,
		Files: *root.Plugin, Skills: a.skillsOf(root),
	}
	a.entries += len(found.Skills)
	if a.admit(&found) {
		a.result.Plugins = append(a.result.Plugins, found)
	}
}

// Result returns the answer.
func (a *Answer) Result() execproto.InstalledResult {
	for _, w := range []struct {
		given bool
		text  string
	}{{a.metadata, warnMetadata}, {a.locations, warnLocations}, {a.size, warnSize}} {
		if w.given {
			a.result.Warnings = append(a.result.Warnings, w.text)
		}
	}
	return a.result
}

// admit counts an entry of the answer. It returns false if the answer is
// full.
func (a *Answer) admit(entry execproto.Object) bool {
	text, err := execproto.Append(nil, entry)
	a.entries++
	a.bytes += len(text) + len(",")
	if err != nil || a.entries > maxEntries || a.bytes > maxAnswer {
		a.size = true
		return false
	}
	return true
}

// skillsOf returns the skills below a root, without those whose heads are
// invalid.
func (a *Answer) skillsOf(root *execproto.CapabilityRoot) []execproto.InstalledSkill {
	if len(root.Warnings) > 0 {
		a.metadata = true
	}
	spaces := namespaces(root)
	found := []execproto.InstalledSkill{}
	for i := range root.Skills {
		file := &root.Skills[i].Instructions
		dir := parent(file.Path)
		skill, ok := parseSkill(file.Contents, baseName(dir))
		if !ok {
			a.metadata = true
			continue
		}
		if space := spaces.nearest(dir); space != "" {
			skill.Name = space + ":" + skill.Name
		}
		skill.Path = file.Path
		if m := root.Skills[i].Metadata; m != nil {
			skill.Dependencies, skill.Policy = parseMetadata(m.Contents)
		}
		found = append(found, skill)
	}
	return found
}

// spaces has the namespaces that manifests give to the skills below their directories. The keys
// are the URIs of the directories.
type spaces map[string]string

func namespaces(root *execproto.CapabilityRoot) spaces {
	s := make(spaces)
	for i := range root.NamespaceManifests {
		m := &root.NamespaceManifests[i]
		dir := parent(parent(m.Path))
		if read := skills.ParseManifest(m.Contents); read.Valid {
			s[dir] = firstOf(read.Name, baseName(dir))
		}
	}
	return s
}

// nearest returns the namespace for a directory: that of the directory itself or its nearest
// parent that has one; "" if none has.
func (s spaces) nearest(dir string) string {
	for dir != "" && s[dir] == "" {
		dir = parent(dir)
	}
	return s[dir]
}

// parent returns the URI without its last name, and "" for the root. Package path would remove
// one of the slashes after the scheme.
func parent(uri string) string {
	return uri[:max(strings.LastIndexByte(uri, '/'), 0)]
}

// baseName returns the last name of a URI.
func baseName(uri string) string {
	native, err := pathuri.Parse(uri, "")
	if err != nil {
		return ""
	}
	return path.Base(native)
}

// firstOf returns the first text that is not empty.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
