package bwrap

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// ownPieces are the writable paths of bwrap's view that are private to the view.
var ownPieces = []string{"/dev/shm", "/dev/pts", "/proc"}

// Kinds of lines that AppendWall adds to the list of binds.
const (
	wallRoot = "write" // a writable root of the plan
	wallOwn  = "own"   // a part of the view's own
)

// AppendWall appends the grants of the second wall to the text of Binds, for
// the second stage of bwrap, which does not have the plan. The helper that
// serves file requests gets none of the view's own parts: it needs no devices,
// and must not write to /proc.
func AppendWall(text []byte, p *plan.Plan, helper bool) []byte {
	for _, g := range p.WallGrants() {
		text = fmt.Appendf(text, "%s %d %s\x00", wallRoot, g.Rights, g.Path)
	}
	if helper {
		return text
	}
	own := func(name string, rights uint64) {
		rights |= plan.WallReads
		for _, m := range p.Mounts {
			if permissions.Within(name, m.Target) {
				return // the plan shows another file there
			}
		}
		text = fmt.Appendf(text, "%s %d %s\x00", wallOwn, rights, name)
	}
	for _, name := range plan.Devices {
		own("/dev/"+name, plan.WallFiles)
	}
	for _, name := range ownPieces {
		if name == "/proc" {
			own(name, plan.WallProc())
		} else {
			own(name, plan.WallDirectory)
		}
	}
	return text
}

// ParseWall reads the lines of AppendWall, inside the sandbox. The view's own
// /dev and /proc are granted only if they really are the view's own, which
// ParseWall checks.
func ParseWall(text []byte) []plan.Grant {
	var grants []plan.Grant
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
			grants = append(grants, plan.Grant{Path: name, Rights: rights})
		case kind == wallOwn && (permissions.Within(name, "/dev") && ownDev || name == "/proc" && ownProc):
			grants = append(grants, plan.Grant{Path: name, Rights: rights, Maybe: true})
		}
	}
	return grants
}

// isOwnDev reports whether /dev is bwrap's private one. It looks for the launcher there, because no
// host has the launcher in /dev.
func isOwnDev() bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	return unix.Statfs("/dev", &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Lstat("/dev/"+sandbox.LauncherName, &st) == nil
}

// isOwnProc reports whether /proc is that of this PID namespace. In the host's /proc, this process
// has a different number.
func isOwnProc() bool {
	var fs unix.Statfs_t
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid()) && unix.Statfs("/proc", &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}
