package permissions

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// DecodeProfile decodes a permission profile: the union tagged by `type`, or
// the untagged older shape. The error is a *jsonwire.SyntaxError for a text
// that is not JSON, a *ShapeError for JSON that is not a profile, and a *PathError
// for a path that decode refuses.
func DecodeProfile(text []byte, decode PathDecoder) (Profile, error) {
	r := jsonwire.NewReader(text)
	p, err := readProfile(r, decode)
	if err == nil || !isSyntax(err) {
		if end := r.End(); end != nil {
			err = end
		}
	}
	if err != nil {
		return Profile{}, err
	}
	return p, nil
}

func isSyntax(err error) bool {
	var syntax *jsonwire.SyntaxError
	return errors.As(err, &syntax)
}

// readProfile reads a profile from within a text.
func readProfile(r *jsonwire.Reader, decode PathDecoder) (Profile, error) {
	raw, err := r.Raw()
	if err != nil {
		return Profile{}, err
	}
	d := decoder{decode: decode}
	// A profile with a member `type` never fits the older shape.
	kind, isTagged, err := findTag(raw, "type")
	var p Profile
	switch {
	case err != nil:
	case isTagged:
		p, err = d.tagged(raw, kind)
	default:
		p, err = d.older(raw)
	}
	switch {
	case err != nil:
		return Profile{}, &ShapeError{Cause: err}
	case d.bad != nil:
		return Profile{}, d.bad
	}
	return p, nil
}

// decoder decodes profiles and keeps the first path that was refused: an error of the
// shape is reported before it.
type decoder struct {
	decode PathDecoder
	bad    error
}

func (d *decoder) tagged(raw []byte, kind string) (Profile, error) {
	r := jsonwire.NewReader(raw)
	typ := member{name: "type", required: true, read: skip}
	var p Profile
	net := member{name: "network", required: true, read: network(&p.Network)}
	var err error
	switch kind {
	case "managed":
		p.Kind = Managed
		err = object(r, true, typ, net, member{name: "file_system", required: true, read: d.fileSystem(&p.FileSystem)})
	case "disabled":
		p = Profile{Kind: Disabled, FileSystem: FileSystem{Unrestricted: true}, Network: NetworkEnabled}
		err = object(r, true, typ)
	case "external":
		p.Kind, p.FileSystem.Unrestricted = External, true
		err = object(r, true, typ, net)
	default:
		err = unknown(kind, "managed", "disabled", "external")
	}
	return p, err
}

// older decodes the untagged shape.
func (d *decoder) older(raw []byte) (Profile, error) {
	var a AdditionalProfile
	err := d.additional(&a)(jsonwire.NewReader(raw))
	p := Profile{Kind: Managed}
	if a.FileSystem != nil {
		p.FileSystem = *a.FileSystem
	}
	if a.Network != nil {
		p.Network = *a.Network
	}
	return p, err
}

// fileSystem reads the file system part of a managed profile.
func (d *decoder) fileSystem(fs *FileSystem) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return tagged(r, "type", func(raw []byte, kind string) error {
			inner := jsonwire.NewReader(raw)
			typ := member{name: "type", required: true, read: skip}
			switch kind {
			case "unrestricted":
				fs.Unrestricted = true
				return object(inner, true, typ)
			case "restricted":
				return object(inner, true, typ,
					member{name: "entries", required: true, read: d.entries(&fs.Entries)},
					member{name: "glob_scan_max_depth", read: depth(&fs.GlobScanMaxDepth)})
			default:
				return unknown(kind, "restricted", "unrestricted")
			}
		})
	}
}

// depth reads a number that is not 0. A number beyond the depth of any tree becomes
// the largest int.
func depth(to *int) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		n, err := r.Uint64()
		if err == nil && n == 0 {
			err = errors.New("invalid value: integer `0`, expected a nonzero usize")
		}
		const most = 1<<31 - 1
		*to = int(min(n, most))
		return err
	}
}

// entries reads the entries of a restricted file system.
func (d *decoder) entries(to *[]Entry) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return r.Array("a sequence", func() error {
			var e Entry
			word := ""
			err := object(r, true,
				member{name: "path", required: true, read: d.path(&e.Path)},
				member{name: "access", required: true, read: choice(&word, "read", "write", "deny", "none")})
			switch word {
			case "read":
				e.Access = Read
			case "write":
				e.Access = Write
			default:
				e.Access = Deny
			}
			if err == nil {
				err = appendEntry(to, e)
			}
			return err
		})
	}
}

func appendEntry(to *[]Entry, e Entry) error {
	if len(*to) >= maxEntries {
		return fmt.Errorf("more than %d file system entries", maxEntries)
	}
	*to = append(*to, e)
	return nil
}

// literal reads a path. One that is refused is remembered.
func (d *decoder) literal(to *string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		b, err := r.StringBytes()
		if err != nil {
			return err
		}
		if len(b) > maxText {
			err = &PathError{Text: clip(string(b)), Err: errTooLong}
		} else {
			*to, err = d.decode.decode(string(b))
		}
		if err != nil && d.bad == nil {
			d.bad = err
		}
		return nil
	}
}

// path reads the path of an entry.
func (d *decoder) path(p *Path) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return tagged(r, "type", func(raw []byte, kind string) error {
			inner := jsonwire.NewReader(raw)
			typ := member{name: "type", required: true, read: skip}
			switch kind {
			case "path":
				p.Kind = Literal
				return object(inner, true, typ, member{name: "path", required: true, read: d.literal(&p.Text)})
			case "glob_pattern":
				p.Kind = Glob
				err := object(inner, true, typ, member{name: "pattern", required: true, read: text(&p.Text)})
				if err == nil && (p.Text == "~" || strings.HasPrefix(p.Text, "~/")) {
					home, bad := d.decode.decode("~")
					if bad != nil && d.bad == nil {
						d.bad = bad
					}
					p.Text = escapeGlob(home) + p.Text[1:]
				}
				if err == nil && len(p.Text) > maxPath {
					err = errTooLong
				}
				return err
			case "special":
				return object(inner, true, typ, member{name: "value", required: true, read: special(p)})
			default:
				return unknown(kind, "path", "glob_pattern", "special")
			}
		})
	}
}

// special reads a special path.
func special(p *Path) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return tagged(r, "kind", func(raw []byte, kind string) error {
			inner := jsonwire.NewReader(raw)
			tag := member{name: "kind", required: true, read: skip}
			subpath := member{name: "subpath", read: func(r *jsonwire.Reader) error {
				p.HasSubpath = true
				return text(&p.Subpath)(r)
			}}
			switch kind {
			case "root":
				p.Kind = Root
			case "minimal":
				p.Kind = Minimal
			case "tmpdir":
				p.Kind = Tmpdir
			case "slash_tmp":
				p.Kind = SlashTmp
			case "project_roots", "current_working_directory":
				p.Kind = ProjectRoots
				return object(inner, true, tag, subpath)
			case "unknown":
				p.Kind = Unknown
				return object(inner, true, tag, subpath, member{name: "path", required: true, read: text(&p.Text)})
			default:
				return unknown(kind, "root", "minimal", "project_roots", "tmpdir", "slash_tmp", "unknown")
			}
			return object(inner, true, tag)
		})
	}
}
