package permissions

import (
	"fmt"
	"path"

	"codex.internal/pkg/wire/jsonwire"
)

// LegacyKind is the kind of a legacy policy.
type LegacyKind uint8

// The kinds of legacy policies.
const (
	DangerFullAccess LegacyKind = iota + 1
	LegacyReadOnly
	ExternalSandbox
	WorkspaceWrite
)

// LegacyPolicy is a SandboxPolicy, the form before permission profiles
// (docs/spec/sandbox.md §1.4).
type LegacyPolicy struct {
	Kind    LegacyKind
	Network Network // always enabled for DangerFullAccess
	// The following fields are for WorkspaceWrite only.
	WritableRoots   []string // clean absolute native paths
	ExcludeTmpdir   bool
	ExcludeSlashTmp bool
}

// legacy reads a SandboxPolicy.
func (d *decoder) legacy(p *LegacyPolicy) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		access := false
		err := tagged(r, "type", func(kind string) (jsonwire.FieldsFunc, error) {
			switch kind {
			case "danger-full-access":
				p.Kind, access = DangerFullAccess, true
				return noFields, nil
			case "read-only":
				p.Kind = LegacyReadOnly
				return func(c *jsonwire.Codec) { c.Bool("network_access", orNull, &access) }, nil
			case "external-sandbox":
				p.Kind = ExternalSandbox
				return func(c *jsonwire.Codec) { c.Read("network_access", orNull, network(&p.Network)) }, nil
			case "workspace-write":
				p.Kind = WorkspaceWrite
				return func(c *jsonwire.Codec) {
					c.Bool("network_access", orNull, &access)
					c.Read("writable_roots", orNull, d.paths(&p.WritableRoots))
					c.Bool("exclude_tmpdir_env_var", orNull, &p.ExcludeTmpdir)
					c.Bool("exclude_slash_tmp", orNull, &p.ExcludeSlashTmp)
				}, nil
			}
			return nil, jsonwire.UnknownWord(kind, "danger-full-access", "read-only", "external-sandbox", "workspace-write")
		})
		if access {
			p.Network = NetworkEnabled
		}
		return err
	}
}

// paths reads a list of paths.
func (d *decoder) paths(to *[]string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return r.Array("a sequence", func() error {
			if len(*to) >= maxRoots {
				return fmt.Errorf("more than %d roots", maxRoots)
			}
			var at string
			err := d.literal(&at)(r)
			*to = append(*to, at)
			return err
		})
	}
}

// AppendJSON appends the policy with native paths.
func (p LegacyPolicy) AppendJSON(b []byte) []byte {
	enabled := p.Network == NetworkEnabled
	switch p.Kind {
	case DangerFullAccess:
		return append(b, `{"type":"danger-full-access"}`...)
	case ExternalSandbox:
		b = append(b, `{"type":"external-sandbox","network_access":`...)
		return append(jsonwire.AppendString(b, p.Network.String()), '}')
	case LegacyReadOnly:
		b = append(b, `{"type":"read-only"`...)
		if enabled {
			b = append(b, `,"network_access":true`...)
		}
		return append(b, '}')
	}
	b = append(b, `{"type":"workspace-write"`...)
	if len(p.WritableRoots) > 0 {
		b = append(b, `,"writable_roots":`...)
		b = appendStrings(b, p.WritableRoots)
	}
	b = append(b, `,"network_access":`...)
	b = jsonwire.AppendBool(b, enabled)
	b = append(b, `,"exclude_tmpdir_env_var":`...)
	b = jsonwire.AppendBool(b, p.ExcludeTmpdir)
	b = append(b, `,"exclude_slash_tmp":`...)
	b = jsonwire.AppendBool(b, p.ExcludeSlashTmp)
	return append(b, '}')
}

