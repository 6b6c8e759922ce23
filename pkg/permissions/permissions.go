// Package permissions reads the `sandbox` member of requests: which
// permission profile a client asks for, and whether that profile has to be
// enforced or asks for nothing.
//
// Every accepted shape is decoded strictly; what is not understood is an
// error, because to misread a policy is to ignore it.
package permissions

import (
	"errors"
	"fmt"

	"codex.internal/pkg/jsonwire"
)

// Kind is the kind of a permission profile.
type Kind int

// The kinds of profiles.
const (
	// Managed profiles are enforced by the server.
	Managed Kind = iota + 1
	// Disabled asks for no sandbox.
	Disabled
	// External says that somebody else confines the file system.
	External
)

// Context is a decoded `sandbox` member.
type Context struct {
	Kind Kind
	// FullWrite says that a managed profile lets everything be written.
	FullWrite bool
	// Network says that the profile lets the network be used.
	Network bool
}

// ConfinesFiles reports whether file system requests must be confined.
func (c *Context) ConfinesFiles() bool { return c.Kind == Managed && !c.FullWrite }

// ConfinesProcesses reports whether a process must be confined.
func (c *Context) ConfinesProcesses() bool {
	return c.Kind == Managed && (!c.FullWrite || !c.Network)
}

// member decodes one member of an object.
type member struct {
	name     string
	required bool
	read     func(r *jsonwire.Reader) error
}

// object reads an object of these members. Unless open, others are errors.
func object(r *jsonwire.Reader, open bool, members ...member) error {
	seen := make([]bool, len(members))
	err := r.Object("a map", func(name []byte) error {
		for i := range members {
			if members[i].name != string(name) {
				continue
			}
			if seen[i] {
				return fmt.Errorf("duplicate field `%s`", name)
			}
			seen[i] = true
			if !members[i].required {
				if null, err := r.Null(); err != nil || null {
					return err
				}
			}
			if err := members[i].read(r); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		if !open {
			return fmt.Errorf("unknown field `%s`", name)
		}
		return r.Skip()
	})
	for i := range members {
		if err == nil && members[i].required && !seen[i] {
			err = fmt.Errorf("missing field `%s`", members[i].name)
		}
	}
	return err
}

// tag finds the value of a union's tag, which may stand anywhere in it.
func tag(raw []byte, name string) (string, bool, error) {
	value, found := "", false
	r := jsonwire.NewReader(raw)
	err := r.Object("a map", func(n []byte) error {
		if string(n) != name || found {
			return r.Skip()
		}
		found = true
		var err error
		value, err = r.String()
		return err
	})
	return value, found, err
}

// has reports whether an object has a member.
func has(raw []byte, name string) (found bool, err error) {
	r := jsonwire.NewReader(raw)
	err = r.Object("a map", func(n []byte) error {
		found = found || string(n) == name
		return r.Skip()
	})
	return found, err
}

func skip(r *jsonwire.Reader) error { return r.Skip() }

// choice reads one of a few words.
func choice(to *string, words ...string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		s, err := r.String()
		if err != nil {
			return err
		}
		for _, w := range words {
			if s == w {
				*to = s
				return nil
			}
		}
		return unknown(s, words...)
	}
}

func unknown(got string, words ...string) error {
	const show = 64
	return fmt.Errorf("unknown variant `%s`, expected one of %q", got[:min(len(got), show)], words)
}

// DecodeContext decodes a `sandbox` member: an object with a permission
// profile, or of the older protocol with a sandbox policy. The error is for
// the client, with the code of invalid params.
func DecodeContext(raw []byte) (*Context, error) {
	if found, err := has(raw, "sandboxPolicy"); err != nil {
		return nil, err
	} else if found {
		return decodeOld(raw)
	}
	c := &Context{}
	level, boolean := "", func(r *jsonwire.Reader) error {
		_, err := r.Bool()
		return err
	}
	r := jsonwire.NewReader(raw)
	err := object(r, true,
		member{"permissions", true, c.profile},
		member{"cwd", false, func(r *jsonwire.Reader) error {
			_, err := r.StringBytes()
			return err
		}},
		member{"workspaceRoots", false, func(r *jsonwire.Reader) error {
			return r.Array("a sequence", func() error {
				_, err := r.StringBytes()
				return err
			})
		}},
		member{"windowsSandboxLevel", false, choice(&level, "disabled", "restricted-token", "elevated")},
		member{"windowsSandboxPrivateDesktop", false, boolean},
		member{"useLegacyLandlock", false, boolean})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// decodeOld decodes the sandbox object of the older protocol.
func decodeOld(raw []byte) (*Context, error) {
	c := &Context{}
	r := jsonwire.NewReader(raw)
	err := object(r, true,
		member{"sandboxPolicy", true, c.policy},
		member{"windowsSandboxLevel", false, skip},
		member{"windowsSandboxPrivateDesktop", false, skip},
		member{"useLegacyLandlock", false, skip},
		// An overlay only ever adds to what a policy grants.
		member{"additionalPermissions", false, skip})
	if err != nil {
		return nil, err
	}
	return c, r.End()
}

// policy reads a legacy SandboxPolicy.
func (c *Context) policy(r *jsonwire.Reader) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	kind, found, err := tag(raw, "type")
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("missing field `type`")
	}
	switch kind {
	case "danger-full-access":
		c.Kind, c.Network = Disabled, true
	case "external-sandbox":
		c.Kind = External
	case "read-only", "workspace-write":
		c.Kind = Managed
	default:
		return unknown(kind, "danger-full-access", "read-only", "external-sandbox", "workspace-write")
	}
	return nil
}

