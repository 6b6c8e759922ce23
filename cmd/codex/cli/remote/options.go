package remote

import (
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/egress"
	"github.com/urfave/cli/v2"
)

// The values of --ask.
const (
	askNever     = "never"
	askOnFailure = "on-failure"
	askAlways    = "always"
)

// execOptions are the options of a command.
type execOptions struct {
	// approves is true for exec, which asks, retries, and has its own exit codes. It is false for
	// run and shell.
	approves bool
	policy   *sandbox.Policy // nil: no sandbox
	env      map[string]string
	tty      bool
	ask      string // "": on-failure on a terminal, otherwise never
	yes      bool
	noInput  bool
	json     bool
	quiet    bool          // print no notes
	timeout  time.Duration // of each attempt; 0: no timeout
	limits   *execproto.ProcessLimits
	// endpoints are the hosts that the sandboxed command may reach. With askNetwork, the user is
	// asked about other hosts.
	endpoints  *egress.Endpoints
	askNetwork bool
	private    bool // these hosts may have addresses that are not public
	// forwards are the ports that are forwarded while the command runs.
	forwards forwards
	// save is the file to which the hosts that the user permits are added; "": no file.
	save string
}

// parseOptions parses the options of run, shell and exec.
func parseOptions(c *cli.Context, approves bool) (execOptions, error) {
	o := execOptions{
		approves: approves, tty: c.Bool("tty"), ask: c.String("ask"), yes: c.Bool("yes"),
		noInput: c.Bool("no-input"), json: c.Bool("json"), quiet: isQuiet(c), timeout: c.Duration("timeout"),
		askNetwork: c.Bool("ask-network"), save: c.String("save"),
		private: c.Bool("allow-private"),
	}
	var err error
	if o.env, err = parseEnv(c.StringSlice("env-var"), c.StringSlice("env")); err != nil {
		return o, err
	}
	if o.limits, err = cmdutil.RemoteLimits(c); err != nil {
		return o, err
	}
	if o.policy, err = sandbox.PolicyOf(c); err != nil {
		return o, err
	}
	if err := o.parseNetwork(c.StringSlice("allow-domain"), c.Bool("network")); err != nil {
		return o, err
	}
	ports := slices.Clone(c.StringSlice("forward"))
	named := slices.DeleteFunc(ports, func(spec string) bool { return spec == wordAuto })
	if o.forwards, err = parseForwards(named, nil, nil); err != nil {
		return o, err
	}
	o.forwards.auto = len(named) < len(c.StringSlice("forward"))
	return o, o.check()
}

// askNetworkFlags are the flags about hosts that the policy does not decide.
func askNetworkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "ask-network", Usage: "ask on the terminal about every other host that the sandboxed command wants to reach"},
		&cli.StringFlag{Name: "save", Usage: "add the hosts that you permit to `FILE`, an egress policy for codex exec-server --egress-policy"},
	}
}

// parseNetwork parses the options about the network. It returns an error for an option that would
// have no effect, or another effect than the user expects.
func (o *execOptions) parseNetwork(domains []string, network bool) error {
	var err error
	if o.endpoints, err = egress.ParseEndpoints(domains); err != nil {
		return cmdutil.Usagef("--allow-domain: %v", err)
	}
	switch {
	case len(domains) > 0 && o.policy == nil:
		return cmdutil.Usagef("--allow-domain needs --sandbox: without a sandbox the command reaches every host")
	case o.askNetwork && o.policy == nil:
		return cmdutil.Usagef("--ask-network needs --sandbox: without a sandbox the command reaches every host")
	case network && o.policy == nil:
		return cmdutil.Usagef("--network needs --sandbox: without a sandbox the command has the network")
	case network && (len(domains) > 0 || o.askNetwork):
		return cmdutil.Usagef("--network cannot be combined with --allow-domain or --ask-network: it lets the command reach every host")
	case o.askNetwork && (o.yes || o.noInput):
		return cmdutil.Usagef("--ask-network cannot be combined with --yes or --no-input, which never ask")
	case o.save != "" && !o.askNetwork:
		return cmdutil.Usagef("--save needs --ask-network: it saves the answers to these questions")
	case network:
		return o.policy.WithNetwork()
	default:
		return nil
	}
}

