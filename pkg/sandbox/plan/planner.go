package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// effective is permissions.EffectivePath, and also returns the type of the file at the end of the
// path. A symbolic link there is a dangling one.
func (p *planner) effective(name string) (string, permissions.Info, error) {
	real, err := permissions.EffectivePath(p.view, name)
	if err != nil {
		return "", permissions.Info{}, fmt.Errorf("resolve %s: %w", name, err)
	}
	info, err := p.view.Lstat(real)
	if err != nil {
		return "", info, fmt.Errorf("look at %s: %w", real, err)
	}
	return real, info, nil
}

// exists reports whether there is a file that can be mounted.
func exists(info permissions.Info) bool {
	return info.Type != permissions.Missing && info.Type != permissions.Symlink
}

// prepare collects the writable roots and the denied paths.
func (p *planner) prepare(policy *permissions.Policy) error {
	var roots []permissions.WritableRoot
	if !p.reading || !policy.FullRead() {
		roots = policy.WritableRoots()
	}
	for _, w := range roots {
		p.repository = append(p.repository, w.Repository...)
		for _, r := range w.ReadOnly {
			if r.Default && !permissions.Within(r.Path, w.Path) {
				p.repository = append(p.repository, r.Path) // the target of its .git file
			}
			if r.Directory {
				real, _ := permissions.EffectivePath(p.view, r.Path)
				p.directories = append(p.directories, real)
			}
		}
		real, info, err := p.effective(w.Path)
		if err != nil {
			return err
		}
		p.plan.ListDev = p.plan.ListDev || real == "/dev"
		if !exists(info) || p.placeholder(real) {
			continue
		}
		p.writable = append(p.writable, writableRoot{w, info})
	}
	slices.SortStableFunc(p.writable, func(a, b writableRoot) int { return shallowFirst(a.Effective, b.Effective) })
	for _, u := range policy.UnreadablePaths() {
		if err := p.deny(u); err != nil {
			return err
		}
	}
	p.explicit = slices.Clone(p.denied)
	if err := p.refuseRedirected(); err != nil {
		return err
	}
	if err := p.refuseLinks(policy); err != nil {
		return err
	}
	p.writable = slices.DeleteFunc(p.writable, func(w writableRoot) bool { return ownDevice(w.Effective) })
	for _, root := range policy.PatternRoots() {
		// A path that this user cannot access has no matches, and the command cannot access it
		// either.
		if link, _ := p.writableLink(root, p.replaceable); link != "" {
			return fmt.Errorf("cannot enforce sandbox deny-read path %s because it crosses writable symlink %s", root, link)
		}
	}
	matches, err := policy.ExpandGlobs()
	if err != nil {
		return err
	}
	for _, m := range matches {
		if info, err := p.view.Lstat(m); err == nil && info.Type == permissions.Missing {
			return &inconsistent{m} // it existed when the pattern was expanded
		}
		if p.halfMade(m) {
			continue
		}
		// A link in a circle leads nowhere, and any user may have made it.
		if err := p.denyTarget(m); err != nil && !errors.Is(err, permissions.ErrTooManyLinks) {
			return err
		}
	}
	if err := p.denyAliases(policy); err != nil {
		return err
	}
	slices.SortFunc(p.denied, shallowFirst)
	p.denied = slices.Compact(p.denied)
	if dev := path.Dir(nullDevice); slices.Contains(p.denied, dev) {
		return errNeeded(dev)
	}
	for _, w := range p.writable {
		p.named = append(p.named, w.Effective)
	}
	// A pattern may match a path that an entry grants.
	p.writable = slices.DeleteFunc(p.writable, func(w writableRoot) bool { return slices.Contains(p.denied, w.Effective) })
	for _, w := range p.writable {
		p.reopened = append(p.reopened, w.Effective)
	}
	return nil
}

const nullDevice = "/dev/null"

// errNeeded is the error of an entry that denies a path that every sandbox needs.
func errNeeded(name string) error {
	return fmt.Errorf("cannot enforce sandbox deny-read path %[1]s: every sandbox needs %[1]s; deny other paths below /dev, or none", name)
}

// ownDevice reports whether a path is /dev or one of its files that every view has. They can be
// read and written in the view, whatever an entry says. So no mount is made: a mount of the host's
// file would give no access to the device.
func ownDevice(real string) bool {
	name, ok := strings.CutPrefix(real, "/dev/")
	return real == "/dev" || ok && (name == "pts" || name == "ptmx" || slices.Contains(Devices, name))
}

// placeholder reports whether a path is only there because another sandbox masks
// it. Scenario: /w/gone may be written and is missing, and /w/gone/.agents is denied.
// One sandbox puts a placeholder at /w/gone. If the next one took that for the
// writable root, its command could change the mode of the placeholder, which then
// stays (seed 900125 of the campaign).
func (p *planner) placeholder(name string) bool {
	host, ok := p.host.(interface{ IsPlaceholder(name string) bool })
	return ok && host.IsPlaceholder(name)
}

