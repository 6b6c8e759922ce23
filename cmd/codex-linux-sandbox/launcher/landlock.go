package launcher

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// landlock is the backend for hosts without namespaces. The command has the host's view, and the
// kernel refuses access that the plan does not grant. A Landlock rule grants access to a directory
// and everything below it, and cannot deny a path below a grant. So this backend refuses a plan
// with such a path.
type landlock struct{}

// leastABI is the version of Landlock that --use-legacy-landlock and the file system helper need.
// The helper sends no signals, and truncates only files that it opens for writing.
const leastABI = 1

// landlockVersion returns the version of Landlock of this kernel.
func landlockVersion() (int, error) {
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == unix.EOPNOTSUPP {
		return 0, fmt.Errorf("ask for Landlock: it was not enabled at boot (lsm= on the kernel's command line): %w", errno)
	}
	if errno != 0 {
		return 0, &initproc.Failure{What: "ask for Landlock", Number: unix.SYS_LANDLOCK_CREATE_RULESET, Errno: errno}
	}
	return min(int(abi), landlockAtMost), nil
}

// landlockAtMost is the newest version of Landlock that the launcher uses. With --landlock-at-most it works as on an older kernel.
var landlockAtMost = math.MaxInt

func (landlock) probe() error {
	abi, err := landlockVersion()
	switch {
	case err != nil:
		return err
	case abi < plan.LandlockABI:
		return fmt.Errorf("this kernel has version %d of Landlock; %d (Linux 6.12) is needed to keep signals inside", abi, plan.LandlockABI)
	}
	return nil
}

func (landlock) refuse(l *launch) error { return l.plan.LandlockRefusal(l.stricter) }

// run starts an init, which ends the command's leftover processes, and the command under Landlock.
func (b landlock) run(l *launch) (int, error) {
	needed := plan.LandlockABI
	if l.legacyLandlock || l.helper {
		needed = leastABI
	}
	abi, err := landlockVersion()
	if err == nil && abi < needed {
		err = b.probe()
	}
	if err != nil {
		return 0, &unavailable{err}
	}
	rules := l.rules()
	rules.Sockets, rules.Broker = min(rules.Sockets, plan.SocketsPairs), 0
	var grants []plan.Grant
	if l.legacyLandlock {
		grants, err = l.plan.LegacyGrants(plan.HostView{})
	} else {
		grants, err = l.plan.LandlockGrants(plan.HostView{})
		rules.Sharing = true
		// Landlock cannot restrict changes of modes, owners and times, so the filter does.
		rules.Attributes = true
	}
	if err != nil {
		return 0, err
	}
	s, err := l.prepare(true)
	if err != nil {
		return 0, err
	}
	defer s.release()
	init, command := s.processes.Init, s.processes.Command
	l.beginWithoutNamespaces(init)
	restrict(command, abi, l, grants)
	reopen(command, l.reopened)
	command.InstallFilter(rules.Filter())
	return s.run()
}

// beginWithoutNamespaces appends the first steps of the init where the command gets no namespaces.
func (l *launch) beginWithoutNamespaces(init *initproc.Program) {
	for _, name := range l.plan.Absent {
		init.Absent(name)
	}
	init.Do("become a subreaper", "", unix.SYS_PRCTL, initproc.Val(unix.PR_SET_CHILD_SUBREAPER), initproc.Val(1), initproc.Val(0), initproc.Val(0), initproc.Val(0))
	init.Do("change directory to", l.commandCwd, unix.SYS_CHDIR, init.Text(l.commandCwd))
	init.Undumpable()
	dropPrivileges(init)
}

// restrict appends the steps that put the process under Landlock.
func restrict(p *initproc.Program, abi int, l *launch, grants []plan.Grant) {
	r := newRuleset(p, abi, plan.LandlockOf(abi).Files, l, l.plan.Network == plan.NetworkOff)
	r.grantPaths(grants)
	r.grantProgram(l.execFD)
	r.enforce()
}

// ruleset is a Landlock ruleset that a program makes. The methods of a nil *ruleset do nothing.
type ruleset struct {
	*initproc.Program
	fd     initproc.Register
	rights uint64 // the rights that it handles
	fixed  int    // the number of the descriptor that is being granted
}

// newRuleset appends the creation of a ruleset that handles rights to files. If the version supports scopes, the
// ruleset also scopes signals and, unless the network is on, abstract Unix sockets. noTCP forbids TCP as well.
func newRuleset(p *initproc.Program, abi int, rights uint64, l *launch, noTCP bool) *ruleset {
	known := plan.LandlockOf(abi)
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: rights, Scoped: known.Scopes}
	if l.plan.Network == plan.NetworkOn {
		attr.Scoped &^= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if noTCP {
		attr.Handled_access_net = known.TCP
	}
	if attr.Handled_access_fs|attr.Handled_access_net|attr.Scoped == 0 {
		return nil
	}
	fd := p.Get("make a Landlock ruleset", "", unix.SYS_LANDLOCK_CREATE_RULESET, initproc.Pointer(p, attr), initproc.Val(known.Size), initproc.Val(0))
	return &ruleset{p, fd, rights, l.reserved}
}

// grantPaths grants rights to paths. It opens them without following links.
func (r *ruleset) grantPaths(grants []plan.Grant) {
	if r == nil || r.rights == 0 {
		return
	}
	for _, g := range grants {
		add := func() {
			at := r.Get("open", g.Path, unix.SYS_OPENAT2, initproc.CwdFD, r.Text(g.Path), initproc.Pointer(r.Program, &unix.OpenHow{
				Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}), initproc.Val(unix.SizeofOpenHow))
			r.grant(g.Path, at, g.Rights)
			r.Close(at)
		}
		if g.Maybe {
			r.IfThere(add)
		} else {
			add()
		}
	}
}

// grant grants rights to the file of the descriptor in a register, and to everything below it.
func (r *ruleset) grant(path string, fd initproc.Register, rights uint64) {
	if r == nil || r.rights&rights == 0 {
		return
	}
	// The kernel reads the number of the descriptor from memory, and a program cannot store the
	// result of a call in memory. So dup3 gives the descriptor a number that is known beforehand.
	r.Do("keep", path, unix.SYS_DUP3, fd.Arg(), initproc.Val(r.fixed), initproc.Val(unix.O_CLOEXEC))
	r.grantFD(path, r.fixed, rights)
}

// grantFD grants rights to the file of a descriptor, and to everything below it.
func (r *ruleset) grantFD(path string, fd int, rights uint64) {
	// struct landlock_path_beneath_attr is packed.
	rule := make([]byte, 12)
	*(*uint64)(unsafe.Pointer(&rule[0])) = rights & r.rights
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(fd)
	r.Do("grant", path, unix.SYS_LANDLOCK_ADD_RULE, r.fd.Arg(), initproc.Val(unix.LANDLOCK_RULE_PATH_BENEATH), initproc.Slice(r.Program, rule), initproc.Val(0))
}

// enforce appends steps that put the process under the ruleset. The process must have no_new_privs.
func (r *ruleset) enforce() {
	if r == nil {
		return
	}
	r.Do("restrict by Landlock", "", unix.SYS_LANDLOCK_RESTRICT_SELF, r.fd.Arg(), initproc.Val(0))
	r.Close(r.fd)
}

// reserve opens a descriptor that a child may replace by one of its own whose
// number must be known before the fork. Without it the number would be 0, and a
// directory would replace standard input.
func (l *launch) reserve() error {
	if l.reserved != 0 {
		return nil
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("reserve a descriptor: open %s: %w", os.DevNull, err)
	}
	l.reserved = fd
	return nil
}
