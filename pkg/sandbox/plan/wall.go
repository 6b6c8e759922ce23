package plan

import (
	"fmt"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// The second wall: the namespaces and bwrap backends put the command under
// Landlock as well, on top of the mounts. The mounts alone confine what is
// written to files. Landlock adds two things: a read-only mount does not stop
// writes to FIFOs and devices, and a mistake in a mount writes nothing outside.
//
// Landlock handles rights to write here and, where the root is empty because reads are
// restricted, the rights to read and execute files. Masks and read-only paths below
// a writable root are left to the mounts, because Landlock cannot take away below a grant. So a
// denied path below a readable one has no second wall.

// WallABI is the first version of Landlock that can be a second wall: version
// 1 would refuse every rename and link from one directory to another.
const WallABI = 2

// WallFiles are the rights to write that a file of the view's own can need:
// a device, a terminal, a file of /proc.
const WallFiles = landlockFiles &^ landlockReads

// WallReads are the rights to read and execute files, which the second wall restricts if the root
// is empty. Listing names is not restricted: the parents of visible paths must be listable, and a
// grant for / would apply to everything below it.
const WallReads = landlockExec | unix.LANDLOCK_ACCESS_FS_READ_FILE

// WallDirectory are the rights to write that a directory with all below it can
// have: all 16 of landlockVersions but those to read and execute.
const WallDirectory = (1<<16 - 1) &^ landlockReads

// WallProc returns the rights to write in the view's own /proc. Commands of root get none: in /proc
// root owns the settings of the kernel, and Landlock cannot remove rights below a grant. Commands
// of other users write to the files of their own processes.
func WallProc() uint64 {
	if unix.Geteuid() == 0 {
		return 0
	}
	return WallFiles
}

// WallRights are the rights that the second wall restricts for a plan. There
// are none if the whole root may be written, because Landlock cannot deny a
// path below it, and none if the command may mount, because Landlock forbids
// that to every process whose file access it restricts.
func (plan *Plan) WallRights(abi int, nesting bool) uint64 {
	if abi < WallABI || nesting || plan.Root == RootWritable {
		return 0
	}
	rights := LandlockOf(abi).Files & WallDirectory
	if plan.Root == RootEmpty {
		rights |= WallReads
	}
	return rights
}

// wallRights are the rights that the wall grants for a mount.
func (plan *Plan) wallRights(m Mount) (rights uint64) {
	if m.Symlink {
		return 0
	}
	if plan.Root == RootEmpty && (m.Kind == BindWritable || m.Kind == BindReadOnly) {
		rights = WallReads
	}
	if m.Kind == BindWritable {
		rights |= WallDirectory
	}
	return rights
}

// WallGrants are the writable and, where the root is empty, the readable paths of a plan, in the view.
// Paths below another one are left out, because a grant applies to everything below.
func (plan *Plan) WallGrants() []Grant {
	var grants []Grant
	for i, m := range plan.Mounts {
		rights := plan.wallRights(m)
		if rights == 0 || plan.coveredByGrant(i, rights) {
			continue
		}
		if m.File {
			rights &= landlockFiles
		}
		grants = append(grants, Grant{Path: m.Target, Rights: rights})
	}
	return grants
}

// coveredByGrant reports whether a mount needs no grant of its own: it
// is below another one with its rights, or is the second one at the same target.
func (plan *Plan) coveredByGrant(i int, rights uint64) bool {
	for j, o := range plan.Mounts {
		if plan.wallRights(o)&rights == rights && permissions.Within(plan.Mounts[i].Target, o.Target) &&
			(o.Target != plan.Mounts[i].Target || j < i) {
			return true
		}
	}
	return false
}

// DescribeWall describes the second wall for people, with the version of
// Landlock; 0: there is none.
func (plan *Plan) DescribeWall(abi int, nesting bool) string {
	if abi < WallABI {
		return "second wall: none, because the kernel does not support version 2 of Landlock: FIFOs outside of writable directories can be written to\n"
	}
	text := fmt.Sprintf("second wall: Landlock version %d: ", abi)
	switch {
	case nesting:
		text += "files are left to the mounts, because the command may mount"
	case plan.Root == RootWritable:
		text += "files are left to the mounts, because / is writable"
	default:
		text += "files, FIFOs and devices can be written only below what is writable and in the private /dev"
		if WallProc() != 0 {
			text += " and /proc"
		}
		if plan.Root == RootEmpty {
			text += ", and read only below what is readable and there"
		}
	}
	if abi >= LandlockABI {
		text += "; signals stay inside"
		if plan.Network != NetworkOn {
			text += ", and so do abstract Unix sockets"
		}
	}
	return text + "\n" + plan.describeFIFOs(nesting)
}

// describeFIFOs describes which FIFOs outside of writable paths can be written to in spite of a
// second wall. A read-only mount does not prevent such writes, and Landlock cannot remove rights
// below a grant.
func (plan *Plan) describeFIFOs(nesting bool) string {
	for _, m := range plan.Mounts {
		if m.Kind == BindReadOnly && (nesting || plan.Root == RootWritable || plan.inWritable(m.Target)) {
			return "FIFOs that exist in read-only paths, such as below " + m.Target + ", can be written to\n"
		}
	}
	if nesting {
		return "FIFOs that exist outside of writable directories can be written to\n"
	}
	return ""
}
