package server

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/egressfile"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/limiter"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"github.com/urfave/cli/v2"
)

// pidNamespaceIsolate gives each sandbox its own PID namespace. Codex CLI also has inherit, which
// leaves commands in the server's namespace, for debuggers.
const pidNamespaceIsolate = "isolate"

// optionsName is the file with options of servers in /etc/codex.
const optionsName = "exec-server.toml"

// optionsFile describes the file with options of a server. A server on stdin and stdout belongs to the client that
// started it, so it must not listen on the ports of the system's server.
func optionsFile(c *cli.Context) cmdutil.OptionsFile {
	return cmdutil.OptionsFile{
		Name: optionsName, Excluded: func() map[string][]string { return excludedOptions(c) },
		Unless: cmdutil.IsSet(c, "listen") && slices.ContainsFunc(c.StringSlice("listen"), func(url string) bool { return strings.HasPrefix(url, "stdio") }),
	}
}

// excludedOptions returns the options of the file that do not apply: those for listening if the server registers,
// and those for registering if it listens.
func excludedOptions(c *cli.Context) map[string][]string {
	registering, encrypting := []string{"remote"}, []string{"tls-cert", "tls-key", "tls-client-ca"}
	for _, flag := range remoteFlags() {
		registering = append(registering, flag.Names()[0])
	}
	listening := append([]string{"listen", "allow-unauthenticated-bind"}, encrypting...)
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; strings.HasPrefix(name, "ws-") {
			listening = append(listening, name)
		}
	}
	if !slices.ContainsFunc(c.StringSlice("listen"), isEncrypted) {
		registering = append(registering, encrypting...)
	}
	return map[string][]string{"listen": registering, "remote": listening}
}

// privatePaths returns the server's own files that sandboxed commands must not see: those of its options, and the
// directory of detached processes of this user.
func privatePaths(c *cli.Context) []string {
	paths := auditFiles(c)
	for _, name := range []string{"ws-token-file", "ws-tokens", "ws-shared-secret-file", "tls-key", "rendezvous-token-file"} {
		if path, err := filepath.Abs(c.String(name)); err == nil && c.String(name) != "" {
			paths = append(paths, path)
		}
	}
	if dir := home.Detached(); dir != "" {
		paths = append(paths, dir)
	}
	if dir, err := home.Find(); err == nil {
		paths = append(paths, filepath.Join(dir, home.ClientKeys))
	}
	return paths
}

// serverOptions returns the options of the server for the flags.
func serverOptions(c *cli.Context, log *slog.Logger) (execserver.Options, error) {
	auth, err := authenticator(c, log)
	if err != nil {
		return execserver.Options{}, err
	}
	if err := checkValues(c); err != nil {
		return execserver.Options{}, err
	}
	var upstream *url.URL
	if text := c.String(tcpUpstreamFlag); cmdutil.IsSet(c, tcpUpstreamFlag) {
		if upstream, err = egress.ParseTCPUpstream(text); err != nil {
			return execserver.Options{}, cmdutil.Usagef("--%s %q: %w; expected HOST:PORT of an HTTP proxy", tcpUpstreamFlag, text, err)
		}
	}
	rules, err := readRules(c)
	if err != nil {
		return execserver.Options{}, err
	}
	dir, err := retainDir(c)
	if err != nil {
		return execserver.Options{}, err
	}
	opts := execserver.Options{
		Logger: log, Version: cmdutil.Version(), SessionTTL: sessionTTL(c), Auth: auth,
		MaxConnections: c.Int("max-connections"), MaxProcesses: c.Int("max-processes"), MaxHandles: c.Int("max-handles"),
		MaxMessage: c.Int("max-message-bytes"), ConcurrentRequests: c.Int("concurrent-requests"),
		Sandbox: runner.Options{
			Self: true, Backend: c.String("sandbox-backend"), Stricter: c.Bool("sandbox-stricter"),
			NoLocalSockets: c.Bool("sandbox-no-local-sockets"),
		},
		RequireSandbox:             c.Bool("require-sandbox"),
		RequireRelay:               cmdutil.IsSet(c, "remote"),
		AllowUnconfinedReaders:     c.Bool("allow-unconfined-readers"),
		ProxyPrivateIPsViaUpstream: c.Bool("proxy-private-ips-via-upstream"),
		TCPUpstream:                upstream,
		Rules:                      rules,
		PrivatePaths:               privatePaths(c),
		RetainDir:                  dir, RetainBytes: c.Int64("retain-bytes"), RetainFor: c.Duration("retain-for"),
		MaxDetached:   c.Int("max-detached"),
		TraceCommands: c.Bool("trace-commands"), MetricsPrincipals: c.Int("metrics-principals"),

		Process: process.Options{Subreaper: true, Cgroups: !c.Bool("no-cgroups"), KillFirst: true},
	}
	if dir, err := home.Find(); err == nil && filepath.IsAbs(dir) {
		opts.CodexHome = dir
	}
	self, err := os.Executable()
	if err != nil {
		return opts, nil
	}
	opts.Process.Watchdog, opts.Process.Limiter = []string{self, WatchdogArg}, []string{runner.LauncherBeside(self), limiter.Arg}
	addKeepers(&opts, self)
	return opts, nil
}

