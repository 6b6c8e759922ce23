package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
)

// policy sets the environment, directories, profile and scope from the options.
func (l *launch) policy() error {
	if err := l.environment(); err != nil {
		return err
	}
	if err := l.paths(); err != nil {
		return err
	}
	if err := l.profileOf(); err != nil {
		return err
	}
	l.grantTmpdir()
	return nil
}

// grantTmpdir sets l.prof. In it, $TMPDIR grants nothing if it is not a directory for temporary files of this user,
// because another user or a mistake may have set it. It is called again for each plan, because a missing directory
// may have become a link by then.
func (l *launch) grantTmpdir() {
	l.temporary = !filepath.IsAbs(l.scope.Tmpdir) || plan.IsTemporary(l.scope.Tmpdir)
	if l.prof = l.decoded; !l.temporary {
		l.prof.FileSystem.Entries = slices.DeleteFunc(slices.Clone(l.prof.FileSystem.Entries), func(e permissions.Entry) bool {
			return e.Path.Kind == permissions.Tmpdir && e.Access == permissions.Write
		})
	}
}

// environment reads the command's environment.
func (l *launch) environment() error {
	if l.envFD < 0 {
		l.env = os.Environ()
		return nil
	}
	text, err := inherited("environment", l.envFD, maxEnvironment)
	for kv := range strings.SplitSeq(string(text), "\x00") {
		if kv != "" {
			l.env = append(l.env, kv)
		}
	}
	return err
}

// variable returns the value of a variable in the command's environment.
func (l *launch) variable(name string) string {
	value := ""
	for _, kv := range l.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// paths makes the directories of the options absolute.
func (l *launch) paths() error {
	if l.policyCwd == "" {
		l.policyCwd = "."
	}
	if l.commandCwd == "" {
		l.commandCwd = l.policyCwd
	}
	for _, dir := range []*string{&l.policyCwd, &l.commandCwd} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("the directory %s: %w", *dir, err)
		}
		*dir = abs
	}
	// The launcher enters the command's directory inside the view. Only the canonical path is
	// certain to lead to it there.
	if real, err := permissions.EffectivePath(plan.HostView{}, l.commandCwd); err == nil {
		l.commandCwd = real
	}
	l.scope = permissions.Scope{Cwd: l.policyCwd, Tmpdir: l.variable("TMPDIR"), Within: l.within, WithinReads: l.helper}
	return nil
}

// profileOf returns the profile of the options.
func (l *launch) profileOf() error {
	switch {
	case l.readOnly || l.writable:
		var err error
		l.decoded, err = shortForm(l.options)
		return err
	case l.profileFD >= 0:
		text, err := inherited("profile", l.profileFD, maxProfile)
		if err != nil {
			return err
		}
		l.profile = string(text)
	case l.profile == "":
		return errNoProfile
	}
	var err error
	l.decoded, err = permissions.DecodeProfile([]byte(l.profile), permissions.NativePath(os.Getenv("HOME")))
	if err != nil {
		return &usageError{"invalid permission profile JSON: " + err.Error()}
	}
	return nil
}

// shortForm returns the profile of --read-only and --workspace-write.
func shortForm(o *options) (permissions.Profile, error) {
	p := permissions.Profile{Kind: permissions.Managed}
	if o.network {
		p.Network = permissions.NetworkEnabled
	}
	add := func(kind permissions.PathKind, text, sub string, access permissions.Access) {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permissions.Entry{
			Path:   permissions.Path{Kind: kind, Text: text, Subpath: sub, HasSubpath: sub != ""},
			Access: access,
		})
	}
	add(permissions.Root, "", "", permissions.Read)
	if !o.writable {
		return p, nil
	}
	add(permissions.ProjectRoots, "", "", permissions.Write)
	add(permissions.SlashTmp, "", "", permissions.Write)
	add(permissions.Tmpdir, "", "", permissions.Write)
	for _, root := range o.roots {
		abs, err := filepath.Abs(root)
		if err != nil {
			return p, fmt.Errorf("the writable root %s: %w", root, err)
		}
		add(permissions.Literal, abs, "", permissions.Write)
	}
	return p, nil
}

func (l *launch) makePlan() error {
	if l.prof.Kind == 0 {
		return errors.New("no profile is given") // an empty profile would allow everything
	}
	if l.legacyLandlock && permissions.NeedsDirectEnforcement(l.prof, l.scope, plan.HostView{}) {
		return errDirect
	}
	var made *plan.Plan
	var err error
	if l.reading {
		made, err = plan.MakeReading(l.prof, l.scope, plan.HostView{})
	} else {
		made, err = plan.Make(l.prof, l.scope, plan.HostView{}, l.proxied)
	}
	if err != nil {
		return err
	}
	made.NoProc = l.noProc
	// The file system helper has no network code, and making a network takes longer than all other
	// steps together.
	made.SharedNetwork = l.helper
	l.plan = made
	return nil
}
