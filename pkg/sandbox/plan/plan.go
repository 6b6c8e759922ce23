package plan

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// MountKind is what a Mount puts at its target.
type MountKind uint8

// The kinds of mounts.
const (
	// BindReadOnly shows Source, which cannot be changed through this mount.
	BindReadOnly MountKind = iota + 1
	// BindWritable shows Source, which can be changed through this mount.
	BindWritable
	// EmptyDir is an empty, unchangeable directory with the permission bits
	// Mode and with MountPoints in it.
	EmptyDir
	// EmptyFile is an empty, unchangeable file with the permission bits Mode.
	EmptyFile
	// Link is a symbolic link to Source, in an empty root.
	Link
)

// Mount is one step of building a view.
type Mount struct {
	Kind        MountKind
	Source      string // canonical path on the host, for binds; target of a Link
	Target      string
	Mode        uint32
	MountPoints []MountPoint // the content of an EmptyDir, parents first
	File        bool         // the source of a bind is not a directory
	// Placeholder means that the target is missing on the host, or may be another sandbox's
	// placeholder.
	Placeholder bool
	// Perhaps means that the target of a mask may be another sandbox's
	// placeholder, which that sandbox removes when it ends.
	Perhaps bool
	// ID is the identity of the target in the snapshot of the plan. The target is also the source
	// of a bind. Zero: there is none, or it is unknown. Dir is the identity of a Placeholder's
	// directory.
	ID, Dir FileID
	// Symlink means that the target of a BindReadOnly is a symbolic link. The link is mounted on
	// itself, so that it can be followed, but not be replaced.
	Symlink bool
	// Pin means that a BindWritable protects the name of a directory of a
	// writable root: a mount point cannot be renamed.
	Pin bool
}

// UndoName is a name that must not be created, and the directory in which the plan saw that it was
// missing.
type UndoName struct {
	Path     string
	Dev, Ino uint64
}

// MountPoint is a file or directory in an EmptyDir, on which another mount is made.
type MountPoint struct {
	Path string // relative
	File bool
}

// RootKind is the base of the view.
type RootKind uint8

// The kinds of roots.
const (
	// RootReadOnly is the host's root, unchangeable.
	RootReadOnly RootKind = iota
	// RootWritable is the host's root, unchanged.
	RootWritable
	// RootEmpty is a root that contains only mounts.
	RootEmpty
)

// Network is a command's access to the network.
type Network uint8

// The modes of the network.
const (
	NetworkOff Network = iota
	NetworkOn
	// NetworkProxy reaches only the managed proxies.
	NetworkProxy
)

// Plan is everything that a sandbox must enforce. Every backend gets the same plan, and enforces
// all of it or refuses it.
type Plan struct {
	// Confined means that the command gets its own view: the file system is restricted, or the
	// network is proxied.
	Confined bool
	Root     RootKind
	Mounts   []Mount
	// Undo are names that must not be created but cannot be masked. They are removed as soon as
	// they appear.
	Undo []UndoName
	// Absent are denied paths outside of every writable root that led nowhere when the plan was
	// made. No mask hides them, so the view must not contain them.
	Absent []string
	// ListDev means that an entry is for /dev. The view's own devices can always be used. Without a
	// view, as with Landlock, the names in /dev may then be read, too.
	ListDev bool
	// TmpdirLink is the link because of which an entry for $TMPDIR grants nothing. A command of the
	// same policy could have replaced it. It is "" if there is none.
	TmpdirLink string
	Network    Network
	// NoProc leaves /proc empty.
	NoProc bool
	// HostProc means that the host forbids a new /proc, so that the view has the host's. It serves
	// descriptions only: the launcher finds out when it mounts.
	HostProc bool
	// SharedNetwork means that there is no network namespace: only the filter keeps the command
	// from the network.
	SharedNetwork bool
	// Unfiltered means that no system calls are filtered, because the profile requests no sandbox.
	Unfiltered bool

	// Repositories are the git directories that an entry for permissions.GitPath grants. Like other
	// writable paths they are in Mounts, with what is protected in them.
	Repositories []string

	// Policy is the policy of the plan, for backends without mounts.
	Policy *permissions.Policy
}

// Devices are the devices of a view's /dev.
var Devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// MayShowHostProc reports whether the view may have the host's /proc where no new one can be mounted:
// with restricted reads it may not, nor if the policy denies something in it.
func (plan *Plan) MayShowHostProc() bool {
	if plan.Root == RootEmpty {
		return false
	}
	return plan.Policy == nil || !slices.ContainsFunc(plan.Policy.UnreadablePaths(), func(name string) bool { return permissions.Within(name, "/proc") })
}

// HostOwned are the parts of /proc in which the kernel has settings that belong to the host's root,
// whichever user is root inside. They are read-only in a view.
var HostOwned = []string{
	"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "latency_stats", "lock_stat", "mtrr", "scsi", "slabinfo", "sys", "sysrq-trigger", "timer_stats", "tty", "xen",
}

