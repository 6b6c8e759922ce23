// Package permissions implements permission profiles, by which a client restricts a
// command or a file system request (docs/spec/sandbox.md §1 to §4).
//
// A profile arrives as JSON, in one of several generations of shapes, and is
// resolved against a working directory and a view of the file system:
//
//	profile, err := permissions.DecodeProfile(text, permissions.NativePath(home))
//	policy := permissions.Resolve(profile.FileSystem, permissions.Scope{Cwd: cwd}, view)
//	policy.CanWrite("/srv/project/main.go")
//	policy.WritableRoots() // what a sandbox has to mount
//
// Every shape is decoded strictly: an unknown member is an error, because ignoring it
// could weaken the policy. The package does not confine, and accesses files only
// through the View. Values are safe for concurrent use except a Policy.
package permissions

import (
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// Context is a decoded `sandbox` member of a request
// (docs/spec/sandbox.md §1.1).
type Context struct {
	// Profile is the permission profile. A sandbox policy, the oldest shape, depends on a working
	// directory. For this shape the Profile here is incomplete: it is enough for ConfinesFiles,
	// ConfinesProcesses and NeedsCwd. ProfileFor returns the complete one.
	Profile Profile
	// Legacy is the policy of the oldest shape, and Additional is the overlay over it. Each is nil
	// if absent.
	Legacy     *LegacyPolicy
	Additional *AdditionalProfile

	Cwd            string   // as it was written, a URI; "" if absent
	WorkspaceRoots []string // as they were written, URIs

	UseLegacyLandlock            bool
	WindowsSandboxLevel          string // disabled, restricted-token, elevated or mxc; has no effect on Linux
	WindowsSandboxPrivateDesktop bool
}

// ConfinesFiles reports whether file system requests must be confined.
func (c *Context) ConfinesFiles() bool { return c.Profile.ConfinesFiles() }

// ConfinesProcesses reports whether a process must be confined.
func (c *Context) ConfinesProcesses() bool { return c.Profile.ConfinesProcesses() }

// ProfileFor returns the profile for a working directory. Only the oldest shape depends on the
// directory.
func (c *Context) ProfileFor(cwd string, view View) Profile {
	if c.Legacy == nil {
		return c.Profile
	}
	p := c.Legacy.ToProfile(cwd, view)
	if c.Additional != nil {
		p = c.Additional.Apply(p)
	}
	return p
}

// noView is an empty file system.
type noView struct{}

func (noView) Lstat(string) (Info, error)                         { return Info{}, nil }
func (noView) Readlink(string) (string, error)                    { return "", errNotThere }
func (noView) ReadFile(string, int) ([]byte, error)               { return nil, errNotThere }
func (noView) ReadDir(string, func(string, FileType) error) error { return errNotThere }

// DecodeContext decodes a `sandbox` member: an object with a permission profile or, in the older
// protocol, with a sandbox policy. The error is for the client. A *PathError has its own error
// code.
func DecodeContext(raw []byte, decode PathDecoder) (*Context, error) {
	c := &Context{WindowsSandboxLevel: "disabled"}
	d := decoder{decode: decode}
	old, err := find(raw, "sandboxPolicy")
	if err != nil {
		return nil, err
	}
	if old != nil {
		c.Legacy = &LegacyPolicy{}
	}
	var policy *Context
	r := jsonwire.NewReader(raw)
	err = bare(r.Struct("a map", jsonwire.FieldsFunc(func(j *jsonwire.Codec) {
		jsonwire.Choice(j, "windowsSandboxLevel", orNull, &c.WindowsSandboxLevel, windowsLevels)
		j.Bool("windowsSandboxPrivateDesktop", orNull, &c.WindowsSandboxPrivateDesktop)
		j.Bool("useLegacyLandlock", orNull, &c.UseLegacyLandlock)
		if c.Legacy != nil {
			j.Read("sandboxPolicy", need, d.legacy(c.Legacy))
			j.Read("additionalPermissions", orNull, func(r *jsonwire.Reader) error {
				c.Additional = &AdditionalProfile{}
				return d.additional(c.Additional)(r)
			})
			return
		}
		j.Read("permissions", need, func(r *jsonwire.Reader) (err error) {
			c.Profile, err = readProfile(r, decode)
			return err
		})
		c.directories(j)
		j.Read("policyContext", orNull, func(r *jsonwire.Reader) error {
			policy = &Context{}
			return r.Struct("a map", jsonwire.FieldsFunc(policy.directories))
		})
	})))
	if err == nil {
		err = r.End()
	}
	if policy != nil {
		// The policy's members replace those of the same names in the context.
		c.Cwd, c.WorkspaceRoots = policy.Cwd, policy.WorkspaceRoots
	}
	if err == nil {
		err = c.check(d.bad)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// check completes a context that was read.
func (c *Context) check(bad error) error {
	if bad != nil {
		return bad
	}
	c.Profile = c.ProfileFor("", noView{})
	relative := 0
	for _, e := range c.Profile.FileSystem.Entries {
		if e.Path.Kind == ProjectRoots || e.Path.Kind == Glob || e.Path.isGit() {
			relative++
		}
	}
	if n := len(c.Profile.FileSystem.Entries) + relative*len(c.WorkspaceRoots); n > maxExpanded {
		return fmt.Errorf("more than %d file system entries for all workspace roots", maxExpanded)
	}
	return nil
}

// WindowsMXC is the level of Windows's own sandbox. A process whose client asks for it cannot run here.
const WindowsMXC = "mxc"

var windowsLevels = []string{"disabled", "restricted-token", "elevated", WindowsMXC}

// directories lists the members that hold the directories of the context.
func (c *Context) directories(j *jsonwire.Codec) {
	j.Read("cwd", orNull, text(&c.Cwd))
	j.Read("workspaceRoots", orNull, roots(&c.WorkspaceRoots))
}

// roots reads a list of path URIs.
func roots(to *[]string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		return r.Array("a sequence", func() error {
			if len(*to) >= maxRoots {
				return fmt.Errorf("more than %d workspace roots", maxRoots)
			}
			var root string
			err := text(&root)(r)
			*to = append(*to, root)
			return err
		})
	}
}
