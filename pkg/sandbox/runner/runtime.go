// Package runner starts the sandbox launcher. It finds the programs, prepares their arguments and
// descriptors, and reports which backend works and whether a command was likely denied an
// operation. The launcher does not link this package.
package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/permissions"
)

// ErrUnenforceable means that this host cannot confine anything.
var ErrUnenforceable = errors.New("sandbox intent cannot be enforced on this executor")

// noProgram is the text of the error of a runtime without one of its programs, which is that of Codex CLI.
const noProgram = "missing %s executable path"

// NamesMissingProgram reports whether the text of an error says that a server has no launcher or no helper. codex itself
// is both; another program that embeds the server needs their files.
func NamesMissingProgram(text string) bool {
	return strings.Contains(text, fmt.Sprintf(noProgram, launcherName)) || strings.Contains(text, fmt.Sprintf(noProgram, helperName))
}

// Names of the programs, under which a single binary can also be started.
const (
	launcherName = sandbox.LauncherName
	helperName   = "codex-fs"
)

// Backends are the names that Options.Backend may have.
var Backends = []string{"auto", "namespaces", "bwrap", "broker", "landlock"}

// Options configure where a Runtime finds its programs.
type Options struct {
	// Launcher and Helper are paths of codex-linux-sandbox and codex-fs. When
	// they are empty, programs of these names beside this one are used.
	Launcher, Helper string
	// Self means that this program can act as both, by its arg0, as codex can.
	// It is used if there are no separate programs beside it.
	Self bool
	// Backend is one of Backends; empty: auto.
	Backend string
	// Stricter permits Landlock to enforce more than a client requests where it cannot be exact,
	// instead of refusing: in a directory that contains a protected or denied path no new files can
	// be created, and files keep their modes, owners and times.
	Stricter bool
	// NoLocalSockets restricts commands without a network to socket pairs, with
	// the operations that Codex CLI permits.
	NoLocalSockets bool
	// Janitor returns a connection to a janitor for one sandbox (sandbox.ConnectJanitor), which the
	// Runtime closes. nil: the launcher starts its own janitor. It is called for commands and
	// requests that may write.
	Janitor func() *os.File
	// Tasks returns RLIMIT_NPROC for commands (process.Supervisor.CommandTasks); 0, or nil:
	// this program's limit.
	Tasks func() uint64
	// Output runs the probe of the backends and returns its output; nil:
	// (*exec.Cmd).Output is used. A program that reaps unknown children would reap
	// the probe, and treat every backend as broken; it must run the probe itself.
	Output func(*exec.Cmd) ([]byte, error)
}

// Confinement describes how a command or a file request must be confined.
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
	// Redirect requests the connections of a managed network that bypass its proxies, and its DNS
	// queries: see Command.Egress.
	Redirect bool
	// Reading makes everything read-only, as MakeReading does.
	Reading bool
	// Within is the directory of permissions.Scope.Within; "": none. The file system helper
	// may not read outside of it either.
	Within string
}

// Status describes the choice of a Runtime.
type Status struct {
	// Backend is the one that is tried first, as the probe found that it works,
	// or auto.
	Backend string
	// Reason is why it was chosen, and not an earlier one.
	Reason string
	// Complete means that the backend works here and enforces every plan:
	// Landlock alone refuses some, and so does the broker.
	Complete bool
	// Writes means that the backend works here and enforces the usual plans, in which a workspace may be
	// written: Landlock alone refuses them.
	Writes bool
	// Redirects means that the launcher can pass the connections of a managed network that bypass
	// its proxies to the server: see Confinement.Redirect.
	Redirects bool
}
