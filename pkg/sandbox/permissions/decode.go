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
	kind, err := find(raw, "type")
	var p Profile
	switch {
	case err != nil:
	case kind != nil:
		p, err = d.tagged(raw)
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

// decoder decodes profiles. It keeps the first path that was refused, because an error of the shape
// must be reported before that.
type decoder struct {
	decode PathDecoder
	bad    error
}

func (d *decoder) tagged(raw []byte) (p Profile, err error) {
	err = tagged(jsonwire.NewReader(raw), "type", func(kind string) (jsonwire.FieldsFunc, error) {
		switch kind {
		case "managed":
			p.Kind = Managed
			return func(c *jsonwire.Codec) {
				c.Read("network", need, network(&p.Network))
				c.Read("file_system", need, d.fileSystem(&p.FileSystem))
			}, nil
		case "disabled":
			p = Profile{Kind: Disabled, FileSystem: FileSystem{Unrestricted: true}, Network: NetworkEnabled}
			return noFields, nil
		case "external":
			p.Kind, p.FileSystem.Unrestricted = External, true
			return func(c *jsonwire.Codec) { c.Read("network", need, network(&p.Network)) }, nil
		}
		return nil, jsonwire.UnknownWord(kind, "managed", "disabled", "external")
	})
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
		return tagged(r, "type", func(kind string) (jsonwire.FieldsFunc, error) {
			switch kind {
			case "unrestricted":
				fs.Unrestricted = true
				return noFields, nil
			case "restricted":
				return func(c *jsonwire.Codec) {
					c.Read("entries", need, d.entries(&fs.Entries))
					c.Read("glob_scan_max_depth", orNull, depth(&fs.GlobScanMaxDepth))
				}, nil
			}
			return nil, jsonwire.UnknownWord(kind, "restricted", "unrestricted")
		})
	}
}

// depth reads a number that is not 0. A number that does not fit an int becomes the largest int.
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

var accessWords = []string{"read", "write", "deny", "none"}

// entries reads the entries of a restricted file system.
func (d *decoder) entries(to *[]Entry) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return r.Array("a sequence", func() error {
			var e Entry
			var word string
			err := r.Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
				c.Read("path", need, d.path(&e.Path))
				jsonwire.Choice(c, "access", need, &word, accessWords)
			}))
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

// literal reads a path. If the path is refused, the decoder keeps the error.
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
		return tagged(r, "type", func(kind string) (jsonwire.FieldsFunc, error) {
			switch kind {
			case "path":
				p.Kind = Literal
				return func(c *jsonwire.Codec) { c.Read("path", need, d.literal(&p.Text)) }, nil
			case "glob_pattern":
				p.Kind = Glob
				return func(c *jsonwire.Codec) { c.Read("pattern", need, d.pattern(&p.Text)) }, nil
			case "special":
				return func(c *jsonwire.Codec) { c.Read("value", need, special(p)) }, nil
			}
			return nil, jsonwire.UnknownWord(kind, "path", "glob_pattern", "special")
		})
	}
}

// pattern reads a pattern. A ~ at its beginning stands for the home directory.
func (d *decoder) pattern(to *string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		if err := text(to)(r); err != nil {
			return err
		}
		if *to == "~" || strings.HasPrefix(*to, "~/") {
			home, bad := d.decode.decode("~")
			if bad != nil && d.bad == nil {
				d.bad = bad
			}
			*to = escapeGlob(home) + (*to)[1:]
		}
		if len(*to) > maxPath {
			return errTooLong
		}
		return nil
	}
}

// special reads a special path.
func special(p *Path) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return tagged(r, "kind", func(kind string) (jsonwire.FieldsFunc, error) {
			subpath := func(c *jsonwire.Codec) {
				c.Read("subpath", orNull, func(r *jsonwire.Reader) error {
					p.HasSubpath = true
					return text(&p.Subpath)(r)
				})
			}
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
				return subpath, nil
			case "unknown":
				p.Kind = Unknown
				return func(c *jsonwire.Codec) {
					subpath(c)
					c.Read("path", need, text(&p.Text))
				}, nil
			default:
				return nil, jsonwire.UnknownWord(kind, "root", "minimal", "project_roots", "tmpdir", "slash_tmp", "unknown")
			}
			return noFields, nil
		})
	}
}
