package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/permissions"
	"github.com/urfave/cli/v2"
)

// Flags are the sandbox options that codex sandbox, codex remote run and codex remote
// exec share. policy is the default of --sandbox; empty: no default.
func Flags(policy string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "sandbox", Aliases: []string{"s"}, Value: policy, Usage: "confine the command by `POLICY`: read-only, workspace-write, danger-full-access or JSON"},
		&cli.BoolFlag{Name: "read-only", Usage: "the same as --sandbox read-only: read everything, write nothing"},
		&cli.BoolFlag{Name: "workspace-write", Usage: "the same as --sandbox workspace-write: write below --cwd, /tmp and $TMPDIR"},
		&cli.StringFlag{Name: "profile-file", Usage: "use the permission profile in `FILE`, as JSON"},
		&cli.StringSliceFlag{Name: "writable-root", Usage: "let the command also write below `DIR`; may be repeated"},
		&cli.BoolFlag{Name: "allow-git", Usage: "let the command also commit: write the repository of --cwd, but not its configuration and hooks"},
		&cli.BoolFlag{Name: "network", Usage: "let the command use the network"},
		&cli.StringSliceFlag{Name: "allow-domain",
			Usage: "let the command reach hosts that match `PATTERN`, such as *.example.com or example.com:443, through a proxy; may be repeated"},
		&cli.BoolFlag{Name: "allow-private", Usage: "let the command reach the hosts of --allow-domain also at private and loopback addresses"},
	}
}

// errInputIsTheCommands is the error for a profile on stdin, because the command reads stdin.
var errInputIsTheCommands = cmdutil.Usagef("--profile-file -: the standard input is the command's; write the profile to a file, or use --profile-file <(...) in bash")

// checkFlags returns an error for options of Flags that cannot be used together.
func checkFlags(c *cli.Context) error {
	word, whole := c.String("sandbox"), ""
	var kinds []string
	for _, name := range []string{"sandbox", "read-only", "workspace-write", "profile-file", "permission-profile"} {
		if c.IsSet(name) && (c.Bool(name) || c.String(name) != "" || name == "profile-file" || name == "sandbox") {
			kinds = append(kinds, "--"+name)
		}
	}
	switch json := strings.HasPrefix(strings.TrimSpace(word), "{"); {
	case c.IsSet("profile-file"):
		whole = "--profile-file"
	case c.IsSet("permission-profile"):
		whole = "--permission-profile"
	case json:
		whole = "the JSON of --sandbox"
	}
	write := writesByWord(c)
	switch {
	case len(kinds) > 1:
		return cmdutil.Usagef("%s exclude each other: give one of them", strings.Join(kinds, " and "))
	case c.IsSet("profile-file") && c.String("profile-file") == "":
		return cmdutil.Usagef("--profile-file needs the name of a file")
	case c.IsSet("sandbox") && word == "":
		return cmdutil.Usagef("--sandbox needs read-only, workspace-write, danger-full-access or JSON; without a sandbox leave it out or say danger-full-access")
	case whole != "" && (c.Bool("network") || c.IsSet("writable-root")):
		return cmdutil.Usagef("--network and --writable-root cannot be used with %s, which sets network and writable paths itself", whole)
	case whole != "" && c.Bool("allow-git"):
		return cmdutil.Usagef("--allow-git cannot be used with %s, which sets writable paths itself; add an entry for the special path %s to it", whole, permissions.GitPath)
	case c.Bool("allow-git") && !write:
		return cmdutil.Usagef("--allow-git needs --workspace-write")
	case c.IsSet("allow-domain") && c.Bool("network"):
		return cmdutil.Usagef("--network cannot be combined with --allow-domain: it lets the command reach every host")
	case c.Bool("allow-private") && !c.IsSet("allow-domain") && !c.Bool("ask-network"):
		return cmdutil.Usagef("--allow-private needs --allow-domain: it is about the hosts that the command may reach")
	case c.Bool("allow-private") && slices.ContainsFunc(c.StringSlice("allow-domain"), everyHost):
		return cmdutil.Usagef("--allow-private cannot be combined with --allow-domain '*': the command could reach every private address; name the hosts")
	case c.IsSet("writable-root") && !write:
		return cmdutil.Usagef("--writable-root needs --workspace-write")
	case slices.Contains(c.StringSlice("writable-root"), ""):
		return cmdutil.Usagef("--writable-root needs the path of a directory")
	default:
		return nil
	}
}

