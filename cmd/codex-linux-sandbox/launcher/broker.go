package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/broker"
	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// brokered is the backend for hosts without namespaces whose policy protects paths below writable ones. Landlock grants no change of
// the writable roots, and the launcher makes each permitted change for the command: see package broker.
//
// The launcher first confines itself to the roots by Landlock, and executes itself again: a Landlock domain holds for one thread and
// those that it starts, and the Go runtime has started others by then. The command's domain is below that of the launcher, so that the
// launcher can read its memory.
type brokered struct{}

func (brokered) probe() error {
	abi, err := landlockVersion()
	switch {
	case err != nil:
		return err
	case abi < plan.WallABI:
		return fmt.Errorf("this kernel has version %d of Landlock; %d (Linux 5.19) is needed to rename files across directories", abi, plan.WallABI)
	}
	return broker.Probe()
}

func (brokered) refuse(l *launch) error {
	if l.nesting {
		return errors.New("it cannot let the command make namespaces and mounts")
	}
	if abi, err := landlockVersion(); err == nil && abi >= plan.LandlockABI && l.backend == "auto" && !l.plan.Writable() {
		return errors.New("nothing may be written, so there is nothing to do for it")
	}
	if err := l.plan.BrokerRefusal(); err != nil {
		return err
	}
	return broker.RefuseRoots(l.plan)
}

func (b brokered) run(l *launch) (int, error) {
	abi, err := landlockVersion()
	if err == nil && !l.inDomain {
		err = b.probe()
	}
	if err != nil {
		return 0, &unavailable{err}
	}
	if !l.plan.Writable() && abi >= plan.LandlockABI {
		l.backend = "landlock" // nobody would answer calls that the filter stops
		return landlock{}.run(l)
	}
	if !l.inDomain {
		return 0, l.enterDomain(abi)
	}
	grants, err := l.plan.BrokerGrants(plan.HostView{})
	if err != nil {
		return 0, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	policy := broker.PolicyOf(l.plan)
	l.plan.Undo = nil // the policy does not let these names be created, so nothing has to be removed
	s, err := l.prepare(true)
	if err != nil {
		return 0, err
	}
	defer s.release()
	rules := l.rules()
	init, command := s.processes.Init, s.processes.Command
	l.beginWithoutNamespaces(init)
	r := newRuleset(command, abi, plan.LandlockOf(abi).Files, l, l.plan.Network == plan.NetworkOff)
	r.grantPaths(grants)
	if broker.Control {
		r.grantPaths(l.plan.BrokerDomain())
	}
	r.grantInherited(l.passed)
	r.grantProgram(l.execFD)
	r.enforce()
	reopen(command, l.reopened)
	listener := command.Get("install the seccomp filter", "that asks", unix.SYS_SECCOMP, initproc.Val(unix.SECCOMP_SET_MODE_FILTER),
		initproc.Val(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), initproc.Filter(command, rules.Filter()))
	command.Do("keep", "the listener", unix.SYS_DUP3, listener.Arg(), initproc.Val(l.reserved), initproc.Val(unix.O_CLOEXEC))
	command.HandOut("the listener", pair[1], l.reserved)
	command.Close(listener)
	command.Do("close", "the listener", unix.SYS_CLOSE, initproc.Val(l.reserved))
	s.serve = func(pid int) {
		_ = unix.Close(pair[1])
		go l.broker(pair[0], policy, abi, pid)
	}
	return s.run()
}

// broker receives the listener and serves the command, until it has ended.
func (l *launch) broker(from int, policy *broker.Policy, abi, init int) {
	defer unix.Close(from)
	// The command's process has the umask already, and the broker applies it.
	mask := unix.Umask(0)
	oob := make([]byte, unix.CmsgSpace(4))
	_, size, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		_, size, _, _, err = unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	}
	listener := mediate.Descriptors(oob[:size])
	if err != nil || len(listener) != 1 {
		return // the command's process has failed, and reports why
	}
	defer unix.Close(listener[0])
	if err := broker.New(listener[0], policy, abi, init, uint32(mask), l.plan.Network == plan.NetworkOff).Serve(); err != nil {
		fmt.Fprintf(l.stderr, "codex-linux-sandbox: %v\n", err)
	}
}

