package plan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// The functions of this file convert a plan for Landlock, which can only add grants for a directory
// and everything below it.

// LandlockABI is the version of Landlock that the backend landlock needs. It is the first that
// restricts signals to the sandbox.
const LandlockABI = 6

// LandlockFeatures are the restrictions of a version of Landlock, as bits of struct landlock_ruleset_attr, and the size
// of that struct.
type LandlockFeatures struct {
	Files, TCP, Scopes uint64
	Size               uintptr
}

// landlockVersions has the additions of each version. Later versions add nothing that a
// sandbox uses.
var landlockVersions = [...]LandlockFeatures{
	// Linux 5.13. The 13 rights to read, write, execute, make and remove files.
	1: {Files: 1<<13 - 1, Size: 8},
	// Linux 5.19. Before it, each rename and link from one directory to another is refused.
	2: {Files: unix.LANDLOCK_ACCESS_FS_REFER},
	// Linux 6.2. Before it, a file can be truncated by its path, wherever it is.
	3: {Files: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	// Linux 6.7. Before it, only the filter and the network namespace restrict TCP.
	4: {TCP: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, Size: 16},
	// Linux 6.10. Before it, a device that can be opened can be configured.
	5: {Files: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	// Linux 6.12. Before it, only the PID and network namespaces keep signals and connections to abstract Unix sockets inside.
	6: {Scopes: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, Size: 24},
}

// LandlockOf returns the restrictions of a version; 0 stands for a kernel without Landlock.
func LandlockOf(abi int) (all LandlockFeatures) {
	for _, v := range landlockVersions[:min(abi+1, len(landlockVersions))] {
		all.Files |= v.Files
		all.TCP |= v.TCP
		all.Scopes |= v.Scopes
		all.Size = max(all.Size, v.Size)
	}
	return all
}

// Rights of Landlock.
const (
	landlockExec  = unix.LANDLOCK_ACCESS_FS_EXECUTE
	landlockReads = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// landlockFiles are the rights that a file can have.
	landlockFiles = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// errNoProxies is the refusal of the backends without a network namespace.
var errNoProxies = errors.New("it cannot restrict the network to the proxies: that needs a network namespace, which the backends namespaces and bwrap make")

// LandlockRefusal returns an error that names the part of a plan that Landlock cannot express, or
// nil. With stricter, Landlock may enforce more than the plan says; see carve.
func (plan *Plan) LandlockRefusal(stricter bool) error {
	switch {
	case plan.Network == NetworkProxy:
		return errNoProxies
	case plan.NoProc:
		return errors.New("it cannot leave /proc empty")
	case plan.Root == RootWritable:
		return errors.New("it cannot restrict paths below a writable /")
	case len(plan.Repositories) > 0:
		return fmt.Errorf("it cannot protect the configuration and the hooks of the git repository %s while the rest of it is written", plan.Repositories[0])
	case stricter:
		return nil
	case len(plan.Undo) > 0:
		return fmt.Errorf("it cannot prevent %s from being created%s", plan.Undo[0].Path, orStricter)
	}
	for _, m := range plan.Mounts {
		switch {
		case m.Kind == EmptyDir || m.Kind == EmptyFile:
			what := "hide %s"
			if m.Placeholder {
				what = "prevent %s from being created"
			}
			return fmt.Errorf("it cannot "+what+", which is below a permitted path%s", m.Target, orStricter)
		case m.Kind == BindReadOnly && plan.inWritable(m.Target):
			return fmt.Errorf("it cannot make %s read-only, which is below a writable path%s", m.Target, orStricter)
		case plan.keepsName(m):
			return fmt.Errorf("it cannot prevent %s from being renamed, which is below a writable path%s", m.Target, orStricter)
		}
	}
	return nil
}

// orStricter is the advice in the error of LandlockRefusal.
const orStricter = " (with --stricter, or --sandbox-stricter of the server, more may be enforced than was asked for)"

// keepsName reports whether a mount protects the name of a directory within a
// writable one: a pin, or a writable root.
func (plan *Plan) keepsName(m Mount) bool {
	return m.Kind == BindWritable && !m.File && m.Target != "/" && plan.inWritable(path.Dir(m.Target))
}

func (plan *Plan) inWritable(target string) bool {
	for _, m := range plan.Mounts {
		if m.Kind == BindWritable && permissions.Within(target, m.Target) {
			return true
		}
	}
	return false
}

// Grant is a path with the rights at it and below it.
type Grant struct {
	Path   string
	Rights uint64 // as the kernel has them
	Maybe  bool   // the path may be missing
}

// LandlockGrants returns the grants of a plan that was not refused.
func (plan *Plan) LandlockGrants(view permissions.View) ([]Grant, error) {
	return plan.grants(view, LandlockOf(LandlockABI).Files)
}

// grants returns the grants of a plan, with these rights for what is writable.
func (plan *Plan) grants(view permissions.View, writable uint64) ([]Grant, error) {
	c := carver{view: view, taken: make(map[string]uint64), named: make(map[string]bool)}
	for _, n := range plan.Undo {
		c.taken[n.Path] = landlockReads
	}
	for _, m := range plan.Mounts {
		c.named[m.Target] = plan.keepsName(m)
		switch {
		case m.Kind == Link:
		case m.Kind == BindReadOnly, m.Placeholder: // a missing path cannot be read
			c.taken[m.Target] = landlockReads
		case m.Kind == EmptyDir || m.Kind == EmptyFile:
			c.taken[m.Target] = 0
		default:
			c.taken[m.Target] = writable
		}
	}
	if plan.Root == RootReadOnly {
		c.taken["/"] = landlockReads
	}
	if plan.Root == RootReadOnly || plan.ListDev {
		// With Landlock the devices are not private. Only those that every view has are granted;
		// the others are terminals, disks and further devices of the host.
		c.taken["/dev"] = unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	for name, rights := range c.taken {
		if rights != 0 {
			if err := c.carve(name, rights); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range Devices {
		c.grants = append(c.grants, Grant{"/dev/" + name, landlockFiles &^ landlockExec, true})
	}
	return c.grants, nil
}

// maxGrants bounds the grants of a plan. Each grant takes a system call, and a directory may have
// any number of entries.
const maxGrants = 16 << 10

// carver turns a plan into grants. If different rights apply to a path within a
// directory, the directory itself cannot be granted, because a grant applies to
// everything below. Instead its current entries are granted one by one, and no
// new entries can be made directly in it.
type carver struct {
	view   permissions.View
	taken  map[string]uint64 // the rights that each mount of the plan grants at its target
	named  map[string]bool   // directories that must not be renamed
	grants []Grant
}

// carve grants rights at a path and below it, except where the plan has other rules.
func (c *carver) carve(name string, rights uint64) error {
	whole, common := true, rights
	for other, r := range c.taken {
		if other == name || !permissions.Within(other, name) {
			continue
		}
		// The plan grants additional rights there.
		if r&rights != rights {
			whole = false
			common &= r
		}
		if c.named[other] && rights&unix.LANDLOCK_ACCESS_FS_REMOVE_DIR != 0 {
			whole = false
			common &^= unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
		}
	}
	info, err := c.view.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case len(c.grants) >= maxGrants:
		return fmt.Errorf("cannot make the sandbox: more than %d grants of Landlock are needed; %s has many entries", maxGrants, name)
	case info.Type == permissions.Missing, info.Type == permissions.Symlink:
		return nil
	case info.Type != permissions.Dir:
		c.grants = append(c.grants, Grant{name, rights & landlockFiles, true})
		return nil
	case whole:
		c.grants = append(c.grants, Grant{name, rights, true})
		return nil
	}
	if common != 0 {
		c.grants = append(c.grants, Grant{name, common, true})
	}
	return c.view.ReadDir(name, func(entry string, _ permissions.FileType) error {
		child := path.Join(name, entry)
		if _, other := c.taken[child]; other {
			return nil
		}
		return c.carve(child, rights)
	})
}

// LegacyGrants returns the grants of a read-only or workspace-write policy (docs/spec/sandbox.md
// §7.6). They do not protect metadata.
func (plan *Plan) LegacyGrants(view permissions.View) ([]Grant, error) {
	if plan.Policy == nil {
		return []Grant{{"/", LandlockOf(LandlockABI).Files, false}}, nil
	}
	if !plan.Policy.FullRead() {
		//lint:ignore ST1005 the words of Codex CLI
		return nil, errors.New("Restricted read-only access is not supported by the legacy Linux Landlock filesystem backend.")
	}
	grants := []Grant{{"/", landlockReads, false}, {"/dev/null", landlockFiles, true}}
	for _, w := range plan.Policy.WritableRoots() {
		info, err := view.Lstat(w.Effective)
		rights := LandlockOf(LandlockABI).Files
		if info.Type != permissions.Dir {
			rights &= landlockFiles
		}
		if err == nil {
			grants = append(grants, Grant{w.Effective, rights, true})
		}
	}
	return grants, nil
}

// DescribeGrants describes the grants for people.
func DescribeGrants(grants []Grant) string {
	lines := make([]string, 0, len(grants))
	for _, g := range grants {
		what := "read and execute"
		switch {
		case g.Rights&unix.LANDLOCK_ACCESS_FS_WRITE_FILE != 0:
			what = "write"
		case g.Rights&unix.LANDLOCK_ACCESS_FS_READ_FILE == 0:
			what = "list"
		}
		lines = append(lines, "  "+g.Path+"  "+what+"\n")
	}
	slices.Sort(lines)
	return "granted, with all below:\n" + strings.Join(slices.Compact(lines), "") +
		"privileges: no capabilities, no_new_privs\n"
}
