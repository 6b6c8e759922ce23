package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// addHelp adds, here and to every command with subcommands, one that shows the
// help of what its words lead to. The library's looks at the first word alone;
// it adds --help only where it adds that.
func addHelp(commands *[]*cli.Command, flags *[]cli.Flag) {
	for _, c := range *commands {
		if len(c.Subcommands) > 0 {
			addHelp(&c.Subcommands, &c.Flags)
		} else {
			c.Flags = append(c.Flags, cli.HelpFlag)
		}
	}
	*flags = append(*flags, cli.HelpFlag)
	*commands = append(*commands, &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "show what a command does", ArgsUsage: "[COMMAND...]", OnUsageError: cmdutil.OnUsageError,
		Action: func(c *cli.Context) error {
			// Between the program's name and this command's are those that it is below.
			path := strings.Fields(c.Command.HelpName)
			path = append(path[1:len(path)-1], c.Args().Slice()...)
			for i, at := 0, c.App.Commands; i < len(path); i++ {
				sub := commandNamed(at, path[i])
				if sub == nil {
					return cmdutil.Usagef("there is no command %q; see codex help", strings.Join(path[:i+1], " "))
				}
				path[i], at = sub.Name, sub.Subcommands
			}
			return run(c.Context, c.App, append(append([]string{c.App.Name}, path...), "--help"))
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

// helpPage is the content of the help of the program or of one command. Empty
// sections are left out.
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
	// An error means that the reader has closed the pipe.
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
		sections = append(sections, section(p.optionsTitle, optionLines(p.options)...))
	}
	return strings.Join(sections, "\n\n")
}

// section is a title with indented lines below it.
func section(title string, lines ...string) string {
	const indent = "   "
	return title + ":\n" + indent + hang(strings.Join(lines, "\n"), len(indent))
}

// The width of a help page, of the indentation of its sections, and of the longest
// option that has its text beside it.
const (
	helpColumns  = 100
	helpIndent   = 3
	optionColumn = 30
)

// optionLines returns the options, each with its text in a second column. If a line
// does not fit into helpColumns, the texts are wrapped, and those of long options
// begin below the option.
func optionLines(options []cli.Flag) []string {
	var names, texts []string
	longest, fits := 0, true
	for _, option := range options {
		name, text, _ := strings.Cut(option.String(), "\t")
		names, texts = append(names, name), append(texts, text)
		longest = max(longest, len(name))
	}
	for _, text := range texts {
		fits = fits && helpIndent+longest+len("  ")+len(text) <= helpColumns
	}
	column := min(longest, optionColumn)
	lines := make([]string, len(names))
	for i, name := range names {
		if fits {
			lines[i] = name + "\t" + hang(texts[i], helpIndent)
			continue
		}
		indent := column + len("  ")
		text := hang(wrapWords(texts[i], helpColumns-helpIndent-indent), indent)
		if len(name) > column {
			lines[i] = name + "\n" + strings.Repeat(" ", indent) + text
		} else {
			lines[i] = fmt.Sprintf("%-*s  %s", column, name, text)
		}
	}
	return lines
}

// wrapWords breaks a text between words so that no line has more columns than width,
// unless it is one word.
func wrapWords(text string, width int) string {
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		switch {
		case used == 0:
		case used+1+len(word) > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	return b.String()
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