// enterDomain confines this thread to the roots and executes the launcher again with the same job. It returns only if that fails.
func (l *launch) enterDomain(abi int) error {
	args, err := l.again()
	if err != nil {
		return err
	}
	p := initproc.New()
	noNewPrivileges(p)
	domain := *l
	domain.plan = &plan.Plan{Network: plan.NetworkOn}
	r := newRuleset(p, min(abi, plan.LandlockABI-1), plan.LandlockOf(abi).Files&plan.WallDirectory, &domain, false)
	r.grantPaths(l.plan.BrokerDomain())
	r.grantInherited(l.passed)
	r.enforce()
	if err := p.Run(); err != nil {
		return fmt.Errorf("confine the broker: %w", err)
	}
	if l.janitor != nil && l.janitor.own >= 0 && !l.janitor.told {
		l.janitor.forget() // the second launcher would not reap it
	}
	return fmt.Errorf("execute the launcher again: %w", unix.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), os.Environ()))
}

// again returns the arguments for a launcher that continues with this job, and makes it inherit the descriptors.
func (l *launch) again() ([]string, error) {
	o := *l.options
	o.backend, o.inDomain = "broker", true
	o.janitorFD, o.egressFD, o.selfFD = -1, -1, -1
	var err error
	if o.envFD, err = memoryFile(joinEnv(l.plainEnv)); err != nil {
		return nil, err
	}
	if o.profile != "" {
		if o.profileFD, err = memoryFile([]byte(o.profile)); err != nil {
			return nil, err
		}
		o.profile = ""
	}
	keep := []int{o.profileFD, o.envFD, o.execFD, o.refusalFD, o.reportFD, o.cgroupFD}
	for _, f := range l.reopened {
		keep = append(keep, f.fd)
	}
	for _, fd := range keep {
		if fd >= 0 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil && !errors.Is(err, unix.EBADF) {
				return nil, fmt.Errorf("keep descriptor %d: %w", fd, err)
			}
		}
	}
	return o.arguments(), nil
}

// joinEnv returns an environment with a NUL behind each variable.
func joinEnv(env []string) (b []byte) {
	for _, kv := range env {
		b = append(append(b, kv...), 0)
	}
	return b
}

// memoryFile returns a descriptor of a file in memory.
func memoryFile(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("job", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("make a file in memory: %w", err)
	}
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil {
			return -1, fmt.Errorf("write a file in memory: %w", err)
		}
		text = text[n:]
	}
	return fd, nil
}

// closeOwn makes the kernel close the launcher's own descriptors when the command is executed. Those of the first launcher were
// closed by the execution of the second otherwise.
func (o *options) closeOwn() {
	for _, fd := range []int{o.profileFD, o.envFD, o.execFD, o.refusalFD, o.reportFD, o.cgroupFD} {
		if fd > 0 {
			unix.CloseOnExec(fd)
		}
	}
}

// arguments returns the arguments that parse turns into these options.
func (o *options) arguments() (args []string) {
	words, flags, numbers := o.tables()
	for name, to := range words {
		if *to != "" || name == "--argv0" && o.hasArg0 || name == "--proxy-ports" && o.hasProxyPorts {
			args = append(args, name+"="+*to)
		}
	}
	for name, to := range flags {
		if *to {
			args = append(args, name)
		}
	}
	for name, to := range numbers {
		if *to > 0 {
			args = append(args, name+"="+strconv.Itoa(*to))
		}
	}
	for _, root := range o.roots {
		args = append(args, "--writable-root="+root)
	}
	slices.Sort(args)
	return append(append(args, "--"), o.command...)
}
