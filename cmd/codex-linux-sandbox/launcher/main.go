package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/host/limiter"
	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// maxEnvironment bounds an environment that is read from a descriptor, in bytes: exec accepts less.
const maxEnvironment = 16 << 20

// maxProfile bounds a profile that is read from a descriptor, in bytes: several times the maximum
// number of entries with paths of the maximum length.
const maxProfile = 16 << 20

// usualText is the initial size of the buffer for an environment or a profile.
const usualText = 4 << 10

// launch is one run of the launcher. When you add a field, put it into its section.
type launch struct {
	*options
	stderr io.Writer

	// The command and its environment. They come from the options and the launcher's own environment.
	env      []string
	plainEnv []string // the environment before it is changed for proxies
	terminal bool     // standard input is the command's own terminal

	// Its permissions: the profile, and the plan that follows from it.
	decoded   permissions.Profile // the profile of the options
	prof      permissions.Profile // the same profile, without a $TMPDIR that must grant nothing
	scope     permissions.Scope   // the meaning of the profile's symbolic paths
	temporary bool                // the profile may grant $TMPDIR; see plan.IsTemporary
	plan      *plan.Plan

	// The descriptors that the launcher has inherited; see takeInherited.
	passed    []int           // the command gets them unchanged
	reopened  []inheritedFile // the command gets them changed, or not at all
	handed    bool            // one of passed is a Unix socket, over which more sockets can arrive
	inspected plan.Sockets    // the sockets of its own that the command could have when the descriptors were inspected

	// Processes and sockets that serve the command from outside.
	proxies *proxies // nil: the network is not proxied
	janitor *janitor // nil: no janitor yet

	// How the launcher was started, and what it has determined about the machine.
	fromJob  bool // the launcher waited for a job: its other descriptors are its own
	unsized  bool // bwrap has no option --size
	reserved int  // a descriptor that children may replace; 0: see reserve
}

// backend enforces plans. run returns when the command has ended. It returns an *unavailable if the
// backend does not work on the host; then nothing ran. refuse returns the reason why the backend
// cannot enforce a plan, or nil.
type backend interface {
	refuse(l *launch) error
	run(l *launch) (exitCode int, err error)
	probe() error
}

var backends = map[string]backend{
	"namespaces": namespaces{}, "bwrap": bubblewrap{}, "broker": brokered{}, "landlock": landlock{},
}

// preference is the order in which auto tries the backends.
var preference = []string{"namespaces", "bwrap", "broker", "landlock"}

// unavailable is the error of a backend that does not work on this host.
type unavailable struct{ err error }

func (u *unavailable) Error() string { return u.err.Error() }
func (u *unavailable) Unwrap() error { return u.err }

// Main runs the launcher with its arguments and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == limiter.Arg {
		fmt.Fprintln(stderr, limiter.Run(args[1:]))
		return exitFailed
	}
	// The kernel sends the parent-death signal of a child when the thread that forked the child
	// ends. The launcher's own signal was set for the first thread.
	runtime.LockOSThread()
	o, err := parse(args)
	waits := err == nil && o.standbyFD >= 0
	if waits {
		closeSelf(o)
		o, err = awaitJob(o.standbyFD)
		if errors.Is(err, warmstart.ErrNoJob) {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "error: %v\n\nFor more information, try '--help'.\n", err)
		return exitUsage
	}
	l := &launch{options: o, stderr: stderr, fromJob: waits}
	closeSelf(o)
	if o.landlockAtMost > 0 {
		landlockAtMost = o.landlockAtMost
	}
	if o.inDomain {
		o.closeOwn()
	}
	if o.refusalFD >= 0 {
		// The command must not inherit it: the server treats its content as the launcher's message.
		unix.CloseOnExec(o.refusalFD)
	}
	if o.egressFD >= 0 {
		// Nor may the command inherit this one: the server connects sockets for any process that asks over it.
		unix.CloseOnExec(o.egressFD)
	}
	l.takeJanitor()
	var code int
	switch {
	case o.janitorSocketFD >= 0:
		err = runJanitor(o.janitorSocketFD)
	case o.reachFD >= 0:
		err = mediate.ReachSockets(o.reachFD, o.socketsFD)
	case o.help:
		_, err = io.WriteString(stdout, usage)
	case o.probe, o.probeFirst:
		err = probeAll(stdout, o.probeFirst)
	case o.stage != "":
		code, err = l.secondStage()
	default:
		code, err = l.run(stdout)
	}
	if err == nil {
		return code
	}
	var wrong *usageError
	if errors.As(err, &wrong) {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return exitUsage
	}
	if code == 0 {
		code = exitFailed
	}
	if code == exitFailed && o.stage != "" && tellFirstStage(err) {
		return code
	}
	if (code == exitFailed || code == exitProxy) && o.refusalFD >= 0 {
		_, _ = unix.Write(o.refusalFD, []byte(err.Error()))
	}
	if failed := (*notExecuted)(nil); o.plain && errors.As(err, &failed) {
		fmt.Fprintf(stderr, "Error: %s\n", failed.plain())
		return code
	}
	fmt.Fprintf(stderr, "codex-linux-sandbox: %v\n", err)
	return code
}