// ToProfile maps the policy to a profile (docs/spec/sandbox.md §3). cwd is absolute and clean, or
// "" if the working directory is unknown.
func (p LegacyPolicy) ToProfile(cwd string, view View) Profile {
	switch p.Kind {
	case DangerFullAccess:
		return Profile{Kind: Disabled, FileSystem: FileSystem{Unrestricted: true}, Network: NetworkEnabled}
	case ExternalSandbox:
		return Profile{Kind: External, FileSystem: FileSystem{Unrestricted: true}, Network: p.Network}
	}
	to := Profile{Kind: Managed, Network: p.Network}
	entries := []Entry{{Path{Kind: Root}, Read}}
	if p.Kind == WorkspaceWrite {
		entries = p.workspaceEntries(entries, cwd, view)
	}
	to.FileSystem.Entries = entries
	return to
}

func (p LegacyPolicy) workspaceEntries(entries []Entry, cwd string, view View) []Entry {
	add := func(p Path, access Access) {
		for _, e := range entries {
			if e.Path.target() == p.target() {
				return
			}
		}
		entries = append(entries, Entry{p, access})
	}
	write := func(p Path) { entries = append(entries, Entry{p, Write}) }
	write(Path{Kind: ProjectRoots})
	if !p.ExcludeSlashTmp {
		write(Path{Kind: SlashTmp})
	}
	if !p.ExcludeTmpdir {
		write(Path{Kind: Tmpdir})
	}
	for _, root := range p.WritableRoots {
		write(Path{Text: root})
	}
	for _, name := range metadataNames {
		add(Path{Kind: ProjectRoots, Subpath: name, HasSubpath: true}, Read)
	}
	if cwd != "" {
		for _, at := range existingMetadata(view, cwd, true) {
			add(Path{Text: at}, Read)
		}
	}
	for _, root := range p.WritableRoots {
		for _, at := range existingMetadata(view, root, false) {
			add(Path{Text: at}, Read)
		}
	}
	return entries
}

// LegacyFromProfile maps a profile back to a policy. The result omits entries that the policy
// cannot express. If one of these grants write access, the error is ErrOutsideWorkspace.
func LegacyFromProfile(p Profile, cwd string) (LegacyPolicy, error) {
	switch {
	case p.Kind == Disabled:
		return LegacyPolicy{Kind: DangerFullAccess, Network: NetworkEnabled}, nil
	case p.Kind == External:
		return LegacyPolicy{Kind: ExternalSandbox, Network: p.Network}, nil
	case p.FullWrite() && p.Network == NetworkEnabled:
		return LegacyPolicy{Kind: DangerFullAccess, Network: NetworkEnabled}, nil
	case p.FullWrite():
		return LegacyPolicy{Kind: ExternalSandbox}, nil
	}
	to := LegacyPolicy{Kind: WorkspaceWrite, Network: p.Network, ExcludeTmpdir: true, ExcludeSlashTmp: true}
	workspace := false
	for _, e := range p.FileSystem.Entries {
		if e.Access != Write {
			continue
		}
		switch e.Path.Kind {
		case Root:
			to.addRoot("/")
		case Literal:
			if e.Path.Text == cwd {
				workspace = true
			} else {
				to.addRoot(e.Path.Text)
			}
		case ProjectRoots:
			at := join(cwd, e.Path.Subpath)
			switch {
			case !e.Path.HasSubpath || at == cwd:
				workspace = true
			default:
				to.addRoot(at)
			}
		case Tmpdir:
			to.ExcludeTmpdir = false
		case SlashTmp:
			to.ExcludeSlashTmp = false
		}
	}
	switch {
	case workspace:
		return to, nil
	case len(to.WritableRoots) > 0 || !to.ExcludeTmpdir || !to.ExcludeSlashTmp:
		return LegacyPolicy{}, ErrOutsideWorkspace
	default:
		return LegacyPolicy{Kind: LegacyReadOnly, Network: p.Network}, nil
	}
}

func (p *LegacyPolicy) addRoot(at string) {
	at = path.Clean(at)
	for _, root := range p.WritableRoots {
		if root == at {
			return
		}
	}
	p.WritableRoots = append(p.WritableRoots, at)
}