// readRules returns the rules that the options and the file of --egress-policy set.
func readRules(c *cli.Context) (r execserver.Rules, err error) {
	if r.EgressPolicy, err = egressfile.Read(c.String("egress-policy")); err != nil {
		return r, err
	}
	r.Limits, err = cmdutil.ServerLimits(c)
	return r, err
}

// authenticator returns the authenticator of clients. It returns nil if --ws-auth is not given.
func authenticator(c *cli.Context, log *slog.Logger) (*wsauth.Authenticator, error) {
	config := wsauth.Config{
		Mode: c.String("ws-auth"), TokenFile: c.String("ws-token-file"), TokenSHA256: c.String("ws-token-sha256"), TokensFile: c.String("ws-tokens"),
		SharedSecretFile: c.String("ws-shared-secret-file"), Issuer: c.String("ws-issuer"), Audience: c.String("ws-audience"),
		Log: log,
	}
	if cmdutil.IsSet(c, "ws-max-clock-skew-seconds") {
		skew := time.Duration(c.Int64("ws-max-clock-skew-seconds")) * time.Second
		config.ClockSkew = &skew
	}
	auth, err := wsauth.New(config)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(config.TokensFile); config.TokensFile != "" && errors.Is(err, fs.ErrNotExist) {
		// The server reads the file again when it changes, so it can start before the file exists.
		log.Warn("the file of --ws-tokens does not exist: no client is admitted until codex exec-server token create --tokens has made it", "path", config.TokensFile)
	}
	return auth, nil
}

// checkValues returns an error for an invalid option value.
func checkValues(c *cli.Context) error {
	if b := c.String("sandbox-backend"); !slices.Contains(runner.Backends, b) {
		return cmdutil.Usagef("--sandbox-backend %q: expected one of %s", b, strings.Join(runner.Backends, ", "))
	}
	if word := c.String("linux-sandbox-pid-namespace"); word != pidNamespaceIsolate {
		return cmdutil.Usagef(
			"--linux-sandbox-pid-namespace %q: isolate is supported; inherit is not, because a sandboxed command would see processes outside", word)
	}
	for _, name := range []string{"ws-auth", "ws-token-file", "ws-token-sha256", "ws-tokens", "ws-shared-secret-file", "ws-issuer", "ws-audience"} {
		if cmdutil.IsSet(c, name) && c.String(name) == "" {
			return cmdutil.Usagef("--%s must not be empty; give a value or leave the flag out", name)
		}
	}
	return nil
}

// sessionTTL converts --session-ttl for execserver.Options. There, 0 means the default, and with a
// negative time a session ends with its connection.
func sessionTTL(c *cli.Context) time.Duration {
	if ttl := c.Duration("session-ttl"); ttl > 0 {
		return ttl
	}
	return -1
}