// ProtectedNames are the names of metadata that is protected directly below
// writable roots (docs/spec/sandbox.md §2.4).
var ProtectedNames = []string{".git", ".agents", ".codex"}

// Writable reports whether the command may write anything of the host.
func (plan *Plan) Writable() bool {
	return plan.Root == RootWritable || slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Kind == BindWritable && !m.Pin })
}

// OwnNetwork reports whether the command gets its own network.
func (plan *Plan) OwnNetwork() bool { return plan.Network != NetworkOn && !plan.SharedNetwork }

// planner makes the mounts of a plan (docs/spec/sandbox.md §7.2).
type planner struct {
	view     permissions.View // a snapshot
	host     permissions.View // the policy
	plan     *Plan
	reading  bool           // nothing may be written
	writable []writableRoot // shallow first
	denied   []string       // effective paths, sorted
	absent   []string       // denied paths that lead nowhere
	explicit []string       // those that entries name, not patterns
	named    []string       // effective paths that entries name, and that a pattern may have denied
	reopened []string       // readable or writable effective paths
	// directories are the missing paths whose placeholder must be a directory, besides the names of
	// metadata.
	directories []string
	// repository are the paths to which the .git of writable roots leads. Roots that are missing,
	// or that a pattern denies, are included, because they may exist for the next command and for
	// the user's git. Read-only paths that lead to a missing name in a writable root are included,
	// too.
	repository []string
}

type writableRoot struct {
	permissions.WritableRoot
	info permissions.Info
}

// Make makes the plan for a profile. The scope defines the profile's symbolic
// paths; the view is the host's file system. An error means that the profile
// cannot be enforced.
func Make(profile permissions.Profile, scope permissions.Scope, view permissions.View, proxied bool) (*Plan, error) {
	return makePlan(profile, scope, view, proxied, false)
}

// MakeReading makes the plan for a command that only reads: the profile's writable paths are
// read-only. It also refuses links that commands of the same profile can have created. Otherwise,
// with an entry "/w/d: write", such a command could put a link to / at /w/d, and the next request
// would read the link's target.
func MakeReading(profile permissions.Profile, scope permissions.Scope, view permissions.View) (*Plan, error) {
	return makePlan(profile, scope, view, false, true)
}

func makePlan(profile permissions.Profile, scope permissions.Scope, view permissions.View, proxied, reading bool) (*Plan, error) {
	return onSnapshot(view, func(s *snapshot) (*Plan, error) {
		plan, err := planOn(s, view, profile, scope, proxied, reading)
		// Policies grant $TMPDIR by default. If it cannot be granted, the command runs without it.
		var redirected *RedirectedError
		if errors.As(err, &redirected) && redirected.Path == path.Clean(scope.Tmpdir) {
			scope.Tmpdir = ""
			if plan, err = planOn(s, view, profile, scope, proxied, reading); err == nil {
				plan.TmpdirLink = redirected.Link
			}
		}
		return plan, err
	})
}

// planOn makes a plan from a snapshot of the host's file system.
func planOn(s *snapshot, host permissions.View, profile permissions.Profile, scope permissions.Scope, proxied, reading bool) (*Plan, error) {
	p := &planner{view: s, host: host, plan: &Plan{Unfiltered: profile.Kind == permissions.Disabled}, reading: reading}
	if err := p.make(profile, scope, proxied); err != nil {
		return nil, err
	}
	return p.plan, nil
}

func (p *planner) make(profile permissions.Profile, scope permissions.Scope, proxied bool) error {
	plan := p.plan
	switch {
	case proxied:
		plan.Network, plan.Unfiltered = NetworkProxy, false
	case profile.Network == permissions.NetworkEnabled || profile.Kind == permissions.Disabled:
		plan.Network = NetworkOn
	}
	if profile.FullWrite() && !p.reading {
		if scope.Within != "" && scope.Within != "/" {
			return &OutsideError{Path: "/", Real: "/", Within: scope.Within}
		}
		plan.Confined, plan.Root = proxied, RootWritable
		if !proxied {
			return nil
		}
		p.writable = []writableRoot{{WritableRoot: permissions.WritableRoot{Path: "/", Effective: "/"}}}
		kernel, err := p.kernelMounts()
		for _, g := range kernel {
			p.protect(g)
		}
		return err
	}
	plan.Confined = true
	policy := permissions.Resolve(profile.FileSystem, scope, p.view)
	plan.Policy, plan.Repositories = policy, policy.Repositories()
	if err := policy.Err(); err != nil {
		return err
	}
	if err := p.checkWithin(policy, scope); err != nil {
		return err
	}
	if err := p.prepare(policy); err != nil {
		return err
	}
	if err := p.root(policy); err != nil {
		return err
	}
	return p.mounts()
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
