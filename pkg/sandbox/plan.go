// Package sandbox turns a permission policy into a plan that a sandbox can
// carry out, tells whether a command was denied something, and starts the
// launcher. It makes no mounts itself: the launcher does.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// MountKind is what a Mount puts at its target.
type MountKind uint8

// The kinds of mounts.
const (
	// BindReadOnly shows Source, which may not be changed through it.
	BindReadOnly MountKind = iota + 1
	// BindWritable shows Source, which may be changed through it.
	BindWritable
	// EmptyDir is an empty, unchangeable directory with the permission bits
	// Mode and with Holes in it.
	EmptyDir
	// EmptyFile is an empty, unchangeable file with the permission bits Mode.
	EmptyFile
	// Link is a symbolic link to Source, in an empty root.
	Link
)

// Mount is one step of building a view.
type Mount struct {
	Kind   MountKind
	Source string // canonical path on the host, for the binds; where a Link leads
	Target string
	Mode   uint32
	Holes  []Hole // what an EmptyDir holds, parents first
	File   bool   // the source of a bind is not a directory
	// Cover says that the target is missing on the host, or that it may be
	// what another sandbox has put there because it was missing.
	Cover bool
	// Pin says that a BindWritable is there to keep the name of a directory
	// of a writable root: what is mounted on cannot be renamed.
	Pin bool
}

// UndoName is a name that must not be created, and the directory that the
// plan saw it missing in.
type UndoName struct {
	Path     string
	Dev, Ino uint64
}

// Hole is a place in an EmptyDir for another mount.
type Hole struct {
	Path string // relative
	File bool
}

// RootKind is what the view begins with.
type RootKind uint8

// The kinds of roots.
const (
	// RootReadOnly is the host's root, unchangeable.
	RootReadOnly RootKind = iota
	// RootWritable is the host's root as it is.
	RootWritable
	// RootEmpty is a root in which there is only what is mounted.
	RootEmpty
)

// Network says what a command may do with the network.
type Network uint8

// The modes of the network.
const (
	NetworkOff Network = iota
	NetworkOn
	// NetworkProxy reaches the managed proxies and nothing else.
	NetworkProxy
)

// Plan is everything that a sandbox has to enforce. The same plan is given to
// every backend, which enforces all of it or refuses.
type Plan struct {
	// Confined says that there is a view at all: the file system is
	// restricted, or the network is proxied.
	Confined bool
	Root     RootKind
	Mounts   []Mount
	// Undo are names that must not be created but cannot be covered: they
	// are removed as soon as they appear.
	Undo []UndoName
	// Absent are denied paths that led nowhere when the plan was made, outside
	// of every writable root: nothing masks them. The view must not have them.
	Absent  []string
	Network Network
	// NoProc leaves /proc empty.
	NoProc bool
	// SharedNetwork leaves out the network namespace: the filter alone keeps
	// the command from the network.
	SharedNetwork bool
	// Unfiltered leaves system calls alone: the profile asks for no sandbox.
	Unfiltered bool

	// Policy is what the plan was made of, for backends without mounts.
	Policy *permissions.Policy
}

// Devices are the devices of a view's /dev.
var Devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// HostOwned are the parts of /proc in which the kernel keeps settings that
// belong to the host's root, whoever that is inside. A view has them
// read-only.
var HostOwned = []string{
	"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "latency_stats", "lock_stat", "mtrr", "scsi", "slabinfo", "sys", "sysrq-trigger", "timer_stats", "tty", "xen",
}

// protectedNames are the names of metadata that is protected directly below
// writable roots (section 2.1).
var protectedNames = []string{".git", ".agents", ".codex"}

// OwnNetwork reports whether the command gets a network of its own.
func (plan *Plan) OwnNetwork() bool { return plan.Network != NetworkOn && !plan.SharedNetwork }

// planner makes the mounts of a plan (section 7.1).
type planner struct {
	view     permissions.View
	plan     *Plan
	reading  bool           // nothing is to be written
	writable []writableRoot // shallow first
	spelled  []string       // every spelling of a writable root that exists
	denied   []string       // effective paths, sorted
	absent   []string       // denied paths that lead nowhere
	explicit []string       // those of them that entries name, not patterns
	named    []string       // effective paths that entries name, and that a pattern may have denied
	reopened []string       // readable or writable effective paths
	// repository are the paths to which the .git of writable roots lead. Those
	// of roots that are missing, or that a pattern denies, are among them: the
	// root may be there for the next command, and for its user's git.
	repository []string
}

type writableRoot struct {
	permissions.WritableRoot
	info permissions.Info
}