// profile reads a PermissionProfile: the tagged union, or the untagged older
// shape.
func (c *Context) profile(r *jsonwire.Reader) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	kind, tagged, err := tag(raw, "type")
	if err != nil {
		return err
	}
	network := "enabled"
	net := member{"network", true, choice(&network, "restricted", "enabled")}
	typ := member{"type", true, skip}
	inner := jsonwire.NewReader(raw)
	switch {
	case !tagged:
		// It is always a restricted profile, with whatever entries.
		c.Kind = Managed
		err = object(inner, false, member{"network", false, skip}, member{"file_system", false, skip})
		network = ""
	case kind == "managed":
		c.Kind = Managed
		err = object(inner, true, typ, net, member{"file_system", true, c.fileSystem})
	case kind == "disabled":
		c.Kind = Disabled
		err = object(inner, true, typ)
	case kind == "external":
		c.Kind = External
		err = object(inner, true, typ, net)
	default:
		return unknown(kind, "managed", "disabled", "external")
	}
	c.Network = network == "enabled"
	return err
}

// fileSystem reads the file system part of a managed profile.
func (c *Context) fileSystem(r *jsonwire.Reader) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	kind, found, err := tag(raw, "type")
	if err != nil {
		return err
	}
	inner := jsonwire.NewReader(raw)
	typ := member{"type", true, skip}
	switch {
	case !found:
		return errors.New("missing field `type`")
	case kind == "unrestricted":
		c.FullWrite = true
		return object(inner, true, typ)
	case kind == "restricted":
		return object(inner, true, typ, member{"entries", true, c.entries}, member{"glob_scan_max_depth", false, depth})
	default:
		return unknown(kind, "restricted", "unrestricted")
	}
}

func depth(r *jsonwire.Reader) error {
	n, err := r.Uint64()
	if err == nil && n == 0 {
		err = errors.New("invalid value: integer `0`, expected a nonzero usize")
	}
	return err
}

// entries reads the entries of a restricted profile. Everything may be
// written when the root may and nothing else is said that could narrow that.
func (c *Context) entries(r *jsonwire.Reader) error {
	root, others := false, false
	err := r.Array("a sequence", func() error {
		access, isRoot := "", false
		err := object(r, true,
			member{"path", true, func(r *jsonwire.Reader) (err error) {
				isRoot, err = entryPath(r)
				return err
			}},
			member{"access", true, choice(&access, "read", "write", "deny", "none")})
		switch {
		case isRoot && access == "write":
			root = true
		case access != "write":
			others = true
		}
		return err
	})
	c.FullWrite = root && !others
	return err
}

// entryPath reads the path of an entry, and reports whether it is the root.
func entryPath(r *jsonwire.Reader) (isRoot bool, err error) {
	raw, err := r.Raw()
	if err != nil {
		return false, err
	}
	kind, found, err := tag(raw, "type")
	if err != nil {
		return false, err
	}
	text := func(r *jsonwire.Reader) error {
		_, err := r.StringBytes()
		return err
	}
	typ := member{"type", true, skip}
	inner := jsonwire.NewReader(raw)
	switch {
	case !found:
		return false, errors.New("missing field `type`")
	case kind == "path":
		return false, object(inner, true, typ, member{"path", true, text})
	case kind == "glob_pattern":
		return false, object(inner, true, typ, member{"pattern", true, text})
	case kind == "special":
		err = object(inner, true, typ, member{"value", true, func(r *jsonwire.Reader) error {
			value, err := r.Raw()
			if err != nil {
				return err
			}
			special, found, err := tag(value, "kind")
			if err == nil && !found {
				err = errors.New("missing field `kind`")
			}
			isRoot = special == "root"
			return err
		}})
		return isRoot, err
	default:
		return false, unknown(kind, "path", "glob_pattern", "special")
	}
}
