package cmdutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Arrange returns a command line in the order in which the library parses it. args begins with the name of
// the program.
//
// The library ends the options at the first operand. So Arrange moves the options of a command, with their
// values, before its operands, as GNU programs do: codex remote ls /tmp -l becomes codex remote ls -l /tmp.
// Words after -- are not moved, nor are the arguments of a command whose operands are a program's command
// line: see Operands.
//
// For an unknown option it returns a usage error: the hint needs the name of the option, which the library's
// error has only in its text.
func Arrange(app *cli.App, args []string) ([]string, error) {
	root := &cli.Command{Flags: app.Flags, Subcommands: app.Commands}
	arranged, err := arrange(root, app.Name, args[min(1, len(args)):])
	return append([]string{app.Name}, arranged...), err
}

// arrange arranges the arguments of a command, and below it those of the command that the first operand names.
func arrange(c *cli.Command, name string, args []string) ([]string, error) {
	if c.SkipFlagParsing {
		return args, nil
	}
	options, operands, err := separate(c, name, args)
	if err != nil {
		return nil, Usagef("%w see %s --help", err, name)
	}
	var below []string
	if len(operands) > 0 {
		if sub := c.Command(operands[0]); sub != nil {
			operands, below = operands[:1], operands[1:]
			if below, err = arrange(sub, name+" "+sub.Name, below); err != nil {
				return nil, err
			}
		}
	}
	return slices.Concat(options, operands, below), nil
}

// separate returns the options of a command, with their values, and its operands. If there is a --, the
// operands begin with it.
func separate(c *cli.Command, name string, args []string) (options, operands []string, err error) {
	declared := OperandsOf(c)
	onlyFirst := len(c.Subcommands) > 0 || declared != nil && declared.CommandLine
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return options, slices.Concat([]string{"--"}, operands, args[i+1:]), nil
		case !isOption(arg) && onlyFirst:
			return options, args[i:], nil
		case !isOption(arg):
			operands = append(operands, arg)
		default:
			flag := flagOf(c.Flags, arg)
			if flag == nil {
				return nil, nil, unknownFlag(name, arg, c.Flags)
			}
			if onlyFirst && i+1 < len(args) && mountsVolume(arg, args[i+1]) {
				return nil, nil, fmt.Errorf("-v %s: -v is --verbose; %s;", args[i+1], copyFiles)
			}
			options = append(options, arg)
			if takesValue(flag) && !strings.Contains(arg, "=") && i+1 < len(args) {
				i++
				options = append(options, args[i])
			}
		}
	}
	return options, operands, nil
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// flagOf returns the flag that an option names; nil: there is no such flag. For joined short options, as
// in -rp, it is the last one: only that one may have a value.
func flagOf(flags []cli.Flag, option string) cli.Flag {
	name, _, hasValue := strings.Cut(strings.TrimLeft(option, "-"), "=")
	flag := find(flags, name)
	if flag != nil || hasValue || strings.HasPrefix(option, "--") {
		return flag
	}
	for _, letter := range name {
		if flag = find(flags, string(letter)); flag == nil {
			return nil
		}
	}
	return flag
}

func takesValue(flag cli.Flag) bool {
	value, ok := flag.(cli.DocGenerationFlag)
	return ok && value.TakesValue()
}

func find(flags []cli.Flag, name string) cli.Flag {
	for _, flag := range flags {
		if slices.Contains(flag.Names(), name) {
			return flag
		}
	}
	return nil
}

// unknownFlag returns the error for an option that the command does not have.
func unknownFlag(command, option string, flags []cli.Flag) error {
	option, _, _ = strings.Cut(option, "=")
	if hint := optionHint(command, option, flags); hint != "" {
		return fmt.Errorf("unknown flag %s; %s", option, hint)
	}
	var names []string
	for _, flag := range flags {
		if v, ok := flag.(cli.VisibleFlag); ok && v.IsVisible() {
			names = append(names, flag.Names()[0])
		}
	}
	if meant := similar(strings.TrimLeft(option, "-"), names); meant != "" {
		return fmt.Errorf("unknown flag %s; did you mean --%s?", option, meant)
	}
	return fmt.Errorf("unknown flag %s;", option)
}
