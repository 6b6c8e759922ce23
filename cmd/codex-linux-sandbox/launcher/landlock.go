//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"codex.internal/pkg/permissions"
	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// landlock is the backend for hosts without namespaces: the command stays
// where it is, and the kernel refuses what the plan does not grant. Landlock
// only ever adds grants for a directory and all below it, so a plan that takes
// something away below a grant is refused.
type landlock struct{}

// The version of Landlock that is needed: 6 (Linux 6.12) is the first that
// keeps signals inside. It has all rights of earlier ones, among them the one
// to truncate files (3) and ioctls of devices (5).
const landlockABI = 6

// legacyABI is what --use-legacy-landlock needs.
const legacyABI = 1

// Rights of Landlock.
const (
	landlockExec  = unix.LANDLOCK_ACCESS_FS_EXECUTE
	landlockReads = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// landlockFiles are the rights that a file can have.
	landlockFiles = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// rightsOf are all rights that a version knows: the first 13 bits, and one
// more for each of the versions 2, 3 and 5.
func rightsOf(abi int) uint64 {
	rights := uint64(1)<<13 - 1
	for version, right := range map[int]uint64{
		2: unix.LANDLOCK_ACCESS_FS_REFER, 3: unix.LANDLOCK_ACCESS_FS_TRUNCATE, 5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	} {
		if abi >= version {
			rights |= right
		}
	}
	return rights
}

// landlockVersion is the version of the kernel, or why there is none.
func landlockVersion() (int, error) {
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("ask for Landlock: %w", errno)
	}
	return int(abi), nil
}

func (landlock) probe() error {
	abi, err := landlockVersion()
	switch {
	case err != nil:
		return err
	case abi < landlockABI:
		return fmt.Errorf("this kernel has version %d of Landlock; %d (Linux 6.12) is needed to keep signals inside", abi, landlockABI)
	}
	return nil
}

// refuse names what Landlock cannot express.
func (landlock) refuse(l *launch) error {
	plan := l.plan
	switch {
	case plan.Network == sandbox.NetworkProxy:
		return errors.New("Landlock cannot restrict the network to the proxies") //nolint:staticcheck // a name
	case plan.NoProc:
		return errors.New("Landlock cannot leave /proc empty") //nolint:staticcheck // a name
	case plan.Root == sandbox.RootWritable:
		return errors.New("Landlock cannot take anything away from a writable /") //nolint:staticcheck // a name
	case len(plan.Undo) > 0:
		return fmt.Errorf("Landlock cannot keep %s from being created", plan.Undo[0]) //nolint:staticcheck // a name
	}
	for _, m := range plan.Mounts {
		switch {
		case m.Kind == sandbox.EmptyDir || m.Kind == sandbox.EmptyFile:
			what := "hide"
			if m.Cover {
				what = "keep from being created"
			}
			return fmt.Errorf("Landlock cannot %s %s, which lies below what may be used", what, m.Target) //nolint:staticcheck // a name
		case m.Kind == sandbox.BindReadOnly && inWritable(plan, m.Target):
			return fmt.Errorf("Landlock cannot make %s read-only, which lies below what may be written", m.Target) //nolint:staticcheck // a name
		}
	}
	return nil
}

func inWritable(plan *sandbox.Plan, target string) bool {
	for _, m := range plan.Mounts {
		if m.Kind == sandbox.BindWritable && within(target, m.Target) {
			return true
		}
	}
	return false
}

// run starts an init that finds what the command leaves behind, and the
// command under Landlock.
func (b landlock) run(l *launch) (int, error) {
	needed := landlockABI
	if l.legacyLandlock {
		needed = legacyABI
	}
	abi, err := landlockVersion()
	if err == nil && abi < needed {
		err = b.probe()
	}
	if err != nil {
		return 0, &unavailable{err}
	}
	var rules rules
	rules.network, rules.nesting = l.plan.Network, l.nesting
	var grants []grant
	if l.legacyLandlock {
		grants, err = legacyGrants(l)
	} else {
		grants = grantsOf(l.plan)
		rules.sharing = true
		// Landlock does not see changes of modes, owners and times.
		rules.attributes = true
	}
	if err != nil {
		return 0, err
	}
	s, err := l.prepare(true)
	if err != nil {
		return 0, err
	}
	defer s.release()
	init, command := s.crew.init, s.crew.command
	init.do("become a subreaper", "", unix.SYS_PRCTL, val(unix.PR_SET_CHILD_SUBREAPER), val(1), val(0), val(0), val(0))
	init.do("change directory to", l.commandCwd, unix.SYS_CHDIR, init.text(l.commandCwd))
	init.undumpable()
	init.dropPrivileges()
	command.do("set the parent-death signal", "", unix.SYS_PRCTL, val(unix.PR_SET_PDEATHSIG), val(uint(unix.SIGKILL)), val(0), val(0), val(0))
	command.restrict(abi, l, grants)
	command.install(rules.filter())
	return s.run()
}

