// Package runner starts the sandbox launcher: it finds the programs, prepares their
// arguments and descriptors, and reports which backend works and whether a command
// was denied something. The launcher links nothing of it.
package runner

import (
	"errors"
	"os"
	"os/exec"

	"codex.internal/pkg/sandbox/permissions"
)

// ErrUnenforceable says that this host cannot confine anything.
var ErrUnenforceable = errors.New("sandbox intent cannot be enforced on this executor")

// Backends are the names that Options.Backend may have.
var Backends = []string{"auto", "namespaces", "bwrap", "landlock"}

// Options say where a Runtime finds its programs.
type Options struct {
	// Launcher and Helper are paths of codex-linux-sandbox and codex-fs. When
	// they are empty, programs of these names beside this one are used.
	Launcher, Helper string
	// Self says that this program is both itself, by its arg0, as codex is; it
	// is used when there are no others beside it.
	Self bool
	// Backend is one of Backends; empty: auto.
	Backend string
	// Stricter lets Landlock enforce more than a client asks for where it
	// cannot be exact, instead of refusing: in a directory that holds something
	// protected or denied nothing new can be made, and files keep their modes,
	// owners and times.
	Stricter bool
	// NoLocalSockets leaves commands without a network no sockets of their own
	// but pairs, with the operations that Codex CLI leaves.
	NoLocalSockets bool
	// Janitor returns a connection to a janitor for one sandbox (sandbox.ConnectJanitor),
	// which the Runtime closes; nil: the launcher starts a janitor of its own. It is called
	// for what may write.
	Janitor func() *os.File
	// Tasks returns RLIMIT_NPROC for commands (process.Supervisor.CommandTasks); 0, or nil: that of this program.
	Tasks func() uint64
	// Output runs the probe of the backends and returns what it writes; nil: as
	// (*exec.Cmd).Output. A program that reaps children which it does not know would
	// reap the probe, and take every backend for broken: it must run it itself.
	Output func(*exec.Cmd) ([]byte, error)
}

// Confinement says how a command or a file request must be confined.
type Confinement struct {
	Profile permissions.Profile
	// PolicyCwd is what relative patterns are relative to; CommandCwd is where
	// the command starts. Both are absolute.
	PolicyCwd, CommandCwd string
	// LegacyLandlock and ManagedNetwork are as the launcher's options
	// --use-legacy-landlock and --allow-network-for-proxy.
	LegacyLandlock, ManagedNetwork bool
	// ProxyPorts, if not nil, are the only ports of this machine on which the
	// proxies of a managed network may be. UnixSockets allows Unix sockets in a
	// managed network.
	ProxyPorts  []uint16
	UnixSockets bool
	// Redirect asks for the connections of a managed network that go past its
	// proxies, and for its DNS queries: see Command.Egress.
	Redirect bool
	// Reading makes everything read-only, as MakeReading does.
	Reading bool
	// Within is the directory that permissions.Scope.Within says; "": none. The file system
	// helper may not read outside of it either.
	Within string
}

// Status tells what a Runtime has chosen.
type Status struct {
	// Backend is the one that is tried first, as the probe found that it works,
	// or auto.
	Backend string
	// Reason says why it is that one, and not an earlier one.
	Reason string
	// Complete says that the backend works here and enforces every plan:
	// Landlock alone refuses some.
	Complete bool
}
