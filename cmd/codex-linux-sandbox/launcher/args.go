package launcher

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
)

// Exit codes of the launcher. If the command ran, the exit code is that of the command: its status,
// or 128 plus the number of the signal that ended it.
const (
	exitUsage      = 2                   // the arguments are invalid; nothing ran
	exitFailed     = initproc.ExitFailed // the sandbox could not be made; nothing ran
	exitProxy      = 101                 // the managed proxies cannot be used; nothing ran
	exitCannotExec = 126                 // the command may not be executed
	exitNotFound   = 127                 // the command does not exist
)

// options is the parsed command line, and the data of a job. A descriptor is -1 if it is not given.
// When you add a field, put it into its section.
type options struct {
	// The mode, if the launcher does not run a command in a sandbox.
	help              bool
	probe, probeFirst bool   // print which backends work; probeFirst stops at the first one
	explain           bool   // print the sandbox that would be enforced
	filterOnly        bool   // make no view: the caller has made it
	stage             string // run the second stage of bwrap, with this data of the first stage; see bwrapstage.go
	standbyFD         int    // wait for a job on this socket
	janitorSocketFD   int    // run a janitor, with this socket
	reachFD           int    // create sockets in this network; see mediate.ReachSockets
	socketsFD         int    // and send them over this socket

	// The policy.
	profile            string   // a permission profile
	profileFD          int      // the descriptor to read it from
	policyCwd          string   // the directory of its project_roots
	within             string   // granted paths must lie below this directory; "": anywhere
	readOnly, writable bool     // the short forms of a profile
	roots              []string // writable roots of a short form
	network            bool     // with a short form: the network is on
	reading            bool     // nothing may be written, whatever the profile grants
	proxied            bool     // the command can reach only proxies over the network
	routeSpec          string   // with proxied: routes that the caller has opened already
	proxyPorts         string   // with proxied and hasProxyPorts: the permitted ports of proxies
	hasProxyPorts      bool
	unixSockets        bool // with proxied: the command may connect to Unix sockets outside
	noLocalSockets     bool // while the network is off, the command gets only socket pairs
	nesting            bool // the command may create its own namespaces and mounts
	noProc             bool // /proc is empty

	// How the policy is enforced.
	backend        string
	legacyLandlock bool
	stricter       bool // Landlock may enforce more than was requested
	landlockAtMost int  // use no newer version of Landlock; 0: any
	inDomain       bool // this is the second launcher of the backend broker

	// The command.
	command    []string
	commandCwd string
	arg0       string // argv[0] of the command, with hasArg0
	hasArg0    bool
	execFD     int  // execute this descriptor instead of command[0]
	envFD      int  // the descriptor to read its environment from
	helper     bool // the command is the file system helper
	tasks      int  // its RLIMIT_NPROC; 0: the launcher's

	// The caller.
	selfFD    int  // the launcher's program, which the command must not inherit
	refusalFD int  // the server reads here why nothing ran
	janitorFD int  // a connection to the server's janitor
	egressFD  int  // a socket to the server, for the command's connections
	reportFD  int  // a socket to the server, for the exit code; part of a job
	cgroupFD  int  // directory of the cgroup for new processes; part of a job
	limited   bool // that cgroup has limits: no process may start elsewhere
	plain     bool // a person reads the errors: say that the command does not exist as a shell does
}

// argv0 returns argv[0] of the command.
func (o *options) argv0() string {
	if o.hasArg0 {
		return o.arg0
	}
	return o.command[0]
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

const usage = `Usage: codex-linux-sandbox [OPTIONS] -- COMMAND [ARG...]

Runs COMMAND in a sandbox. What it may read, write and reach is either a
permission profile or one of the short forms.

  --permission-profile JSON   a PermissionProfile with native paths
  --permission-profile-fd N   the same, read from an inherited descriptor
  --sandbox-policy-cwd DIR    what the profile's project_roots stand for
  --command-cwd DIR           where COMMAND starts (default: the policy's)
  --allow-network-for-proxy   reach the proxies of HTTP_PROXY and the like on
                              this host, and nothing else
  --proxy-route-spec JSON     routes to proxies that the caller has opened
  --proxy-ports N,...         refuse proxies on other ports of this host
  --allow-unix-sockets        with --allow-network-for-proxy: COMMAND may use Unix
                              sockets, also those of this host that it sees
  --use-legacy-landlock       Landlock alone, without protected metadata
  --no-proc                   leave /proc empty

  --read-only                 read everything, write nothing, no network
  --workspace-write           write also below the current directory, /tmp
                              and $TMPDIR
  --writable-root DIR         and below DIR (may be repeated)
  --network                   the network is on

  --backend NAME              auto, namespaces, bwrap, broker or landlock
  --stricter                  let Landlock enforce more than was asked for where it
                              cannot be exact: nothing new can then be made directly
                              in a directory that holds something protected
  --no-local-sockets          as in Codex CLI: while the network is off, no sockets of
                              COMMAND's own but pairs; no netlink, no tracing
  --allow-nesting             let COMMAND make namespaces and mounts of its own
  --explain                   print what would be enforced; run nothing
  --probe                     print what this host can enforce; run nothing
  --probe-first               the same, up to the first backend that works
  --argv0 NAME                COMMAND's name for itself
  --exec-fd N                 execute an inherited descriptor as COMMAND
  --env-fd N                  read COMMAND's environment, each variable with a
                              NUL behind it, from an inherited descriptor

Exit codes: COMMAND's own; 128 and the number of the signal that ended it;
2 wrong usage, 101 the managed proxies cannot be used, 125 the sandbox could not
be made, 126 COMMAND may not be executed, 127 there is no such COMMAND.
`

// parse reads the command line. Every error is a *usageError.
func parse(args []string) (*options, error) {
	o := &options{
		backend: "auto", profileFD: -1, execFD: -1, envFD: -1, selfFD: -1, refusalFD: -1, standbyFD: -1, janitorFD: -1,
		janitorSocketFD: -1, egressFD: -1, reachFD: -1, socketsFD: -1, reportFD: -1, cgroupFD: -1,
	}
	words, flags, numbers := o.tables()
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		if args[0] == "--" {
			o.command = args[1:]
			break
		}
		if !strings.HasPrefix(name, "-") {
			// The command may follow without a separator.
			o.command = args
			break
		}
		args = args[1:]
		if flag := flags[name]; flag != nil {
			if joined {
				return nil, &usageError{fmt.Sprintf("unexpected value for '%s'", name)}
			}
			*flag = true
			continue
		}
		word, number := words[name], numbers[name]
		if word == nil && number == nil && name != "--writable-root" {
			return nil, &usageError{fmt.Sprintf("unexpected argument '%s' found", name)}
		}
		if !joined {
			if len(args) == 0 || args[0] == "--" {
				return nil, &usageError{fmt.Sprintf("a value is required for '%s' but none was supplied", name)}
			}
			value, args = args[0], args[1:]
		}
		switch {
		case word != nil:
			*word = value
			o.hasArg0 = o.hasArg0 || name == "--argv0"
			o.hasProxyPorts = o.hasProxyPorts || name == "--proxy-ports"
		case number != nil:
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return nil, &usageError{fmt.Sprintf("invalid descriptor '%s' for '%s'", value, name)}
			}
			*number = n
		default:
			o.roots = append(o.roots, value)
		}
	}
	return o, o.check()
}

