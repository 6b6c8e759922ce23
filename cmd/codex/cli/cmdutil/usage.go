package cmdutil

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/wire/pattern"
	"github.com/urfave/cli/v2"
)

// ErrHelp, returned by the action of a command, has its help printed.
var ErrHelp = errors.New("help is wanted")

// OnUsageError turns an error of the flag parser into a usage error, which says where
// to read on.
func OnUsageError(c *cli.Context, err error, _ bool) error {
	command, flags := c.App.Name, c.App.Flags
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != command {
		command, flags = c.Command.HelpName, c.Command.Flags
	}
	return Usagef("%s see %s --help", flagError(err.Error(), flags), command)
}

// The flag parser's messages about values. It writes every flag with one dash.
var (
	missingValue = pattern.New(`^flag needs an argument: -+(.*)$`)
	invalidValue = pattern.New(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (.*)$`)
)

// flagError says what is wrong with a flag, up to where one finds more.
func flagError(text string, flags []cli.Flag) string {
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		var names []string
		for _, flag := range flags {
			if v, ok := flag.(cli.VisibleFlag); !ok || v.IsVisible() {
				names = append(names, flag.Names()[0])
			}
		}
		if meant := similar(name, names); meant != "" {
			return fmt.Sprintf("unknown flag %s; did you mean --%s?", dashed(name), meant)
		}
		return fmt.Sprintf("unknown flag %s;", dashed(name))
	}
	if m := missingValue().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s needs a value;", dashed(m[1]))
	}
	if m := invalidValue().FindStringSubmatch(text); m != nil {
		reason := m[3]
		if flag := find(flags, m[2]); flag != nil {
			reason = expected(flag, reason)
		}
		return fmt.Sprintf("%s %s: %s;", dashed(m[2]), m[1], reason)
	}
	return text + ";"
}

// expected says what the value of a flag must be; without that, what is wrong with it.
func expected(flag cli.Flag, reason string) string {
	switch flag.(type) {
	case *cli.DurationFlag:
		return "expected a duration such as 90s, 30m or 720h"
	case *cli.IntFlag, *cli.Int64Flag:
		return "expected a number such as 8"
	case *cli.UintFlag, *cli.Uint64Flag:
		return "expected a number such as 8, not a negative one"
	case *cli.Float64Flag:
		return "expected a number such as 1.5"
	case *cli.BoolFlag:
		return "expected true or false"
	default:
		return reason
	}
}

// dashed is an option as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// UnknownCommand is the error of a word that stands where a subcommand of c
// would.
func UnknownCommand(c *cli.Context) error {
	word := c.Args().First()
	var names []string
	for _, sub := range c.Command.Subcommands {
		names = append(names, sub.Name)
	}
	hint := ""
	if meant := similar(word, names); meant != "" {
		hint = fmt.Sprintf(" did you mean %s?", meant)
	}
	return Usagef("%s has no command %q;%s see %s --help", c.Command.HelpName, word, hint, c.Command.HelpName)
}

// similar returns the name that has the longest beginning in common with a word that
// was typed, the shortest of several, or "" if none has two bytes in common.
func similar(word string, names []string) string {
	const enough = 2 // bytes in common: with one, nearly all have something
	best, length := "", enough
	for _, name := range names {
		n := 0
		for n < min(len(word), len(name)) && word[n] == name[n] {
			n++
		}
		if n > length || n == length && (best == "" || len(name) < len(best)) {
			best, length = name, n
		}
	}
	return best
}
