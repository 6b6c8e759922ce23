package sandbox

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/sandbox/winsandbox"
	"github.com/urfave/cli/v2"
)

// Values of --target.
const (
	targetLinux   = "linux"
	targetWindows = "windows"
)

// explainWindows prints how the command would be confined on a Windows host: the user, the firewall rules, the
// steps of the set-up, and the arguments of the wrapper (docs/spec/sandbox.md §9). It runs nothing.
func explainWindows(c *cli.Context, s cmdutil.Streams) error {
	launch, args, err := windowsLaunch(c, s.In)
	if err != nil {
		return err
	}
	printWindowsPlan(s.Out, winsandbox.PlanLaunch(launch, nil, false), args)
	return nil
}

// runWindows goes through the steps of a launch on a Windows host, and returns the error of the first step that
// is missing there. It runs nothing.
func runWindows(c *cli.Context, s cmdutil.Streams) error {
	l, _, err := windowsLaunch(c, s.In)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	err = runner.PrepareWindows(l, filepath.Dir(self))
	return &cmdutil.ExitError{Code: notStarted, Err: cmdutil.WithAdvice(err, onAServer)}
}

// windowsLaunch returns the values that determine the set-up, and the arguments of the wrapper, for the
// options. The environment is that of this process. The arguments contain only the names of its variables,
// because values may be secret.
func windowsLaunch(c *cli.Context, stdin io.Reader) (winsandbox.Launch, []string, error) {
	var none winsandbox.Launch
	profile, err := windowsProfile(c, stdin)
	if err != nil {
		return none, nil, err
	}
	dir, err := home.Find()
	if err != nil {
		return none, nil, err
	}
	cwd, err := filepath.Abs(c.String("cwd"))
	if err != nil {
		return none, nil, fmt.Errorf("--cwd: %w", err)
	}
	env, shown := make(map[string]string), make(map[string]string)
	for _, variable := range os.Environ() {
		// On Windows some variables have names that begin with an equals sign.
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			env[name], shown[name] = value, "..."
		}
	}
	l := winsandbox.Launch{CodexHome: dir, CommandCwd: cwd, Env: env, NetworkRestricted: profile.Network != permissions.NetworkEnabled}
	command := c.Args().Slice()
	if len(command) == 0 {
		command = []string{"COMMAND"}
	}
	request := winsandbox.Request{
		CodexHome: dir, CommandCwd: cwd, PermissionProfile: profile.AppendJSON(nil), Env: shown,
		Level: winsandbox.Elevated, Command: command,
	}
	args, err := request.Args()
	if err != nil {
		return none, nil, fmt.Errorf("ask the wrapper: %w", err)
	}
	return l, args, nil
}

// windowsProfile returns the profile of the options.
func windowsProfile(c *cli.Context, stdin io.Reader) (permissions.Profile, error) {
	if given, err := givenProfile(c, stdin); err != nil || given != nil {
		if err != nil {
			return permissions.Profile{}, err
		}
		return *given, nil
	}
	profile := shortProfile(writesByWord(c))
	for _, root := range c.StringSlice("writable-root") {
		abs, err := filepath.Abs(root)
		if err != nil {
			return profile, fmt.Errorf("--writable-root: %w", err)
		}
		profile.FileSystem.Entries = append(profile.FileSystem.Entries,
			permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: abs}, Access: permissions.Write})
	}
	if c.Bool("network") {
		profile.Network = permissions.NetworkEnabled
	}
	return profile, nil
}

// printWindowsPlan prints a plan for a host that has not been set up.
func printWindowsPlan(to io.Writer, plan winsandbox.Plan, args []string) {
	user, firewall := "online", "no rules of its own"
	if plan.Identity == winsandbox.Offline {
		ports := make([]string, len(plan.Settings.Ports))
		for i, port := range plan.Settings.Ports {
			ports[i] = strconv.Itoa(int(port))
		}
		user, firewall = "offline", "no connections but to loopback ports "+strings.Join(ports, ", ")
		if len(ports) == 0 {
			firewall = "no connections"
		}
		if plan.Settings.AllowLocalBinding {
			firewall += "; may listen"
		}
	}
	fmt.Fprintf(to, "user:      the %s sandbox user\nfirewall:  %s\n", user, firewall)
	for i, step := range plan.Steps {
		name, reason := "refresh of access rights", ""
		if step.Elevated {
			name, reason = "elevated set-up", ": "+plan.Reason
		}
		fmt.Fprintf(to, "step %d:    %s%s\n", i+1, name, reason)
	}
	fmt.Fprint(to, "wrapper:\n")
	for _, arg := range args {
		fmt.Fprintf(to, "   %s\n", arg)
	}
}