// networkProxy returns the request for a network proxy that permits the hosts and asks about
// others. It returns nil if the command needs no proxy.
func (o execOptions) networkProxy() *execproto.NetworkProxyLaunch {
	allowed := make(map[string]execproto.DomainPermission)
	for pattern, permission := range o.endpoints.Domains() {
		allowed[pattern] = execproto.DomainPermission(permission)
	}
	if len(allowed) == 0 && !o.askNetwork {
		return nil
	}
	launch := &execproto.NetworkProxyLaunch{Proxy: execproto.NetworkProxy{
		Enabled: true, EnableSOCKS5: true, AllowUpstreamProxy: true, Mode: execproto.NetworkFull, Domains: allowed,
		ReviewDomains: o.endpoints.Review(), AllowLocalBinding: o.private,
	}}
	if o.askNetwork || len(launch.Proxy.ReviewDomains) > 0 {
		limit := uint64(networkAskTime.Milliseconds())
		launch.PolicyDecisionTimeoutMS = &limit
	}
	return launch
}

// check returns an error for options that contradict each other.
func (o execOptions) check() error {
	switch {
	case o.ask != "" && o.ask != askNever && o.ask != askOnFailure && o.ask != askAlways:
		return cmdutil.Usagef("--ask must be never, on-failure or always, not %q", o.ask)
	case o.yes && o.noInput:
		return cmdutil.Usagef("--yes and --no-input exclude each other: one retries without asking, the other does not retry")
	case o.yes && o.ask == askNever:
		return cmdutil.Usagef("--yes and --ask never exclude each other: one retries without asking, the other does not retry")
	case o.noInput && o.ask == askAlways:
		return cmdutil.Usagef("--no-input and --ask always exclude each other")
	default:
		return nil
	}
}

// approvals returns the approval policy. If the user must not be asked, it also returns the reason
// why a denial leads to no question. terminal is true if a user can be asked.
func (o execOptions) approvals(terminal bool) (p approval.Policy, silent string) {
	ask := o.ask
	if ask == "" {
		ask = askNever
		if terminal || o.yes {
			ask = askOnFailure
		}
	}
	switch {
	case !o.approves:
		return approval.Policy{}, "run does not ask"
	case o.policy != nil && !o.policy.Known:
		silent = "this version does not understand the JSON of --sandbox, which may deny reading something"
	case o.ask == askNever:
		silent = "--ask never"
	case o.noInput:
		silent = "--no-input"
	case !terminal && !o.yes:
		silent = "no terminal is available for the question; --yes approves without asking"
	}
	switch {
	case ask == askAlways && o.policy != nil && !o.policy.Known:
		return approval.Policy{Kind: approval.OnRequest}, silent
	case ask == askAlways:
		return approval.Policy{Kind: approval.Untrusted, EachAttempt: true}, silent
	case silent != "":
		return approval.Policy{Kind: approval.Never}, silent
	default:
		return approval.Policy{Kind: approval.OnFailure}, ""
	}
}

// parseEnv returns the variables of --env-var. If the command also accepts variables in --env, it
// returns these, too. An --env without an equals sign chooses the environment.
func parseEnv(variables, env []string) (map[string]string, error) {
	set := make(map[string]string, len(variables)+len(env))
	add := func(flag, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return cmdutil.Usagef("%s needs NAME=VALUE, not %q", flag, text)
		}
		set[name] = value
		return nil
	}
	for _, text := range env {
		if text != "" && !strings.Contains(text, "=") {
			continue
		}
		if err := add("--env", text); err != nil {
			return nil, err
		}
	}
	for _, text := range variables {
		if err := add("--env-var", text); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func cwdFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "cwd", Aliases: []string{"w"}, Usage: usage}
}

func envVarFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env-var", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` for the command; may be repeated"}
}

// interactiveFlag exists for users who type -it, as with docker and kubectl.
func interactiveFlag() cli.Flag {
	return &cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "has no effect: the input is always passed on"}
}

func ttyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal; if the input is not a terminal, its end is sent as Ctrl-D"}
}
