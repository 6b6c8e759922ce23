package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The second wall: the namespaces and bwrap backends put the command under
// Landlock as well, on top of the mounts. The mounts alone confine what is
// written to files. Landlock adds two things: a read-only mount does not stop
// writes to FIFOs and devices, and a mistake in a mount writes nothing outside.
//
// Landlock only handles rights to write here. What may be read is left to the
// mounts, and so are masks and read-only paths below a writable root, which
// Landlock cannot take away.

// WallABI is the first version of Landlock that can be a second wall. Version
// 1 forbids every rename and link from one directory to another.
const WallABI = 2

// WallFiles are the rights to write that a file of the view's own can need:
// a device, a terminal, a file of /proc.
const WallFiles = landlockFiles &^ landlockReads

// WallDirectory are the rights to write that a directory with all below it can
// have: all 16 that there are but those to read and execute.
const WallDirectory = (1<<16 - 1) &^ landlockReads

// WallRights are the rights that the second wall handles for a plan: none if
// the whole root may be written, because Landlock cannot take anything away
// below it, and none if the command may mount, which Landlock forbids to
// everything whose file access it restricts.
func (plan *Plan) WallRights(abi int, nesting bool) uint64 {
	if abi < WallABI || nesting || plan.Root == RootWritable {
		return 0
	}
	return LandlockRights(abi) & WallDirectory
}

// WallGrants are the paths that a plan lets a command write, in the view.
// Those that lie below another are left out: a grant is for all below.
func (plan *Plan) WallGrants() []Grant {
	var grants []Grant
	for i, m := range plan.Mounts {
		if m.Kind != BindWritable || plan.coveredByGrant(i) {
			continue
		}
		rights := uint64(WallDirectory)
		if m.File {
			rights &= landlockFiles
		}
		grants = append(grants, Grant{Path: m.Target, Rights: rights})
	}
	return grants
}

// coveredByGrant reports whether a writable mount needs no grant of its own:
// it lies below another one, or it is the second one at the same target.
func (plan *Plan) coveredByGrant(i int) bool {
	for j, o := range plan.Mounts {
		if o.Kind == BindWritable && below(plan.Mounts[i].Target, o.Target) &&
			(o.Target != plan.Mounts[i].Target || j < i) {
			return true
		}
	}
	return false
}

// ownPieces are the parts of bwrap's view that are its own and can be written.
var ownPieces = []string{"/dev/shm", "/dev/pts", "/proc"}

// Kinds of lines that AppendWall adds to the list of binds.
const (
	wallRoot = "write" // a writable root of the plan
	wallOwn  = "own"   // a part of the view's own
)

// AppendWall adds what the second wall grants to the text of Binds, for
// the second stage of bwrap, which does not know the plan. The helper that
// serves file requests gets none of the view's own parts: it needs no devices,
// and it must not write to /proc.
func (plan *Plan) AppendWall(text []byte, helper bool) []byte {
	for _, g := range plan.WallGrants() {
		text = fmt.Appendf(text, "%s %d %s\x00", wallRoot, g.Rights, g.Path)
	}
	if helper {
		return text
	}
	own := func(name string, rights uint64) {
		for _, m := range plan.Mounts {
			if below(name, m.Target) {
				return // the plan shows something else there
			}
		}
		text = fmt.Appendf(text, "%s %d %s\x00", wallOwn, rights, name)
	}
	for _, name := range Devices {
		own("/dev/"+name, WallFiles)
	}
	for _, name := range ownPieces {
		if name == "/proc" {
			own(name, WallFiles)
		} else {
			own(name, WallDirectory)
		}
	}
	return text
}

// ParseWall reads what AppendWall added, inside. The parts of the view's own
// are granted only if they are: what is mounted at /dev and /proc is looked at.
func ParseWall(text []byte) []Grant {
	var grants []Grant
	ownDev, ownProc := isOwnDev(), isOwnProc()
	for line := range strings.SplitSeq(string(text), "\x00") {
		head, name, found := strings.Cut(line, "/")
		var kind string
		var rights uint64
		if n, _ := fmt.Sscanf(head, "%s %d", &kind, &rights); !found || n != 2 {
			continue
		}
		name = "/" + name
		switch {
		case kind == wallRoot:
			grants = append(grants, Grant{Path: name, Rights: rights})
		case kind == wallOwn && (below(name, "/dev") && ownDev || name == "/proc" && ownProc):
			grants = append(grants, Grant{Path: name, Rights: rights, Maybe: true})
		}
	}
	return grants
}

// LauncherName is the name of the launcher's program.
const LauncherName = "codex-linux-sandbox"

// isOwnDev reports whether /dev is the private one of bwrap: no host has the
// launcher there.
func isOwnDev() bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	return unix.Statfs("/dev", &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Lstat("/dev/"+LauncherName, &st) == nil
}

// isOwnProc reports whether /proc is the one of this PID namespace: in the
// host's, this process has another number.
func isOwnProc() bool {
	var fs unix.Statfs_t
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid()) && unix.Statfs("/proc", &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}

// DescribeWall tells people what the second wall is, with the version of
// Landlock; 0: there is none.
func (plan *Plan) DescribeWall(abi int, nesting bool) string {
	if abi < WallABI {
		return "second wall: none, as the kernel has no Landlock of version 2: FIFOs outside of writable directories can be written to\n"
	}
	text := fmt.Sprintf("second wall: Landlock version %d: ", abi)
	switch {
	case nesting:
		text += "files are left to the mounts, because the command may mount"
	case plan.Root == RootWritable:
		text += "files are left to the mounts, because / is writable"
	default:
		text += "files, FIFOs and devices can be written only below what is writable and in the private /dev and /proc"
	}
	if abi >= LandlockABI {
		text += "; signals stay inside"
		if plan.Network != NetworkOn {
			text += ", and so do abstract Unix sockets"
		}
	}
	return text + "\n"
}