// Make makes the plan for a profile. The scope says what the profile's
// symbolic paths mean; the view is the host's file system. An error means
// that the profile cannot be enforced.
func Make(profile permissions.Profile, scope permissions.Scope, view permissions.View, proxied bool) (*Plan, error) {
	return makePlan(profile, scope, view, proxied, false)
}

// MakeReading makes the plan for a command that only reads: what the profile
// lets be written is read-only. Links that commands of the same profile can
// have made lead nowhere here either. Without them, an entry "/w/d: write"
// would let such a command put a link to / at /w/d, and have the next request
// read what that shows.
func MakeReading(profile permissions.Profile, scope permissions.Scope, view permissions.View) (*Plan, error) {
	return makePlan(profile, scope, view, false, true)
}

func makePlan(profile permissions.Profile, scope permissions.Scope, view permissions.View, proxied, reading bool) (*Plan, error) {
	plan := &Plan{Unfiltered: profile.Kind == permissions.Disabled}
	switch {
	case proxied:
		plan.Network, plan.Unfiltered = NetworkProxy, false
	case profile.Network == permissions.NetworkEnabled || profile.Kind == permissions.Disabled:
		plan.Network = NetworkOn
	}
	if profile.FullWrite() && !reading {
		plan.Confined, plan.Root = proxied, RootWritable
		if !proxied {
			return plan, nil
		}
		p := &planner{view: view, plan: plan, writable: []writableRoot{{WritableRoot: permissions.WritableRoot{Path: "/", Effective: "/"}}}}
		kernel, err := p.kernelMounts()
		for _, g := range kernel {
			p.protect(g)
		}
		return plan, err
	}
	plan.Confined = true
	policy := permissions.Resolve(profile.FileSystem, scope, view)
	plan.Policy = policy
	p := &planner{view: view, plan: plan, reading: reading}
	if err := p.prepare(policy); err != nil {
		return nil, err
	}
	if err := p.root(policy); err != nil {
		return nil, err
	}
	if err := p.mounts(); err != nil {
		return nil, err
	}
	return plan, nil
}

// below reports whether child is parent or lies below it.
func below(child, parent string) bool {
	return child == parent || parent == "/" || strings.HasPrefix(child, parent) && child[len(parent)] == '/'
}

func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

func shallowFirst(a, b string) int {
	return cmp.Or(cmp.Compare(depth(a), depth(b)), strings.Compare(a, b))
}

// effective is permissions.EffectivePath with what exists at the end of it: a
// symbolic link is one that leads nowhere.
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

// exists reports whether there is something that can be mounted.
func exists(info permissions.Info) bool {
	return info.Type != permissions.Missing && info.Type != permissions.Symlink
}

// prepare collects the writable roots and what is denied.
func (p *planner) prepare(policy *permissions.Policy) error {
	var roots []permissions.WritableRoot
	if !p.reading || !policy.FullRead() {
		roots = policy.WritableRoots()
	}
	for _, w := range roots {
		p.repository = append(p.repository, w.Repository...)
		for _, r := range w.ReadOnly {
			if r.Default && !below(r.Path, w.Path) {
				p.repository = append(p.repository, r.Path) // what its .git file points to
			}
		}
		_, info, err := p.effective(w.Path)
		if err != nil {
			return err
		}
		if !exists(info) {
			continue
		}
		p.writable = append(p.writable, writableRoot{w, info})
		p.spelled = append(p.spelled, w.Path, w.Effective)
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
	matches, err := policy.ExpandGlobs()
	if err != nil {
		return err
	}
	for _, m := range matches {
		// A link in a circle leads nowhere, and anybody may have made it.
		if err := p.denyTarget(m); err != nil && !errors.Is(err, permissions.ErrTooManyLinks) {
			return err
		}
	}
	slices.SortFunc(p.denied, shallowFirst)
	p.denied = slices.Compact(p.denied)
	for _, w := range p.writable {
		p.named = append(p.named, w.Effective)
	}
	// A pattern may match what an entry grants.
	p.writable = slices.DeleteFunc(p.writable, func(w writableRoot) bool { return slices.Contains(p.denied, w.Effective) })
	for _, w := range p.writable {
		p.reopened = append(p.reopened, w.Effective)
	}
	return nil
}

// refuseRedirected refuses a writable root behind a link that lies in another
// one. A command could have put the link there, so that the next one may write
// where it leads; or it could replace the link, so that the workspace is
// another one, with a .git of the command's, for whoever goes there by that
// path. The link may be there only now and then.
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
		link, err := p.writableLink(w.Path)
		if err != nil {
			return err
		}
		within := others(func(o *writableRoot) bool { return below(w.Effective, o.Effective) })
		if within && link != "" && !p.replaceable(link) {
			continue
		}
		if link == "" && !within && others(func(o *writableRoot) bool { return below(w.Path, o.Path) || below(w.Path, o.Effective) }) {
			link = w.Path
		}
		if link != "" {
			return fmt.Errorf("cannot enforce sandbox writable path %s because it crosses writable symlink %s", w.Path, link)
		}
	}
	return nil
}

