package installed

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// Plugin is a version of a plugin in the cache of plugins,
// `MARKETPLACE/NAME/VERSION` below it.
type Plugin struct {
	ID      string // NAME@MARKETPLACE
	Version string
	Dir     string // URI of the version's directory
	// Remote is the URI of the file that names the plugin's id in another system, or "" if the
	// file does not exist.
	Remote string
}

// RemoteInstall is the name of the file with a plugin's id in another system.
const RemoteInstall = ".codex-remote-plugin-install.json"

// Choose returns the plugins of a cache, one version of each, sorted by id. cache is the URI of
// the cache. entries has the URIs below it; the value is true for a directory. truncated means
// that there are more than MaxLocations.
func Choose(cache string, entries map[string]bool) (plugins []Plugin, truncated bool) {
	best := make(map[string]Plugin)
	for uri, isDirectory := range entries {
		below, found := strings.CutPrefix(uri, cache+"/")
		parts := strings.Split(below, "/")
		if !found || !isDirectory || len(parts) != 3 || !isName(parts[0], "") || !isName(parts[1], "") || !isName(parts[2], ".+") {
			continue
		}
		p := Plugin{ID: parts[1] + "@" + parts[0], Version: parts[2], Dir: uri}
		if other, exists := best[p.ID]; !exists || compareVersions(p.Version, other.Version) > 0 {
			best[p.ID] = p
		}
	}
	for _, p := range best {
		remote := strings.TrimSuffix(p.Dir, "/"+p.Version) + "/" + RemoteInstall
		if directory, exists := entries[remote]; exists && !directory {
			p.Remote = remote
		}
		plugins = append(plugins, p)
	}
	// sort.Slice and not slices.SortFunc, which adds 14 KB to the program for each type.
	sort.Slice(plugins, func(i, j int) bool { return plugins[i].ID < plugins[j].ID })
	if len(plugins) > MaxLocations {
		return plugins[:MaxLocations], true
	}
	return plugins, false
}

// isName reports whether a directory's name is valid in the cache: it has only letters, digits,
// `_`, `-` and the characters of more.
func isName(text, more string) bool {
	return text != "" && text != "." && text != ".." && !strings.ContainsFunc(text, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && r != '_' && r != '-' && !strings.ContainsRune(more, r)
	})
}

// local is the version that is preferred to all others: a plugin under development.
const local = "local"

// compareVersions orders versions. Semantic versions are ordered by their rules, and rank above
// all others. Other versions are ordered as texts.
func compareVersions(a, b string) int {
	x, isA := parseVersion(a)
	y, isB := parseVersion(b)
	switch {
	case a == local || b == local:
		return cmp.Compare(rank(a == local), rank(b == local))
	case isA && isB:
		if c := x.compare(y); c != 0 {
			return c
		}
		return cmp.Compare(a, b) // they differ only in the build metadata
	case isA != isB:
		return cmp.Compare(rank(isA), rank(isB))
	}
	return cmp.Compare(a, b)
}

func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

// version is a semantic version without its build metadata.
type version struct {
	numbers [3]uint64
	before  []string // the parts of the prerelease
}

func parseVersion(text string) (v version, ok bool) {
	text, _, _ = strings.Cut(text, "+")
	text, before, isBefore := strings.Cut(text, "-")
	if isBefore {
		v.before = strings.Split(before, ".")
	}
	parts := strings.Split(text, ".")
	if len(parts) != len(v.numbers) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return v, false
		}
		v.numbers[i] = n
	}
	return v, true
}

func (v version) compare(o version) int {
	if c := slices.Compare(v.numbers[:], o.numbers[:]); c != 0 {
		return c
	}
	if len(v.before) == 0 || len(o.before) == 0 {
		return cmp.Compare(rank(len(v.before) == 0), rank(len(o.before) == 0))
	}
	return slices.CompareFunc(v.before, o.before, func(a, b string) int {
		x, notA := strconv.ParseUint(a, 10, 64)
		y, notB := strconv.ParseUint(b, 10, 64)
		switch {
		case notA == nil && notB == nil:
			return cmp.Compare(x, y)
		case (notA == nil) != (notB == nil):
			return cmp.Compare(rank(notA != nil), rank(notB != nil)) // numbers precede texts
		}
		return cmp.Compare(a, b)
	})
}

// ParseRemoteInstall returns the id in the file RemoteInstall, or nil.
func ParseRemoteInstall(text []byte) *string {
	var schema int64
	var id string
	r := jsonwire.NewReader(text)
	err := r.Struct("an installation", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.Read("schema_version", 0, func(r *jsonwire.Reader) (err error) {
			if r.Peek() != jsonwire.Number {
				return r.Skip()
			}
			schema, err = r.Int64("a version")
			return err
		})
		c.LaxText("remote_plugin_id", &id)
	}))
	if err == nil {
		err = r.End()
	}
	if err != nil || schema != 1 || id == "" || len(id) > maxRemoteID {
		return nil
	}
	return &id
}