// grant is a path with what may be done at it and below it.
type grant struct {
	path   string
	rights uint64
	maybe  bool // the path may be missing
}

// grantsOf are the grants of a plan.
func grantsOf(plan *sandbox.Plan) []grant {
	all := rightsOf(landlockABI)
	var grants []grant
	if plan.Root == sandbox.RootReadOnly {
		grants = append(grants, grant{"/", landlockReads, false})
	}
	for _, m := range plan.Mounts {
		if m.Kind == sandbox.Link {
			continue
		}
		rights := uint64(landlockReads)
		if m.Kind == sandbox.BindWritable {
			rights = all
		}
		if m.File {
			rights &= landlockFiles
		}
		grants = append(grants, grant{m.Source, rights, false})
	}
	for _, name := range devices {
		grants = append(grants, grant{"/dev/" + name, landlockFiles &^ landlockExec, true})
	}
	return grants
}

// legacyGrants are those of a read-only or workspace-write policy (section
// 7.4), which protect no metadata.
func legacyGrants(l *launch) ([]grant, error) {
	if l.plan.Policy == nil {
		return []grant{{"/", rightsOf(landlockABI), false}}, nil
	}
	if !l.plan.Policy.FullRead() {
		return nil, errors.New("Restricted read-only access is not supported by the legacy Linux Landlock filesystem backend.") //nolint:staticcheck // the reference's words
	}
	grants := []grant{{"/", landlockReads, false}, {"/dev/null", landlockFiles, true}}
	for _, w := range l.plan.Policy.WritableRoots() {
		info, err := sandbox.HostView{}.Lstat(w.Effective)
		rights := rightsOf(landlockABI)
		if info.Type != permissions.Dir {
			rights &= landlockFiles
		}
		if err == nil {
			grants = append(grants, grant{w.Effective, rights, true})
		}
	}
	return grants, nil
}

// restrict appends the steps that put the process under Landlock.
func (p *program) restrict(abi int, l *launch, grants []grant) {
	all := rightsOf(abi)
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: all}
	size := uintptr(24) // up to the scopes
	switch {
	case abi >= 6:
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if l.plan.Network == sandbox.NetworkOff {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
		fallthrough
	case abi >= 4:
		if l.plan.Network == sandbox.NetworkOff {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	switch {
	case abi < 4:
		size = 8
	case abi < 6:
		size = 16
	}
	ruleset := p.get("make a Landlock ruleset", "", unix.SYS_LANDLOCK_CREATE_RULESET, pointer(p, attr), val(size), val(0))
	for _, g := range grants {
		add := func() {
			at := p.get("open", g.path, unix.SYS_OPENAT2, cwdFD, p.text(g.path), pointer(p, &unix.OpenHow{
				Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}), val(unix.SizeofOpenHow))
			// struct landlock_path_beneath_attr is packed: the rights, then
			// the descriptor, which dup3 makes a number that is known here.
			fixed := l.reserve()
			p.do("keep", g.path, unix.SYS_DUP3, at.arg(), val(fixed), val(unix.O_CLOEXEC))
			rule := make([]byte, 12)
			*(*uint64)(unsafe.Pointer(&rule[0])) = g.rights & all
			*(*int32)(unsafe.Pointer(&rule[8])) = int32(fixed)
			p.do("grant", g.path, unix.SYS_LANDLOCK_ADD_RULE, ruleset.arg(), val(unix.LANDLOCK_RULE_PATH_BENEATH), slice(p, rule), val(0))
			p.close(at)
		}
		if g.maybe {
			p.ifThere(add)
		} else {
			add()
		}
	}
	if l.execFD >= 0 {
		rule := make([]byte, 12)
		*(*uint64)(unsafe.Pointer(&rule[0])) = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE
		*(*int32)(unsafe.Pointer(&rule[8])) = int32(l.execFD)
		// A program in memory is in no file system that could be restricted.
		p.try(func() {
			p.do("grant", "the program", unix.SYS_LANDLOCK_ADD_RULE, ruleset.arg(), val(unix.LANDLOCK_RULE_PATH_BENEATH), slice(p, rule), val(0))
		})
	}
	p.do("restrict by Landlock", "", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset.arg(), val(0))
	p.close(ruleset)
}

// reserve returns a descriptor that a child may replace by one of its own
// whose number has to be known before the fork.
func (l *launch) reserve() int {
	if l.reserved == 0 {
		if fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			l.reserved = fd
		}
	}
	return l.reserved
}
