package permissions

import (
	"errors"
	"path"
	"slices"

	"codex.internal/pkg/wire/jsonwire"
)

// AdditionalProfile is a partial overlay over a profile
// (docs/spec/sandbox.md §1.3).
type AdditionalProfile struct {
	// Network is nil if the overlay does not contain it. `enabled: false` is NetworkRestricted, and
	// `enabled: null` counts as absent.
	Network *Network
	// FileSystem is nil if the overlay does not contain it. It is always restricted.
	FileSystem *FileSystem
}

// additional reads an overlay. Other members are errors.
func (d *decoder) additional(a *AdditionalProfile) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		var enabled *bool
		err := r.Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
			c.NoOthers()
			c.Read("network", orNull, func(r *jsonwire.Reader) error {
				return r.Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
					c.NoOthers()
					jsonwire.Optional(c, "enabled", orNull, &enabled, jsonwire.BoolValue)
				}))
			})
			c.Read("file_system", orNull, func(r *jsonwire.Reader) error {
				a.FileSystem = &FileSystem{}
				return d.partial(a.FileSystem)(r)
			})
		}))
		if enabled != nil {
			mode := NetworkRestricted
			if *enabled {
				mode = NetworkEnabled
			}
			a.Network = &mode
		}
		return err
	}
}

// partial reads the file system part of the older shape: entries and depth, or
// lists of paths to read and write.
func (d *decoder) partial(fs *FileSystem) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		var read, write []Entry
		lists, canonical := false, false
		list := func(to *[]Entry, access Access) func(*jsonwire.Reader) error {
			return func(r *jsonwire.Reader) error {
				lists = true
				return r.Array("a sequence", func() error {
					e := Entry{Access: access}
					if err := d.literal(&e.Path.Text)(r); err != nil {
						return err
					}
					return appendEntry(to, e)
				})
			}
		}
		seen := func(read func(*jsonwire.Reader) error) func(*jsonwire.Reader) error {
			return func(r *jsonwire.Reader) error {
				canonical = true
				return read(r)
			}
		}
		err := r.Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
			c.NoOthers()
			c.Read("read", orNull, list(&read, Read))
			c.Read("write", orNull, list(&write, Write))
			c.Read("entries", orNull, seen(d.entries(&fs.Entries)))
			c.Read("glob_scan_max_depth", orNull, seen(depth(&fs.GlobScanMaxDepth)))
		}))
		switch {
		case err != nil:
			return err
		case lists && canonical:
			return errors.New("`read` and `write` cannot be combined with `entries`")
		case lists:
			fs.Entries = append(read, write...)
			if len(fs.Entries) > maxEntries {
				return errors.New("too many file system entries")
			}
		}
		return nil
	}
}

// AppendJSON appends the overlay with native paths.
func (a AdditionalProfile) AppendJSON(b []byte) []byte {
	switch {
	case a.Network == nil:
		b = append(b, `{"network":null`...)
	default:
		b = append(b, `{"network":{"enabled":`...)
		b = append(jsonwire.AppendBool(b, *a.Network == NetworkEnabled), '}')
	}
	b = append(b, `,"file_system":`...)
	if a.FileSystem == nil {
		return append(b, "null}"...)
	}
	return append(a.FileSystem.appendPartial(b), '}')
}

// appendPartial appends a file system part in the older shape.
func (fs FileSystem) appendPartial(b []byte) []byte {
	plain := fs.GlobScanMaxDepth == 0 && len(fs.Entries) > 0
	for _, e := range fs.Entries {
		plain = plain && e.Path.Kind == Literal && e.Access != Deny
	}
	if !plain {
		b = append(b, `{"entries":`...)
		b = appendEntries(b, fs.Entries)
		return append(fs.appendDepth(b), '}')
	}
	start := len(b)
	for _, access := range [...]Access{Read, Write} {
		var paths []string
		for _, e := range fs.Entries {
			if e.Access == access {
				paths = append(paths, e.Path.Text)
			}
		}
		if len(paths) == 0 {
			continue
		}
		if len(b) == start {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, access.String())
		b = append(b, ':')
		b = appendStrings(b, paths)
	}
	return append(b, '}')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, s)
	}
	return append(b, ']')
}