// tables returns the options with a word, without a value, and with a number.
func (o *options) tables() (words map[string]*string, flags map[string]*bool, numbers map[string]*int) {
	words = map[string]*string{
		"--sandbox-policy-cwd": &o.policyCwd, "--command-cwd": &o.commandCwd,
		"--permission-profile": &o.profile, "--proxy-route-spec": &o.routeSpec, "--proxy-ports": &o.proxyPorts,
		"--backend": &o.backend, "--argv0": &o.arg0, "--second-stage": &o.stage, "--within": &o.within,
	}
	flags = map[string]*bool{
		"--use-legacy-landlock": &o.legacyLandlock, "--allow-network-for-proxy": &o.proxied, "--allow-unix-sockets": &o.unixSockets,
		"--no-proc": &o.noProc, "--explain": &o.explain, "--probe": &o.probe, "--probe-first": &o.probeFirst,
		"--help": &o.help, "-h": &o.help, "--read-only": &o.readOnly,
		"--workspace-write": &o.writable, "--network": &o.network,
		"--allow-nesting": &o.nesting, "--no-local-sockets": &o.noLocalSockets, "--stricter": &o.stricter,
		"--trusted-helper": &o.helper, "--reading": &o.reading, "--apply-seccomp-then-exec": &o.filterOnly,
		"--in-domain": &o.inDomain, "--limited": &o.limited, "--plain-errors": &o.plain,
	}
	numbers = map[string]*int{
		"--permission-profile-fd": &o.profileFD, "--exec-fd": &o.execFD, "--env-fd": &o.envFD, "--self-fd": &o.selfFD,
		"--refusal-fd": &o.refusalFD, "--standby-fd": &o.standbyFD, "--janitor-fd": &o.janitorFD, "--janitor-socket-fd": &o.janitorSocketFD,
		"--egress-fd": &o.egressFD, "--reach-fd": &o.reachFD, "--sockets-fd": &o.socketsFD, "--tasks": &o.tasks,
		"--report-fd": &o.reportFD, "--cgroup-fd": &o.cgroupFD,
		"--landlock-at-most": &o.landlockAtMost,
	}
	return words, flags, numbers
}

// check returns an error if options exclude each other or a required one is missing.
func (o *options) check() error {
	short := o.readOnly || o.writable
	switch {
	case o.help || o.probe || o.probeFirst || o.stage != "" || o.standbyFD >= 0 || o.janitorSocketFD >= 0 || o.reachFD >= 0:
		return nil
	case o.readOnly && o.writable:
		return &usageError{"--read-only and --workspace-write exclude each other"}
	case short && (o.profile != "" || o.profileFD >= 0):
		return &usageError{"--permission-profile and the short forms exclude each other"}
	case !o.writable && len(o.roots) > 0:
		return &usageError{"--writable-root needs --workspace-write"}
	case o.network && !short:
		return &usageError{"--network needs --read-only or --workspace-write; a profile says it itself"}
	case o.within != "" && (!path.IsAbs(o.within) || o.legacyLandlock):
		return &usageError{"--within needs an absolute path, and cannot be combined with --use-legacy-landlock"}
	case !short && o.policyCwd == "":
		return &usageError{"the following required arguments were not provided:\n  --sandbox-policy-cwd <DIR>"}
	case backends[o.backend] == nil && o.backend != "auto":
		return &usageError{fmt.Sprintf("unknown backend '%s'; expected auto, namespaces, bwrap, broker or landlock", o.backend)}
	}
	return nil
}

// These errors are for a command line that is well formed but requests nothing.
var (
	//lint:ignore ST1005 Codex CLI's words
	errNoCommand = errors.New("No command specified to execute.")
	errNoProfile = errors.New("missing permission profile configuration")
	errFilter    = errors.New("--apply-seccomp-then-exec is incompatible with --use-legacy-landlock")
	errRoutes    = errors.New("managed proxy mode requires --proxy-route-spec")
	errDirect    = errors.New("permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock")
)
