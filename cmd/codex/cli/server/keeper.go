package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/limiter"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
)

// maxKeeperSettings bounds the settings that a keeper reads from its standard input, in bytes.
const maxKeeperSettings = 64 << 10

// keeperProcessors bounds the processors that a keeper uses at a time. A keeper copies the output of one process, and hundreds of
// keepers may run, each with a thread for each processor.
const keeperProcessors = 2

// keeperSettings are the options of a server that its keepers share.
type keeperSettings struct {
	Version        string   `json:"version"`
	CodexHome      string   `json:"codexHome"`
	Backend        string   `json:"backend"`
	Stricter       bool     `json:"stricter"`
	NoLocalSockets bool     `json:"noLocalSockets"`
	Cgroups        bool     `json:"cgroups"`
	Hidden         []string `json:"hidden"` // paths to hide from sandboxed commands
	Private        []string `json:"private"`

	Limits   execproto.ProcessLimits `json:"limits"`
	NoLimits string                  `json:"noLimits"` // see process.Options

	TraceCommands bool              `json:"traceCommands"`
	Collector     map[string]string `json:"collector"` // variables that were removed from the environment; see tracing.HeaderVariables
}

// addKeepers makes a server support detached processes. self is the path of this program.
func addKeepers(opts *execserver.Options, self string) {
	opts.Keeper = execserver.KeeperOptions{Command: []string{self, KeeperArg}}
	settings := keeperSettings{
		Version: opts.Version, CodexHome: opts.CodexHome, Backend: opts.Sandbox.Backend, Stricter: opts.Sandbox.Stricter,
		NoLocalSockets: opts.Sandbox.NoLocalSockets, Cgroups: opts.Process.Cgroups, NoLimits: noKeeperLimits(),
		Private: privateOf(opts), TraceCommands: opts.TraceCommands, Collector: collectorSecrets(),
	}
	opts.Keeper.Settings = func(r execserver.Rules) any {
		s := settings
		s.Hidden, s.Limits = r.EgressPolicy.SecretPaths(), r.Limits
		return s
	}
}

// privateOf returns the paths that keepers' sandboxes hide. A keeper has no --retain-dir of its
// own.
func privateOf(opts *execserver.Options) []string {
	private := slices.Clone(opts.PrivatePaths)
	if opts.RetainDir != "" {
		private = append(private, opts.RetainDir)
	}
	return private
}

// noKeeperLimits returns the reason why the cgroups of keepers have no limits. It returns "" if they have limits.
// Scenario: a service restarts while a keeper continues. If the cgroup of the service had controllers enabled for the
// cgroup of the keeper, the kernel would not let a process enter the service's cgroup, and the service could not start.
func noKeeperLimits() string {
	if !process.ServiceCgroup() {
		return ""
	}
	return "systemd could not start this service again while a cgroup limits a detached process: the unit needs DelegateSubgroup=server (systemd 254)"
}

// Keeper is the main function of the keeper of a detached process. It returns the keeper's exit
// code. SIGTERM ends the keeper together with its process. It ignores signals from a terminal.
func Keeper() int {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runKeeper(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cmdutil.ExitFailed
	}
	return 0
}

func runKeeper(ctx context.Context) error {
	if err := process.UnblockSignals(); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, maxKeeperSettings))
	if err != nil {
		return err
	}
	var s keeperSettings
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("a keeper is started by a server, not by hand: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), keeperProcessors))
	return execserver.RunKeeper(ctx, execserver.Options{
		Logger: log, Tracer: keeperTracer(s.Collector, s.Version, log), TraceCommands: s.TraceCommands,
		Version: s.Version, CodexHome: s.CodexHome, HiddenPaths: s.Hidden, Rules: execserver.Rules{Limits: s.Limits}, PrivatePaths: s.Private,
		Sandbox: runner.Options{Self: true, Backend: s.Backend, Stricter: s.Stricter, NoLocalSockets: s.NoLocalSockets},
		Process: process.Options{
			Subreaper: true, Cgroups: s.Cgroups, NoLimits: s.NoLimits, KillFirst: true,
			Watchdog: []string{self, WatchdogArg}, Limiter: []string{runner.LauncherBeside(self), limiter.Arg},
		},
	})
}
