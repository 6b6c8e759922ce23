package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/bwrap"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/wire/jsonwire"
	"golang.org/x/sys/unix"
)

// explainTo prints the sandbox that would be enforced, and by which backend.
func (l *launch) explainTo(w io.Writer) error {
	var b strings.Builder
	backend := l.explainBackend(&b)
	if err := l.explainFiles(&b, backend); err != nil {
		return err
	}
	b.WriteString(l.explainOwners())
	fmt.Fprintf(&b, "network: %s%s\n", [...]string{"off", "on", "only the proxies of the environment"}[l.plan.Network], l.explainSockets(backend))
	l.explainCalls(&b, backend)
	if !l.temporary {
		b.WriteString("$TMPDIR: grants nothing, because it is not a directory for temporary files of this user\n")
	}
	if l.plan.TmpdirLink != "" {
		fmt.Fprintf(&b, "$TMPDIR: grants nothing, because it crosses writable symlink %s\n", l.plan.TmpdirLink)
	}
	fmt.Fprintf(&b, "directory: %s\n", l.commandCwd)
	_, err := io.WriteString(w, b.String())
	return err
}

// explainBackend prints which backend would be used, and returns the text of choose. It returns ""
// if no backend is chosen.
func (l *launch) explainBackend(b *strings.Builder) string {
	switch {
	case l.legacyLandlock:
		b.WriteString("backend: landlock, in the legacy mode: metadata is not protected\n")
		return ""
	case !l.plan.Confined:
		b.WriteString("backend: none: everything may be written\n")
		return ""
	}
	backend := l.choose()
	b.WriteString("backend: " + backend + "\n")
	for _, name := range []string{"broker", "landlock"} {
		if strings.HasPrefix(backend, name) {
			l.backend = name // for the explanation, even if the options do not name this backend
		}
	}
	return backend
}

// explainFiles prints the access to files.
func (l *launch) explainFiles(b *strings.Builder, backend string) error {
	if strings.HasPrefix(backend, "broker") && l.plan.Writable() {
		grants, err := l.plan.BrokerGrants(plan.HostView{})
		if err != nil {
			return err
		}
		b.WriteString(l.plan.DescribeBroker() + plan.DescribeGrants(grants))
		return nil
	}
	if !l.legacyLandlock && !strings.HasPrefix(backend, "landlock") && !strings.HasPrefix(backend, "broker") {
		if strings.HasPrefix(backend, "namespaces") && probeView(true) != nil {
			l.plan.HostProc = l.plan.MayShowHostProc()
			l.plan.NoProc = !l.plan.HostProc
		}
		b.WriteString(l.plan.Describe())
		if l.plan.Confined {
			abi, _ := landlockVersion()
			b.WriteString(l.plan.DescribeWall(abi, l.nesting))
		}
		return nil
	}
	grants, err := l.plan.LandlockGrants(plan.HostView{})
	if l.legacyLandlock {
		grants, err = l.plan.LegacyGrants(plan.HostView{})
	}
	if err != nil {
		return err
	}
	b.WriteString(plan.DescribeGrants(grants))
	if !l.legacyLandlock {
		b.WriteString("modes, owners and times of files: none can be changed\n")
	}
	return nil
}

// explainCalls prints which system calls the filter refuses.
func (l *launch) explainCalls(b *strings.Builder, backend string) {
	if l.plan.Unfiltered {
		b.WriteString("system calls: not filtered\n")
		return
	}
	r := l.rules()
	switch {
	case strings.HasPrefix(backend, "namespaces"):
		r = l.viewRules()
	case strings.HasPrefix(backend, "bwrap"):
		r = (&wrapped{l: l}).rules()
	}
	fmt.Fprintf(b, "system calls: %d instructions of filter; refused:\n", len(r.Filter()))
	if !r.Tracing {
		b.WriteString("  ptrace, process_vm_*\n")
	}
	b.WriteString("  pidfd_getfd, io_uring_*, keyctl, add_key, request_key, bpf, userfaultfd,\n" +
		"  perf_event_open, kexec_*, *_module, open_by_handle_at, quotactl*,\n" +
		"  ioctl TIOCSTI and TIOCLINUX, fcntl F_SETLEASE and F_SETDELEG, setpriority and ioprio_set of groups and\n" +
		"  users, other architectures and x32\n")
	if r.Broker > 0 {
		b.WriteString("  calls that act on other processes by number or descriptor; System V objects and message queues;\n" +
			"  landlock_create_ruleset, setxattrat, removexattrat, file_setattr; prctl PR_SET_DUMPABLE does nothing\n")
	}
	if r.Files {
		b.WriteString("  ioctls except those that only read a file, or act on a terminal, a socket, a namespace or a process\n")
	}
	if !l.nesting {
		b.WriteString("  mount, umount, pivot_root, setns, chroot, the mount API, new namespaces, clone3\n")
	}
	switch l.plan.Network {
	case plan.NetworkOff:
		texts := [...]string{
			"  sockets that are not of the Unix family or carry datagrams, connect, accept, bind, listen, sendto,\n" +
				"  sendmmsg, recvmmsg, shutdown, getpeername, getsockname, getsockopt, setsockopt\n",
			"  sockets that are not of the Unix family or carry datagrams, connect, accept, bind, listen,\n  sendto with an address\n",
			"  sockets that are not TCP, UDP or pairs of Unix sockets; pairs that carry datagrams\n",
			"  sockets other than TCP, UDP and Unix sockets, and Unix datagram sockets\n",
		}
		if r.Broker > 0 {
			texts[plan.SocketsPairs] = "  sockets that are not of the Unix family or carry datagrams, sendto with an address\n"
		}
		b.WriteString(texts[r.Sockets])
	case plan.NetworkProxy:
		b.WriteString("  sockets that are not of the IPv4 or IPv6 family")
		if l.unixSockets {
			b.WriteString(", or of the Unix family")
		}
		b.WriteString("\n")
	}
	if r.Netlink && r.Sockets >= plan.SocketsLoopback {
		b.WriteString("  netlink, except about interfaces and routes\n")
	}
	if r.RootOnly {
		b.WriteString("changes of owners to others than root: do nothing, and succeed\n")
	}
}