// closeSelf closes the descriptor of the launcher's program, which the command must not have.
func closeSelf(o *options) {
	if o.selfFD >= 0 {
		_ = unix.Close(o.selfFD)
	}
}

// run does the launcher's work, from the options to the end of the command.
func (l *launch) run(stdout io.Writer) (int, error) {
	if err := limiter.FreeTasks(); err != nil {
		return 0, fmt.Errorf("cannot make the sandbox: %w", err)
	}
	if err := l.policy(); err != nil {
		return 0, err
	}
	if len(l.command) == 0 && !l.explain {
		return 0, errNoCommand
	}
	if err := l.startAhead(); err != nil {
		return 0, err
	}
	if err := l.makePlan(); err != nil {
		return 0, err
	}
	switch {
	case l.filterOnly && l.legacyLandlock:
		return 0, errFilter
	case l.filterOnly && l.proxied && l.routeSpec == "":
		return 0, errRoutes
	case l.filterOnly:
		return l.execDirectly()
	}
	if l.explain {
		return 0, l.explainTo(stdout)
	}
	if !l.legacyLandlock && !l.plan.Confined {
		return l.execDirectly()
	}
	if err := l.takeInherited(); err != nil {
		return 0, err
	}
	if err := l.reserve(); err != nil {
		return 0, err
	}
	return l.runWithRetry()
}

// planTries bounds how often the launcher makes a new plan because the file system has changed
// while it carried the last one out.
const planTries = 10

// changed is the error for a plan that could not be carried out because a file is missing or has
// appeared meanwhile. Nothing has run.
type changed struct{ err error }

func (c *changed) Error() string { return c.err.Error() }
func (c *changed) Unwrap() error { return c.err }

// runWithRetry runs the command. If files changed meanwhile, it tries again with a new plan: other
// processes, including other sandboxes, work in the same directories.
func (l *launch) runWithRetry() (code int, err error) {
	l.plainEnv = l.env
	if err := l.openProxies(); err != nil {
		return exitProxy, err
	}
	for range planTries {
		if l.legacyLandlock {
			code, err = landlock{}.run(l)
		} else {
			code, err = l.runConfined()
		}
		var again *changed
		if !errors.As(err, &again) {
			return code, err
		}
		if err := l.prepareAgain(); err != nil {
			return 0, err
		}
	}
	return 0, err
}

// openProxies opens the routes to the proxies of the environment, if the network is proxied.
func (l *launch) openProxies() (err error) {
	if !l.proxied {
		return nil
	}
	l.env = l.plainEnv
	if l.proxies, err = l.findProxies(); err != nil {
		return fmt.Errorf("failed to prepare host proxy routing bridge: %w", err)
	}
	l.env = l.proxies.Env
	return nil
}