// everyHost reports whether a pattern of --allow-domain matches all hosts.
func everyHost(pattern string) bool {
	host, _, _ := strings.Cut(strings.TrimSpace(pattern), ":")
	return host != "" && strings.Trim(host, "*") == ""
}

// writesByWord reports whether the options name the policy workspace-write.
func writesByWord(c *cli.Context) bool {
	return c.Bool("workspace-write") || c.String("sandbox") == WorkspaceWrite
}

// givenProfile returns the profile that the options or the configuration of this machine define. It returns nil if
// the policy is read-only or workspace-write with its options.
func givenProfile(c *cli.Context, stdin io.Reader) (*permissions.Profile, error) {
	switch word := c.String("sandbox"); {
	case c.IsSet("profile-file"):
		return fileProfile(c.String("profile-file"), stdin)
	case word == FullAccess:
		p, _ := builtin(builtinFullAccess)
		return &p, nil
	case strings.HasPrefix(strings.TrimSpace(word), "{"):
		p, err := nativeProfile("--sandbox", []byte(word))
		return &p, err
	case word != "" && word != ReadOnly && word != WorkspaceWrite:
		_, err := ParsePolicy(word)
		return nil, err
	case word != "" || c.Bool("read-only") || c.Bool("workspace-write") || c.Bool("network"):
		return nil, nil
	}
	cwd, err := absolute(c)
	if err != nil {
		return nil, err
	}
	return configured(c, cwd)
}

// fileProfile reads the profile of --profile-file.
func fileProfile(name string, stdin io.Reader) (*permissions.Profile, error) {
	text, err := readProfile(name, stdin)
	if err != nil {
		return nil, err
	}
	p, err := nativeProfile(name, text)
	return &p, err
}

// PolicyOf returns the policy of Flags for a command on a server; nil: no sandbox.
func PolicyOf(c *cli.Context) (*Policy, error) {
	if err := checkFlags(c); err != nil {
		return nil, err
	}
	text := c.String("sandbox")
	switch {
	case c.Bool("read-only"):
		text = ReadOnly
	case c.Bool("workspace-write"):
		text = WorkspaceWrite
	case c.String("profile-file") == "-":
		return nil, errInputIsTheCommands
	case c.IsSet("profile-file"):
		profile, err := readProfile(c.String("profile-file"), nil)
		if err != nil {
			return nil, err
		}
		if !json.Valid(profile) {
			return nil, fmt.Errorf("--profile-file: %s is not JSON", c.String("profile-file"))
		}
		text = string(profile)
	}
	p, err := ParsePolicy(text)
	if err != nil {
		return nil, err
	}
	if p != nil {
		p.file = c.IsSet("profile-file")
		p.roots, p.git = c.StringSlice("writable-root"), c.Bool("allow-git")
	}
	return p, nil
}

// refused are the options of Codex CLI's sandbox command that this program does not support, with the alternative for each.
var refused = []struct{ name, instead string }{
	{"sandbox-state-json", "the sandbox state of a session of Codex CLI is not read; give a permission profile with --profile-file"},
	{"sandbox-state-readable-root", "it belongs to --sandbox-state-json; give a permission profile with --profile-file"},
	{"sandbox-state-disable-network", "it belongs to --sandbox-state-json; without --network the network is off"},
	{"include-managed-config", "requirements.toml is not read: it is about sessions of Codex CLI"},
	{"enable", "codex sandbox has no features to switch on"},
	{"disable", "codex sandbox has no features to switch off"},
}

// refusedFlags returns the options of refused as flags, so that each has its own error.
func refusedFlags() []cli.Flag {
	var flags []cli.Flag
	for _, r := range refused {
		if r.name == "sandbox-state-disable-network" || r.name == "include-managed-config" {
			flags = append(flags, &cli.BoolFlag{Name: r.name, Hidden: true})
			continue
		}
		flags = append(flags, &cli.StringSliceFlag{Name: r.name, Hidden: true})
	}
	return flags
}

// checkRefused returns an error if an option of refused is given.
func checkRefused(c *cli.Context) error {
	for _, r := range refused {
		if c.IsSet(r.name) {
			return cmdutil.Usagef("--%s is an option of Codex CLI that this program does not have: %s", r.name, r.instead)
		}
	}
	return nil
}