// explainSockets describes which sockets of its own a command may use while its network is off, and
// which addresses it can reach besides managed proxies.
func (l *launch) explainSockets(backend string) string {
	switch {
	case l.plan.Network == plan.NetworkOn:
		return ""
	case l.plan.Network == plan.NetworkProxy && strings.HasPrefix(backend, "namespaces") && !l.unixSockets && mediate.CanConnect():
		return "; programs without proxy support reach the hosts of a server's network proxy, too"
	case l.plan.Network == plan.NetworkProxy:
		return "; programs without proxy support reach nothing"
	}
	if strings.HasPrefix(backend, "broker") && l.sockets() == plan.SocketsPairs && l.plan.Writable() {
		return "; its own Unix sockets work, for which the launcher makes all connections; TCP and UDP do not: its loopback would be the host's"
	}
	return [...]string{
		"; of its own sockets, pairs can be made",
		"; of its own sockets, pairs work",
		"; its own loopback and pairs of Unix sockets work",
		"; its own loopback and its own Unix sockets work, for which the launcher makes all connections",
	}[l.sockets()]
}

// choose returns the name of the backend that would be used, and the reason.
func (l *launch) choose() string {
	names := preference
	if l.backend != "auto" {
		names = []string{l.backend}
	}
	var reasons []string
	for _, name := range names {
		err := backends[name].refuse(l)
		if err == nil {
			err = backends[name].probe()
		}
		if err == nil {
			if len(reasons) == 0 {
				return name
			}
			return name + " (" + strings.Join(reasons, "; ") + ")"
		}
		reasons = append(reasons, name+": "+err.Error())
	}
	return "none; nothing would run (" + strings.Join(reasons, "; ") + ")"
}

// probeAll prints, as one JSON object, which backends work on this host, and the version of
// Landlock. The server and `codex doctor` read it. With first, it stops at the first backend that
// works, which is the one that auto uses.
func probeAll(w io.Writer, first bool) error {
	b := []byte(`{"backends":[`)
	for i, name := range preference {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = jsonwire.AppendString(b, name)
		err := backends[name].probe()
		b = append(b, `,"works":`...)
		b = jsonwire.AppendBool(b, err == nil)
		b = append(b, `,"redirects":`...)
		b = jsonwire.AppendBool(b, err == nil && redirects(name))
		if err != nil {
			b = append(b, `,"reason":`...)
			b = jsonwire.AppendString(b, err.Error())
			b = append(b, `,"step":`...)
			b = jsonwire.AppendString(b, failedStep(err))
			var errno syscall.Errno
			errors.As(err, &errno)
			b = append(b, `,"errno":`...)
			b = strconv.AppendInt(b, int64(errno), 10)
		}
		b = append(b, '}')
		if err == nil && first {
			break
		}
	}
	abi, _ := landlockVersion()
	b = append(b, `],"landlock":`...)
	b = strconv.AppendInt(b, int64(abi), 10)
	_, err := w.Write(append(b, "}\n"...))
	return err
}

// redirects reports whether a backend that works here can pass the command's connections to the server. With a
// set-user-ID bwrap it cannot, because the namespaces belong to root.
func redirects(backend string) bool {
	switch backend {
	case "namespaces":
		return mediate.CanRedirect()
	case "bwrap":
		program, err := bwrap.Find()
		if err != nil {
			return false
		}
		info, err := os.Stat(program)
		return err == nil && info.Mode()&os.ModeSetuid == 0 && mediate.CanRedirect()
	default:
		return false
	}
}

// failedStep returns which step of making a sandbox failed: clone (the namespaces), map (the user
// in them), filter (the seccomp filter) or mount (anything else).
func failedStep(err error) string {
	var f *initproc.Failure
	switch {
	case !errors.As(err, &f):
		return "clone"
	case strings.HasPrefix(f.Path, "/proc/self/"):
		return "map"
	case f.Number == unix.SYS_SECCOMP:
		return "filter"
	default:
		return "mount"
	}
}
