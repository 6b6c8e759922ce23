package cmdutil

import (
	"fmt"
	"slices"

	"codex.internal/pkg/account/home"
	"github.com/urfave/cli/v2"
)

// Options of Codex CLI's interactive program, which it accepts before any
// command.
const (
	rootRemote      = "remote"
	rootRemoteToken = "remote-auth-token-env"
)

// RootFlags returns the options that come before the command.
func RootFlags() []cli.Flag {
	return append(ConfigFlags(),
		&cli.StringFlag{Name: rootRemote, Hidden: true},
		&cli.StringFlag{Name: rootRemoteToken, Hidden: true})
}

// optionOverride is the long name of -c.
const optionOverride = "config"

// OverrideFlag is -c.
func OverrideFlag() cli.Flag {
	return overrideFlag("use `KEY=VALUE` instead of the value in config.toml; may be repeated")
}

func overrideFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: optionOverride, Aliases: []string{"c"}, Usage: usage}
}

// ConfigFlags returns the options about config.toml. They may come before and after the command.
func ConfigFlags() []cli.Flag { return configFlags(OverrideFlag()) }

// ConfigOrFileFlags returns ConfigFlags for a command that can read its options from a file.
// --config can name that file, too: see ReadOptions.
func ConfigOrFileFlags() []cli.Flag {
	return configFlags(overrideFlag("with =: use this value instead of that in config.toml, may be repeated; without =: the same as --config-file (`KEY=VALUE|FILE`)"))
}

func configFlags(override cli.Flag) []cli.Flag {
	return []cli.Flag{
		override,
		&cli.BoolFlag{Name: "strict-config", Usage: "refuse a config.toml that has errors or unknown names"},
	}
}

// root returns the context of the options before all commands.
func root(c *cli.Context) *cli.Context {
	all := levels(c)
	return all[len(all)-1]
}

// RefuseRootFlags returns an error for options that only the interactive program of Codex CLI has.
func RefuseRootFlags(c *cli.Context) error {
	all := levels(c)
	before, command := root(c), c.App.Name+" "+all[len(all)-2].Command.Name
	switch {
	case before.IsSet(rootRemote):
		return fmt.Errorf("`--remote %s` is only supported for interactive TUI commands, not `%s`", before.String(rootRemote), command)
	case before.IsSet(rootRemoteToken):
		return fmt.Errorf("`--remote-auth-token-env` is only supported for interactive TUI commands, not `%s`", command)
	default:
		return nil
	}
}

// levels returns the contexts of the command c and of the commands above it. The last one is that of the options
// before all commands.
func levels(c *cli.Context) []*cli.Context {
	lineage := c.Lineage()
	return lineage[:len(lineage)-1] // without the context of the program
}

func IsStrict(c *cli.Context) bool {
	return slices.ContainsFunc(levels(c), func(c *cli.Context) bool { return c.Bool("strict-config") })
}

// requireHome is the option against MakeHome.
const requireHome = "require-home"

// HomeFlag returns the option of services about the directory in CODEX_HOME.
func HomeFlag() cli.Flag {
	return &cli.BoolFlag{Name: requireHome, Usage: "do not start if the directory in CODEX_HOME does not exist; without this option it is made"}
}

// MakeHome makes the directory in CODEX_HOME. Scenario: a pod starts on an empty volume. Without a home directory a service
// works, with a warning, unless it needs a file in it. With --require-home MakeHome makes nothing, and a missing directory is
// an error.
func MakeHome(c *cli.Context) error {
	if c.Bool(requireHome) {
		_, err := home.Find()
		return err
	}
	_ = home.Make() // home.Find returns the reason where the directory is needed
	return nil
}

// LoadConfig reads config.toml with the values of -c, which may be before and after each
// command.
func LoadConfig(c *cli.Context) (home.Config, error) {
	dir, err := home.Find()
	if err != nil {
		return home.Config{}, err
	}
	return home.LoadConfig(dir, Overrides(c), IsStrict(c))
}

// Overrides returns the values of -c in the order of the command line: those before the command come first.
func Overrides(c *cli.Context) []string {
	var overrides []string
	for _, level := range slices.Backward(levels(c)) {
		overrides = append(overrides, level.StringSlice(optionOverride)...)
	}
	return overrides
}
