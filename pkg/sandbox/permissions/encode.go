package permissions

import (
	"fmt"
	"unicode/utf8"

	"codex.internal/pkg/wire/jsonwire"
)

// CheckText returns an error that names the first path of the profile that is not UTF-8. JSON cannot hold such a path: AppendJSON would
// write another one, which may exist.
func (p Profile) CheckText() error {
	for _, e := range p.FileSystem.Entries {
		for _, text := range []string{e.Path.Text, e.Path.Subpath} {
			if !utf8.ValidString(text) {
				return fmt.Errorf("cannot make a profile of permissions: the path %q is not UTF-8", text)
			}
		}
	}
	return nil
}

// AppendJSON appends the profile in its tagged shape, with native paths. Decoding the result with
// NativePath returns the same profile, if CheckText finds nothing.
func (p Profile) AppendJSON(b []byte) []byte {
	switch p.Kind {
	case Disabled:
		return append(b, `{"type":"disabled"}`...)
	case External:
		b = append(b, `{"type":"external"`...)
	default:
		b = append(b, `{"type":"managed","file_system":`...)
		b = p.FileSystem.AppendJSON(b)
	}
	b = append(b, `,"network":"`...)
	b = append(b, p.Network.String()...)
	return append(b, `"}`...)
}

// AppendJSON appends the file system part of a managed profile.
func (fs FileSystem) AppendJSON(b []byte) []byte {
	if fs.Unrestricted {
		return append(b, `{"type":"unrestricted"}`...)
	}
	b = append(b, `{"type":"restricted","entries":`...)
	b = appendEntries(b, fs.Entries)
	b = fs.appendDepth(b)
	return append(b, '}')
}

func (fs FileSystem) appendDepth(b []byte) []byte {
	if fs.GlobScanMaxDepth == 0 {
		return b
	}
	b = append(b, `,"glob_scan_max_depth":`...)
	return jsonwire.AppendInt(b, int64(fs.GlobScanMaxDepth))
}

func appendEntries(b []byte, entries []Entry) []byte {
	b = append(b, '[')
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"path":`...)
		b = e.Path.appendJSON(b)
		b = append(b, `,"access":"`...)
		b = append(b, e.Access.String()...)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

func (p Path) appendJSON(b []byte) []byte {
	switch p.Kind {
	case Literal:
		b = append(b, `{"type":"path","path":`...)
		return append(jsonwire.AppendString(b, p.Text), '}')
	case Glob:
		b = append(b, `{"type":"glob_pattern","pattern":`...)
		return append(jsonwire.AppendString(b, p.Text), '}')
	}
	b = append(b, `{"type":"special","value":{"kind":"`...)
	switch p.Kind {
	case Root:
		b = append(b, `root"`...)
	case Minimal:
		b = append(b, `minimal"`...)
	case ProjectRoots:
		b = append(b, `project_roots"`...)
	case Tmpdir:
		b = append(b, `tmpdir"`...)
	case SlashTmp:
		b = append(b, `slash_tmp"`...)
	default:
		b = append(b, `unknown","path":`...)
		b = jsonwire.AppendString(b, p.Text)
	}
	if p.HasSubpath {
		b = append(b, `,"subpath":`...)
		b = jsonwire.AppendString(b, p.Subpath)
	}
	return append(b, `}}`...)
}
