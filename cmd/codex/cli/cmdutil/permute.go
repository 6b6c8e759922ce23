package cmdutil

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Permute puts the options of the commands for which permuted is true before their
// operands, as GNU programs do: codex remote ls /tmp -l. What stands behind -- stays, and
// so do the arguments of commands that run a program: an option there may be the
// program's. args begins with the name of the program.
func Permute(app *cli.App, args []string, permuted func(path []string) bool) []string {
	flags, commands := app.Flags, app.Commands
	var path []string
	for i := 1; i < len(args); i++ {
		if isOption(args[i]) {
			if takesValue(flags, args[i]) {
				i++
			}
			continue
		}
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[i]) })
		if at < 0 {
			return args
		}
		path = append(path, commands[at].Name)
		flags, commands = commands[at].Flags, commands[at].Subcommands
		if permuted(path) {
			return append(slices.Clone(args[:i+1]), optionsFirst(flags, args[i+1:])...)
		}
	}
	return args
}

// optionsFirst moves options, with their values, before the operands.
func optionsFirst(flags []cli.Flag, args []string) []string {
	var options, operands []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(append(append(options, "--"), operands...), args[i+1:]...)
		case !isOption(args[i]):
			operands = append(operands, args[i])
		default:
			options = append(options, args[i])
			if takesValue(flags, args[i]) && i+1 < len(args) {
				i++
				options = append(options, args[i])
			}
		}
	}
	return append(options, operands...)
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg != "--" }

// takesValue reports whether the next argument is the value of an option. Of options in
// one word, as in -rp, the last one may take it.
func takesValue(flags []cli.Flag, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	found := find(flags, name)
	if found == nil && !strings.HasPrefix(arg, "--") {
		found = find(flags, name[len(name)-1:])
	}
	value, ok := found.(cli.DocGenerationFlag)
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