// rules returns the rules of the command's filter.
func (l *launch) rules() plan.Rules {
	abi := 0
	if l.backend == "broker" && l.plan.Confined && !l.filterOnly && !l.legacyLandlock { // otherwise nobody answers the calls
		abi, _ = landlockVersion()
	}
	return plan.Rules{
		Sharing: abi > 0, Broker: abi, Helper: l.helper,
		Network: l.plan.Network, Sockets: l.sockets(), Nesting: l.nesting, UnixSockets: l.unixSockets,
		Files: l.plan.Confined && l.plan.Root != plan.RootWritable, Connect: l.connects(), Handed: l.handed,
	}
}

// viewRules returns the rules of a command in namespaces of its own. With --no-local-sockets it gets no more than in Codex CLI's sandbox.
func (l *launch) viewRules() plan.Rules {
	r := l.rules()
	more := !l.noLocalSockets && !l.helper
	r.Tracing = more
	// With network proxies a program would learn that there is only the loopback, and getaddrinfo with AI_ADDRCONFIG, which many
	// programs use, would find no address of a name.
	r.Netlink = more && l.plan.OwnNetwork() && l.plan.Network != plan.NetworkProxy
	// In a user namespace of its own a command of --allow-nesting can have more users.
	r.RootOnly = !l.helper && !l.nesting && os.Geteuid() == 0 && os.Getegid() == 0
	return r
}

// sockets returns the maximum set of sockets that the command may create for itself. The helper of
// file requests creates none. A backend without a network namespace permits only pairs. So does a
// policy that permits no writing: a command that only reads needs less of the kernel.
func (l *launch) sockets() plan.Sockets {
	switch {
	case l.plan.Network != plan.NetworkOff || l.noLocalSockets || l.helper:
		return plan.SocketsFew
	case l.filterOnly || l.legacyLandlock || l.backend == "landlock" || l.backend == "broker" || !l.plan.Confined || !l.plan.OwnNetwork() || !l.plan.Writable():
		return plan.SocketsPairs
	case !mediate.CanConnect():
		return plan.SocketsLoopback
	}
	return plan.SocketsOwn
}

// connects reports whether the launcher makes the connections of a command whose network goes through proxies,
// if the backend supports that. It does not if the command may use Unix sockets outside, because the launcher
// would connect only to sockets of the sandbox.
func (l *launch) connects() bool {
	return l.plan.OwnNetwork() && l.plan.Network == plan.NetworkProxy && !l.filterOnly && !l.unixSockets && mediate.CanConnect()
}

// redirects reports whether the command's connections are redirected to the server, if the backend supports that.
func (l *launch) redirects() bool { return l.egressFD >= 0 && l.connects() }

// prepareAgain prepares another try: a new plan of the current files, and new proxies, because
// those of the last try may be in use.
func (l *launch) prepareAgain() error {
	if err := l.openProxies(); err != nil {
		return err
	}
	l.grantTmpdir()
	if err := l.makePlan(); err != nil {
		return err
	}
	if l.inspected != l.sockets() {
		// Scenario: the only writable directory was missing when the inherited descriptors were inspected, so the command could not
		// connect sockets and was given an inherited socket. The directory exists now, so the command could connect that socket.
		return errors.New("cannot make the sandbox: a writable path of the policy was created or has vanished while the sandbox was being prepared; try again")
	}
	return nil
}

// runConfined runs the command with the backend of the options. With auto it uses the first backend
// that works here and can enforce the plan.
func (l *launch) runConfined() (int, error) {
	if err := kernelRefusal(); err != nil {
		return 0, fmt.Errorf("no backend can be used here: %w", err)
	}
	names := preference
	if l.backend != "auto" {
		names = []string{l.backend}
	}
	var all []error
	for i, name := range names {
		b := backends[name]
		if i > 0 {
			// The previous backend has adapted the plan to the files that it found, and has removed its placeholders.
			if err := l.prepareAgain(); err != nil {
				return 0, err
			}
		}
		if err := b.refuse(l); err != nil {
			all = append(all, fmt.Errorf("%s: cannot enforce this: %w", name, err))
			continue
		}
		code, err := b.run(l)
		var not *unavailable
		if !errors.As(err, &not) {
			return code, err
		}
		all = append(all, fmt.Errorf("%s: cannot be used here: %w", name, err))
	}
	return 0, errors.Join(all...)
}