// replaceable reports whether the user can put something else in the place of
// a link. With a writable / the links of the system are in it, too.
func (p *planner) replaceable(link string) bool {
	host, ok := p.view.(interface{ CanReplace(name string) bool })
	return !ok || host.CanReplace(link)
}

// redirected reports whether a path that lies in a writable root leads
// elsewhere: then a link is on the way, or was a moment ago.
func (p *planner) redirected(name, real string) bool {
	return name != real && slices.ContainsFunc(p.writable, func(w writableRoot) bool {
		return below(name, w.Effective)
	})
}

// deny notes a denied path, which must not be reached through a link that the
// command could replace.
func (p *planner) deny(name string) error {
	if link, err := p.writableLink(name); err != nil {
		return err
	} else if link != "" {
		return fmt.Errorf("cannot enforce sandbox deny-read path %s because it crosses writable symlink %s", name, link)
	}
	real, info, err := p.effective(name)
	if err != nil {
		return err
	}
	if p.redirected(name, real) {
		return fmt.Errorf("cannot enforce sandbox deny-read path %s because it crosses writable symlink %s", name, name)
	}
	// What has been checked is what counts: the next look may see a link.
	p.noteDenied(name, real, info)
	return nil
}

// denyTarget notes where a denied path leads, unless that is nowhere.
func (p *planner) denyTarget(name string) error {
	real, info, err := p.effective(name)
	if err == nil {
		p.noteDenied(name, real, info)
	}
	return err
}

func (p *planner) noteDenied(name, real string, info permissions.Info) {
	if info.Type != permissions.Symlink {
		p.denied = append(p.denied, real)
	}
	if !exists(info) {
		p.absent = append(p.absent, name)
	}
}

// absences notes the denied paths that lead nowhere and are covered by nothing.
// A file system that is mounted above one may hide it from the plan, and be
// unmounted before the view is made: then the view would show what is denied.
func (p *planner) absences() error {
	slices.Sort(p.absent)
	for _, name := range slices.Compact(p.absent) {
		real, _, err := p.effective(name)
		if err != nil {
			return err
		}
		// A view has a /dev and a /proc of its own.
		if p.owner(real) < 0 && !below(real, "/dev") && !below(real, "/proc") {
			p.plan.Absent = append(p.plan.Absent, name)
		}
	}
	return nil
}

// writableLink returns the first component of name that is a symbolic link
// which lies in a writable root; "" if there is none.
func (p *planner) writableLink(name string) (string, error) {
	for at := range prefixes(name) {
		info, err := p.view.Lstat(at)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", at, err)
		}
		if info.Type == permissions.Missing {
			return "", nil
		}
		if info.Type != permissions.Symlink {
			continue
		}
		for _, root := range p.spelled {
			if at != root && below(at, root) {
				return at, nil
			}
		}
		// What the link leads to may be writable as well.
		if real, err := permissions.EffectivePath(p.view, path.Dir(at)); err == nil {
			for _, w := range p.writable {
				if below(real, w.Effective) && at != w.Path {
					return at, nil
				}
			}
		}
	}
	return "", nil
}

// prefixes yields every ancestor of an absolute path below the root, shallow
// first, and the path itself.
func prefixes(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := 1; i <= len(name); i++ {
			if (i == len(name) || name[i] == '/') && i > 1 && !yield(name[:i]) {
				return
			}
		}
	}
}

