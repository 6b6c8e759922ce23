package cmdutil

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// IsSet reports whether the command line, a variable or a file with options sets an option of the command. The library's
// IsSet searches all options of the command for an option that is not set, and matches each name with a regular
// expression. For the 40 queries of a starting server that would take 0.6 ms.
func IsSet(c *cli.Context, name string) bool { return slices.Contains(c.LocalFlagNames(), name) }

// FlagValue returns the value of an option that may be before or after the command; empty if it is not given. A
// value of --env with an equals sign sets a variable where the option may be repeated, and is an error elsewhere.
func FlagValue(c *cli.Context, name string) (string, error) {
	value, _, err := FlagLevel(c, name)
	return value, err
}

// FlagLevel is like FlagValue, and also returns the position of the option: 0 is after the last command, 1 is
// before it, and so on.
func FlagLevel(c *cli.Context, name string) (value string, level int, err error) {
	for level, at := range c.Lineage() {
		if !slices.Contains(at.LocalFlagNames(), name) {
			continue // Value would also search before the command
		}
		var values []string
		switch v := at.Value(name).(type) {
		case string:
			if name == "env" && strings.Contains(v, "=") {
				return "", level, Usagef("--env %s: an environment's id has no =; to set a variable, write --env-var NAME=VALUE behind run, exec or shell", v)
			}
			values = []string{v}
		case cli.StringSlice:
			values = v.Value()
		}
		values = slices.DeleteFunc(values, func(v string) bool { return v == "" || name == "env" && strings.Contains(v, "=") })
		switch len(values) {
		case 0:
		case 1:
			return values[0], level, nil
		default:
			return "", level, Usagef("--%s: %s and %s cannot both be the environment; to set a variable write NAME=VALUE", name, values[0], values[1])
		}
	}
	return "", 0, nil
}