// TempPrefix is the beginning of the names under which placeholders are created before they are
// moved into place.
const TempPrefix = ".codex-cover-"

// halfMade reports whether a matched path is a placeholder that another sandbox is just creating:
// it is empty, belongs to this user, and will soon be renamed. Masking it would hide nothing, and
// bwrap would create its own directory at the old name (seed 41004 of the campaign, with the
// pattern t/a/*).
func (p *planner) halfMade(at string) bool {
	if !strings.HasPrefix(path.Base(at), TempPrefix) {
		return false
	}
	info, err := p.host.Lstat(at)
	switch {
	case err != nil || info.Type != permissions.Missing && !info.Mine:
		return false
	case info.Type == permissions.Dir:
		full := errors.New("it is not empty")
		return p.host.ReadDir(at, func(string, permissions.FileType) error { return full }) == nil
	}
	return info.Type == permissions.Missing || info.Type == permissions.Regular && info.Size == 0
}

// refuseRedirected refuses a writable root behind a link that is in another writable root. A
// command could have put the link there, so that the next command may write to the link's target.
// Or it could replace the link, so that users of that path get another workspace with the command's
// own .git. The link may exist only for a moment.
func (p *planner) refuseRedirected() error {
	for i, w := range p.writable {
		others := func(f func(o *writableRoot) bool) bool {
			for j := range p.writable {
				if j != i && f(&p.writable[j]) {
					return true
				}
			}
			return false
		}
		within := others(func(o *writableRoot) bool { return permissions.Within(w.Effective, o.Effective) })
		only := whichever
		if within {
			only = p.replaceable
		}
		link, err := p.writableLink(w.Path, only)
		if err != nil {
			return err
		}
		if link == "" && !within && others(func(o *writableRoot) bool {
			return permissions.Within(w.Path, o.Path) || permissions.Within(w.Path, o.Effective)
		}) {
			link = w.Path
		}
		if link != "" {
			return &RedirectedError{Path: w.Path, Link: link, Real: w.Effective}
		}
	}
	return nil
}

// RedirectedError means that a writable root leads through a symbolic link that a command of the
// same policy could have replaced.
type RedirectedError struct {
	Path string // as the entry spells it
	Link string
	Real string // where the path leads now
}

func (e *RedirectedError) Error() string {
	return fmt.Sprintf("cannot enforce sandbox writable path %s because it crosses writable symlink %s; if you mean the directory to which it leads now, give %s",
		e.Path, e.Link, e.Real)
}

// refuseLinks refuses a read-only path in a writable root that leads through a link
// which the user can replace. Scenario: / may be written, and /w/l, a link to /w/f,
// is read-only. The plan protects /w/f. But if a command puts another link at /w/l,
// the next command may change /w/f (seed 900003 of the campaign).
func (p *planner) refuseLinks(policy *permissions.Policy) error {
	if p.reading {
		return nil
	}
	for _, name := range policy.ReadablePaths() {
		if policy.Access(name) != permissions.Read {
			continue
		}
		// For paths that this user cannot access, the resolvable part counts.
		real, _ := permissions.EffectivePath(p.view, name)
		if p.owner(real) < 0 {
			// Scenario: /w may be written, and /l, a link to /w/m, is read-only. /w/m is missing, and a command makes it.
			if info, err := p.view.Lstat(real); err == nil && p.comesInto(real, info) != "" {
				p.repository = append(p.repository, name)
			}
			continue
		}
		link, err := p.writableLink(name, p.replaceable)
		if err != nil {
			return err
		}
		if link != "" {
			return fmt.Errorf("cannot enforce sandbox read-only path %s because it crosses writable symlink %s", name, link)
		}
	}
	return nil
}

// replaceable reports whether the user can replace a link, or a directory above it in a writable root. With a
// writable / the links of the system are in it, too.
func (p *planner) replaceable(link string) bool {
	host, ok := p.host.(interface{ CanReplace(name string) bool })
	for at := link; ok && p.owner(at) >= 0 && !p.isWritable(at); at = path.Dir(at) {
		if host.CanReplace(at) {
			return true
		}
	}
	return !ok
}

// redirected reports whether a path in a writable root leads elsewhere. The path then contains a
// link, or did a moment ago.
func (p *planner) redirected(name, real string) bool {
	return name != real && slices.ContainsFunc(p.writable, func(w writableRoot) bool {
		return permissions.Within(name, w.Effective)
	})
}

