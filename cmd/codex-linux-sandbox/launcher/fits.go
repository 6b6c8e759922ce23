package launcher

import (
	"reflect"
	"slices"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// For which policies a sandbox is made ahead (prepare.go), and whether it is what an order asks for.

// usual reports whether the options are ones for which a sandbox can be made ahead: those of a command, or of a file
// request that changes nothing.
func (l *launch) usual() bool {
	return l.supervised && l.helper == l.reading && !l.filterOnly && !l.legacyLandlock && !l.proxied && !l.explain && !l.noProc &&
		(l.backend == "auto" || l.backend == "namespaces")
}

// preparable reports whether a sandbox can be made ahead for the options and the plan.
func (l *launch) preparable() bool {
	return l.usual() && l.plan.Confined && l.plan.Root == sandbox.RootReadOnly && len(l.plan.Mounts) <= preparedMounts &&
		lateLast(l.plan.Mounts, needsStub)
}

// namespacesToSpare reports whether the user may have many namespaces.
func namespacesToSpare() bool {
	for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts", "net"} {
		if number("/proc/sys/user/max_"+kind+"_namespaces") < sparedNamespaces {
			return false
		}
	}
	return true
}

// surroundings are what a sandbox is made with, besides its view. They can be compared.
type surroundings struct {
	rules   sandbox.Rules
	rights  uint64 // that the second wall handles
	nesting bool
	reading bool           // for a file request
	placed  bool           // in a cgroup of its own, not in the launcher's
	cgroup  sandbox.FileID // that one
}

func (l *launch) surroundings() surroundings {
	made := surroundings{rules: l.rules(), rights: l.wallRights(), nesting: l.nesting, reading: l.reading, placed: l.cgroup > 0}
	var st unix.Stat_t
	if made.placed && unix.Fstat(l.cgroup, &st) == nil {
		made.cgroup = sandbox.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
	}
	return made
}

// fits reports whether the prepared sandbox is what the plan of a launch would make when its late mounts are made, and notes
// the launch if so.
func (a *prepared) fits(l *launch) bool {
	switch stubs := slices.ContainsFunc(l.plan.Mounts, needsStub); {
	case !l.preparable(), l.surroundings() != a.made, !a.s.l.plan.SameView(l.plan, a.view.isLate), a.mountsChanged():
		return false
	case !a.view.canAdd(l.plan.Mounts):
		return false
	case (stubs || len(l.plan.Undo) > 0) && (l.janitor == nil || l.janitor.FD < 0):
		return false // the init must hold the connection, and one that is made now comes too late
	case l.ownTerminal():
		// The kernel sends a hangup to the process group of a launcher that gives its terminal up,
		// and the init is in that group.
		return false
	}
	a.now = l
	return true
}

// mountsChanged reports whether anything was mounted, unmounted or mounted otherwise on the host
// since the sandbox was planned.
func (a *prepared) mountsChanged() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(a.mounts), Events: unix.POLLPRI}}, 0)
	a.mounted = a.mounted || err != nil || n != 0 // the kernel tells it once
	return a.mounted
}

// planAgain returns the plan of the prepared sandbox if it is what a launch would make now; nil: it is
// not, or that cannot be told.
func (a *prepared) planAgain(l *launch) *sandbox.Plan {
	first := a.s.l
	if a.kept == nil || !l.usual() || l.readOnly || l.writable || l.profile == "" || l.profile != first.profile ||
		!reflect.DeepEqual(l.scope, first.scope) || l.temporary != first.temporary || a.mountsChanged() {
		return nil
	}
	return a.kept.Again()
}

// wallRights are the rights that the second wall handles.
func (l *launch) wallRights() uint64 {
	abi, err := landlockVersion()
	if err != nil {
		return 0
	}
	return l.plan.WallRights(abi, l.nesting)
}