// Normalize returns the overlay without duplicates and with empty parts removed. It resolves
// existing paths, except for a link in the last component. For a pattern that is not denied the
// error is ErrGlobAccess.
func (a AdditionalProfile) Normalize(view View) (AdditionalProfile, error) {
	if a.FileSystem == nil {
		return a, nil
	}
	fs := FileSystem{GlobScanMaxDepth: a.FileSystem.GlobScanMaxDepth}
	for _, e := range a.FileSystem.Entries {
		if e.Path.Kind == Glob && e.Access != Deny {
			return AdditionalProfile{}, ErrGlobAccess
		}
		if e.Path.Kind == Literal {
			e.Path.Text = canonical(view, e.Path.Text)
		}
		if !slices.Contains(fs.Entries, e) {
			fs.Entries = append(fs.Entries, e)
		}
	}
	a.FileSystem = nil
	if len(fs.Entries) > 0 {
		a.FileSystem = &fs
	}
	return a, nil
}

// canonical returns an existing path with the links above its last component
// resolved, and any other path unchanged.
func canonical(view View, p string) string {
	if p == "/" {
		return p
	}
	dir, t := stat(view, path.Dir(p))
	if t != Dir {
		return p
	}
	at := path.Join(dir, path.Base(p))
	if info, err := view.Lstat(at); err != nil || info.Type == Missing {
		return p
	}
	return at
}

// Merge returns an overlay with the entries and grants of both.
func (a AdditionalProfile) Merge(b AdditionalProfile) AdditionalProfile {
	var merged AdditionalProfile
	for _, side := range [...]AdditionalProfile{a, b} {
		if side.Network != nil && *side.Network == NetworkEnabled {
			merged.Network = side.Network
		}
	}
	switch {
	case a.FileSystem == nil:
		merged.FileSystem = b.FileSystem
	case b.FileSystem == nil:
		merged.FileSystem = a.FileSystem
	default:
		fs := a.FileSystem.merge(*b.FileSystem)
		merged.FileSystem = &fs
	}
	return merged
}

// Apply returns the profile with an overlay applied. It appends the entries to a restricted file
// system, and enables the network if either enables it.
func (a AdditionalProfile) Apply(p Profile) Profile {
	if a.Network != nil && *a.Network == NetworkEnabled {
		p.Network = NetworkEnabled
	}
	if a.FileSystem != nil && p.Kind == Managed && !p.FileSystem.Unrestricted {
		p.FileSystem = p.FileSystem.merge(*a.FileSystem)
	}
	return p
}

// merge appends those entries of an overlay that fs does not have.
func (fs FileSystem) merge(over FileSystem) FileSystem {
	merged := FileSystem{Entries: slices.Clip(fs.Entries)}
	for _, e := range over.Entries {
		if !slices.Contains(merged.Entries, e) {
			merged.Entries = append(merged.Entries, e)
		}
	}
	merged.GlobScanMaxDepth = merged.depthOf(fs, over)
	return merged
}

func (fs FileSystem) hasDenyGlob() bool {
	return slices.ContainsFunc(fs.Entries, func(e Entry) bool { return e.Path.Kind == Glob && e.Access == Deny })
}

// depthOf returns the depth for the patterns of fs, which is made from sides: the larger depth, or
// 0 if a side with patterns has no depth.
func (fs FileSystem) depthOf(sides ...FileSystem) int {
	depth := 0
	for _, side := range sides {
		if !fs.hasDenyGlob() || !side.hasDenyGlob() {
			continue
		}
		if side.GlobScanMaxDepth == 0 {
			return 0
		}
		depth = max(depth, side.GlobScanMaxDepth)
	}
	return depth
}