// deny records a denied path. It refuses a path that is reached through a link that the command
// could replace.
func (p *planner) deny(name string) error {
	if link, err := p.writableLink(name, whichever); err != nil {
		return err
	} else if link != "" {
		return fmt.Errorf("cannot enforce sandbox deny-read path %s because it crosses writable symlink %s", name, link)
	}
	real, info, err := p.effective(name)
	if err == nil && name == nullDevice {
		err = errNeeded(name)
	}
	if err != nil {
		return err
	}
	if p.redirected(name, real) {
		return fmt.Errorf("cannot enforce sandbox deny-read path %s because it crosses writable symlink %s", name, name)
	}
	// Use the result that was checked, because a second lookup may see a link.
	p.noteDenied(name, real, info)
	return nil
}

// denyTarget records where a denied path leads, unless it leads nowhere.
func (p *planner) denyTarget(name string) error {
	real, info, err := p.effective(name)
	if err == nil {
		p.noteDenied(name, real, info)
	}
	return err
}

// noteDenied notes a denied path and where it leads. There is nothing to hide in /dev/null. Scenario: *.env is denied, and a
// workspace has .env -> /dev/null, so that no program reads settings there.
func (p *planner) noteDenied(name, real string, info permissions.Info) {
	if real == nullDevice {
		return
	}
	if end := p.comesInto(real, info); end != "" {
		name, real, info = end, end, permissions.Info{}
	}
	if info.Type != permissions.Symlink {
		p.denied = append(p.denied, real)
	}
	if !exists(info) {
		p.absent = append(p.absent, name)
	}
}

// absences records the denied paths that lead nowhere and that no mask hides. A file system that is
// mounted above such a path may hide the path from the plan, and be unmounted before the view is
// made. The view would then show the denied path.
func (p *planner) absences() error {
	slices.Sort(p.absent)
	for _, name := range slices.Compact(p.absent) {
		real, _, err := p.effective(name)
		if err != nil {
			return err
		}
		// A view has a /dev and a /proc of its own.
		if p.owner(real) < 0 && !permissions.Within(real, "/dev") && !permissions.Within(real, "/proc") {
			p.plan.Absent = append(p.plan.Absent, name)
		}
	}
	return nil
}

// writableLink returns the first symbolic link on a path that lies in a writable root, whether the
// path or another link contains it. It returns "" if there is none. A directory that a link's
// target leaves by ".." counts as a link. only decides which links count. A link that the path
// itself contains is returned in the path's spelling. Scenario: /w may be written, /w/m leads to
// /p, and /l leads to /w/m. A command that puts another link at /w/m decides where a path below /l
// leads for the next command.
func (p *planner) writableLink(name string, only func(link string) bool) (link string, err error) {
	_, _, err = permissions.FollowLinks(p.view, name, func(at string) {
		if link == "" && p.owner(at) >= 0 && !p.isWritable(at) && !p.keptLink(at) && only(at) {
			link = at
		}
	})
	switch {
	case link != "":
		return p.spelled(name, link), nil
	case err == nil, errors.Is(err, permissions.ErrTooManyLinks):
		return "", nil
	}
	return "", fmt.Errorf("resolve %s: %w", name, err)
}

// keptLink reports whether a path without links above its last component is a symbolic link with a
// protected name, such as the .git of a workspace whose repository is elsewhere. No sandbox lets a
// command create or replace it, so the user has created it, and it may be followed.
func (p *planner) keptLink(at string) bool {
	i := slices.IndexFunc(p.writable, func(w writableRoot) bool {
		return path.Dir(at) == w.Effective && slices.Contains(w.Names, path.Base(at))
	})
	if i < 0 {
		return false
	}
	info, err := p.view.Lstat(at)
	return err == nil && info.Type == permissions.Symlink && !p.foreignName(&p.writable[i], at)
}

// crossesKept reports whether a path contains such a link.
func (p *planner) crossesKept(name string) bool {
	for at := range prefixes(name) {
		if p.keptLink(at) {
			return true
		}
	}
	return false
}

// whichever is an argument of writableLink: every link counts.
func whichever(string) bool { return true }

// spelled returns a link in the spelling of the path that contains it, or otherwise in the link's
// own spelling.
func (p *planner) spelled(name, link string) string {
	for at := range prefixes(name) {
		if info, err := p.view.Lstat(at); err != nil || info.Type != permissions.Symlink {
			continue
		}
		if dir, err := permissions.EffectivePath(p.view, path.Dir(at)); err == nil && path.Join(dir, path.Base(at)) == link {
			return at
		}
	}
	return link
}

// prefixes yields every ancestor of an absolute path below the root, the shortest first, and then
// the path itself.
func prefixes(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := 1; i <= len(name); i++ {
			if (i == len(name) || name[i] == '/') && i > 1 && !yield(name[:i]) {
				return
			}
		}
	}
}

func (p *planner) isWritable(real string) bool {
	return slices.ContainsFunc(p.writable, func(w writableRoot) bool { return w.Effective == real })
}

// owner returns the deepest writable root that contains a path, or -1.
func (p *planner) owner(name string) int {
	found := -1
	for i, w := range p.writable {
		if permissions.Within(name, w.Effective) {
			found = i
		}
	}
	return found
}
