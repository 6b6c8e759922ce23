package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
)

// addHelp adds, here and to every command with subcommands, one that shows the
// help of what its words lead to. The library's looks at the first word alone;
// it adds --help only where it adds that.
func addHelp(commands *[]*cli.Command, flags *[]cli.Flag) {
	for _, c := range *commands {
		if len(c.Subcommands) > 0 {
			addHelp(&c.Subcommands, &c.Flags)
		}
	}
	*flags = append(*flags, cli.HelpFlag)
	*commands = append(*commands, &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "show what a command does", ArgsUsage: "[COMMAND...]", OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			// Between the program's name and this command's are those that it is below.
			path := strings.Fields(c.Command.HelpName)
			path = append(path[1:len(path)-1], c.Args().Slice()...)
			for i, at := 0, c.App.Commands; i < len(path); i++ {
				sub := commandNamed(at, path[i])
				if sub == nil {
					return usagef("there is no command %q; see codex help", strings.Join(path[:i+1], " "))
				}
				path[i], at = sub.Name, sub.Subcommands
			}
			return c.App.RunContext(c.Context, append(append([]string{c.App.Name}, path...), "--help"))
		},
	})
}

// commandNamed returns the command with a name; nil: there is none.
func commandNamed(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// helpPage is what the help of the program or of one command says. What is
// empty is left out.
type helpPage struct {
	name, usage  string
	synopsis     string
	version      string
	description  string
	commands     []*cli.Command
	optionsTitle string
	options      []cli.Flag
}

// printHelp is a cli.HelpPrinter: it prints the help of a *cli.App or a
// *cli.Command, in the form of the library's templates. Those are not used,
// and so not taken as an argument, because text/template calls methods by
// name: the linker then keeps every exported method of the program, which
// makes it a seventh larger. Categories, authors and copyrights, which no
// command here has, are not shown.
func printHelp(w io.Writer, _ string, subject any) {
	var page helpPage
	switch subject := subject.(type) {
	case *cli.App:
		page = appPage(subject)
	case *cli.Command:
		page = commandPage(subject)
	default:
		panic(fmt.Sprintf("help was asked for a %T", subject))
	}
	// A tab in a line of the text starts its second column.
	columns := tabwriter.NewWriter(w, 1, 8, 2, ' ', 0)
	fmt.Fprintln(columns, page.text())
	// Who does not read the help to its end misses nothing else.
	_ = columns.Flush()
}

func appPage(app *cli.App) helpPage {
	page := helpPage{
		name:         app.HelpName,
		usage:        app.Usage,
		description:  app.Description,
		commands:     app.VisibleCommands(),
		optionsTitle: "GLOBAL OPTIONS",
		options:      app.VisibleFlags(),
	}
	if !app.HideVersion {
		page.version = app.Version
	}
	var options, command string
	if len(page.options) > 0 {
		options = "[global options]"
	}
	if len(app.Commands) > 0 {
		command = "command [command options]"
	}
	page.synopsis = synopsis(app.UsageText, app.HelpName, options, command, arguments(app.ArgsUsage, app.Args))
	return page
}

func commandPage(c *cli.Command) helpPage {
	page := helpPage{
		name:         c.HelpName,
		usage:        c.Usage,
		description:  c.Description,
		commands:     c.VisibleCommands(),
		optionsTitle: "OPTIONS",
		options:      c.VisibleFlags(),
	}
	// The library gives every command a help of its own.
	if len(page.commands) == 1 && page.commands[0].Name == "help" {
		page.commands = nil
	}
	var options string
	if len(page.options) > 0 {
		options = "[command options]"
	}
	page.synopsis = synopsis(c.UsageText, c.HelpName, options, arguments(c.ArgsUsage, c.Args))
	return page
}

// synopsis is the text that a command gives for itself, or the words that are
// not empty.
func synopsis(own string, words ...string) string {
	if own != "" {
		return own
	}
	var present []string
	for _, word := range words {
		if word != "" {
			present = append(present, word)
		}
	}
	return strings.Join(present, " ")
}

func arguments(usage string, taken bool) string {
	if usage == "" && taken {
		return "[arguments...]"
	}
	return usage
}

func (p helpPage) text() string {
	name := p.name
	if p.usage != "" {
		name += " - " + hang(p.usage, len(p.name)+len(" - "))
	}
	sections := []string{section("NAME", name), section("USAGE", p.synopsis)}
	if p.version != "" {
		sections = append(sections, section("VERSION", p.version))
	}
	if p.description != "" {
		sections = append(sections, section("DESCRIPTION", p.description))
	}
	if len(p.commands) > 0 {
		sections = append(sections, section("COMMANDS", commandLines(p.commands)...))
	}
	if len(p.options) > 0 {
		var lines []string
		for _, option := range p.options {
			lines = append(lines, hang(option.String(), len("   ")))
		}
		sections = append(sections, section(p.optionsTitle, lines...))
	}
	return strings.Join(sections, "\n\n")
}

// section is a title with indented lines below it.
func section(title string, lines ...string) string {
	const indent = "   "
	return title + ":\n" + indent + hang(strings.Join(lines, "\n"), len(indent))
}

// commandLines have the names of each command, and its usage in a column.
func commandLines(commands []*cli.Command) []string {
	names := make([]string, len(commands))
	width := 0
	for i, c := range commands {
		names[i] = strings.Join(c.Names(), ", ")
		width = max(width, len(names[i]))
	}
	lines := make([]string, len(commands))
	for i, c := range commands {
		lines[i] = fmt.Sprintf("%-*s  %s", width, names[i], hang(c.Usage, width+len("  ")))
	}
	return lines
}

// hang indents the lines after the first, but not the empty ones.
func hang(text string, indent int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines[1:] {
		if line != "" {
			lines[i+1] = strings.Repeat(" ", indent) + line
		}
	}
	return strings.Join(lines, "\n")
}