// root chooses what the view begins with, and shows what can be read.
func (p *planner) root(policy *permissions.Policy) error {
	readable, err := p.readable(policy)
	if err != nil {
		return err
	}
	if p.reading {
		// Links have been checked.
		p.writable, p.spelled, p.repository = nil, nil, nil
	}
	if p.isWritable("/") {
		p.plan.Root = RootWritable
		p.addReopened(readable)
		return nil
	}
	if policy.FullRead() || slices.ContainsFunc(readable, func(r readablePath) bool { return r.name == "/" }) {
		p.addReopened(readable)
		return nil
	}
	p.plan.Root = RootEmpty
	var links []Mount
	for _, r := range readable {
		links = p.links(links, r.name)
		if p.isWritable(r.real) || slices.Contains(p.denied, r.real) {
			continue
		}
		p.plan.Mounts = append(p.plan.Mounts, Mount{
			Kind: BindReadOnly, Source: r.real, Target: r.real, File: r.info.Type != permissions.Dir,
		})
	}
	for _, name := range policy.ReadablePaths() {
		// Of two spellings of a path, the readable roots have one.
		links = p.links(links, name)
	}
	byTarget := func(a, b Mount) int { return strings.Compare(a.Target, b.Target) }
	same := func(a, b Mount) bool { return a.Target == b.Target }
	slices.SortFunc(p.plan.Mounts, byTarget)
	p.plan.Mounts = slices.CompactFunc(p.plan.Mounts, same)
	slices.SortFunc(links, byTarget)
	shown := p.plan.Mounts
	for _, l := range slices.CompactFunc(links, same) {
		// What is mounted shows its own links, and so do /dev and /proc.
		if p.owner(l.Target) < 0 && !below(l.Target, "/dev") && !below(l.Target, "/proc") &&
			!slices.ContainsFunc(shown, func(m Mount) bool { return below(l.Target, m.Target) }) {
			p.plan.Mounts = append(p.plan.Mounts, l)
		}
	}
	p.addReopened(readable)
	return nil
}

// readablePath is a path of an entry, and what it was when it was looked at.
type readablePath struct {
	name, real string
	info       permissions.Info
}

// readable returns what may be read and exists. Each path is looked at once,
// and writable roots are those that have been checked: a command of another
// sandbox that exchanges a directory with a link could otherwise pass the
// checks with the directory, and have what the link leads to shown.
func (p *planner) readable(policy *permissions.Policy) (list []readablePath, err error) {
	roots := policy.ReadableRoots()
	for _, r := range roots {
		if i := slices.IndexFunc(p.writable, func(w writableRoot) bool { return w.Path == r }); i >= 0 {
			list = append(list, readablePath{r, p.writable[i].Effective, p.writable[i].info})
			continue
		}
		real, info, err := p.effective(r)
		if err != nil || !exists(info) {
			continue
		}
		if p.redirected(r, real) && !slices.Contains(p.denied, real) {
			return nil, fmt.Errorf("cannot enforce sandbox read-only path %s because it crosses writable symlink %s", r, r)
		}
		list = append(list, readablePath{r, real, info})
	}
	for _, r := range policy.PlatformRoots() {
		if real, info, err := p.effective(r); err == nil && exists(info) {
			list = append(list, readablePath{r, real, info})
		}
	}
	return list, nil
}

// links appends the symbolic links that lead from a path to what it names. An
// empty root has to have them too: if what they lead to were mounted in their
// place, it would be there twice, and masked only once.
func (p *planner) links(links []Mount, name string) []Mount {
	for at := range prefixes(name) {
		info, err := p.view.Lstat(at)
		if err != nil || info.Type != permissions.Symlink {
			continue
		}
		dir, err := permissions.EffectivePath(p.view, path.Dir(at))
		target, err2 := p.view.Readlink(at)
		l := Mount{Kind: Link, Source: target, Target: path.Join(dir, path.Base(at))}
		if err != nil || err2 != nil || slices.ContainsFunc(links, func(o Mount) bool { return o.Target == l.Target }) {
			continue
		}
		if !path.IsAbs(target) {
			target = path.Join(dir, target)
		}
		links = p.links(append(links, l), path.Clean(target))
	}
	return links
}

func (p *planner) addReopened(readable []readablePath) {
	for _, r := range readable {
		if r.real != "/" && !slices.Contains(p.denied, r.real) {
			p.reopened = append(p.reopened, r.real)
		}
	}
	slices.SortFunc(p.reopened, shallowFirst)
	p.reopened = slices.Compact(p.reopened)
	p.dropHidden()
}

// dropHidden forgets denied paths that lie in the mask of another: between the
// two nothing is reopened.
func (p *planner) dropHidden() {
	const denied, reopened = 1, 2
	is := make(map[string]int, len(p.denied)+len(p.reopened))
	for _, r := range p.reopened {
		is[r] = reopened
	}
	for _, d := range p.denied {
		is[d] = denied
	}
	p.denied = slices.DeleteFunc(p.denied, func(name string) bool {
		for name != "/" {
			name = path.Dir(name)
			if what := is[name]; what != 0 {
				return what == denied
			}
		}
		return false
	})
}

func (p *planner) isWritable(real string) bool {
	return slices.ContainsFunc(p.writable, func(w writableRoot) bool { return w.Effective == real })
}

// owner returns the deepest writable root that holds a path, or -1.
func (p *planner) owner(name string) int {
	found := -1
	for i, w := range p.writable {
		if below(name, w.Effective) {
			found = i
		}
	}
	return found
}
