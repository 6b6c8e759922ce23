package launcher

import (
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// wall appends steps that create the ruleset of the second wall (pkg/sandbox/plan) for a command
// with the rules. It returns nil if the kernel's Landlock is too old or missing, or if the plan
// restricts nothing. The ruleset does not grant inherited descriptors yet.
func (l *launch) wall(p *initproc.Program, rules plan.Rules) *ruleset {
	abi, err := landlockVersion()
	if err != nil || abi < plan.WallABI {
		return nil
	}
	noTCP := rules.Network == plan.NetworkOff && rules.Sockets < plan.SocketsLoopback
	return newRuleset(p, abi, l.plan.WallRights(abi, l.nesting), l, noTCP)
}

// grantOwn grants rights to a part that the launcher creates for the view, by the descriptor with
// which it was created: if a mount went wrong, a path could lead to the host's file. The helper of
// file requests gets no such grant, because it needs no devices, and must not write to /proc.
func (m *mounter) grantOwn(name string, fd initproc.Register, rights uint64) {
	if !m.helper {
		m.wall.grant(name, fd, rights)
	}
}

// grantInherited grants the files and terminals that the command inherits open for writing, so that
// it can open them again, by /dev/stdout for example. Landlock does not restrict pipes and sockets.
func (r *ruleset) grantInherited(fds []int) {
	if r == nil || r.rights == 0 {
		return
	}
	for _, fd := range fds {
		if !openForWriting(fd) {
			continue
		}
		rights := uint64(plan.WallFiles)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_RDWR {
			rights |= plan.WallReads
		}
		r.Try(func() { r.grantFD("the descriptor "+strconv.Itoa(fd), fd, rights) })
	}
}

// grantProgram grants the program that is executed by its descriptor, because the view may not contain it.
func (r *ruleset) grantProgram(fd int) {
	if r == nil || fd < 0 || r.rights&plan.WallReads == 0 {
		return
	}
	// A program in memory is in no file system that Landlock restricts, so this may fail.
	r.Try(func() { r.grantFD("the program", fd, plan.WallReads) })
}

// openForWriting reports whether a descriptor is open for writing and belongs to a file system. A
// socket does not.
func openForWriting(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0 {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK
}
