package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// manCommand prints manual pages. They are made from the help texts, so that both
// agree.
func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print a manual page of this program or of a command",
		ArgsUsage: "[COMMAND]",
		Description: `Prints roff source. The page of the program lists its commands; the page of a command
includes its subcommands. The pages exec-server.toml and rendezvous.toml, of section 5,
describe the files with options of these two commands.

Examples:
   codex man remote > remote.1 && man ./remote.1
   codex man exec-server.toml > exec-server.toml.5
   codex man > ~/.local/share/man/man1/codex.1`,
		Flags: []cli.Flag{
			cmdutil.OtherWords,
			&cli.BoolFlag{Name: "list", Usage: "list the commands that have a page of their own"},
			&cli.StringFlag{Name: "date", Usage: "the `DATE` of the page, such as 2026-01-31", DefaultText: "the date of the commit that the program was built from"},
		},
		Action: printMan,
	}
}

// printMan prints the page that the arguments name.
func printMan(c *cli.Context) error {
	if c.Bool("list") {
		return listMan(c)
	}
	if c.NArg() > 1 {
		return cmdutil.Usagef("man takes one command, got %q too", c.Args().Get(1))
	}
	date := c.String("date")
	if date == "" {
		date, _, _ = strings.Cut(build("").Time, "T")
	} else if _, err := time.Parse(time.DateOnly, date); err != nil {
		return cmdutil.Usagef("--date %q: give a year, month and day, such as 2026-01-31", date)
	}
	source := manSource{date: date, program: "codex " + c.App.Version}
	name := c.Args().First()
	if name == "" {
		return writeMan(c.App.Writer, "codex", source, &cli.Command{
			HelpName: c.App.HelpName, Usage: c.App.Usage, UsageText: c.App.UsageText, Description: c.App.Description,
			Subcommands: c.App.Commands, Flags: c.App.Flags,
		}, nil)
	}
	if of, ok := strings.CutSuffix(name, fileSuffix); ok {
		if command := c.App.Command(of); command != nil && cmdutil.InFile(command) != nil {
			return writeFileMan(c.App.Writer, source, command)
		}
	}
	command := c.App.Command(name)
	if command == nil {
		return cmdutil.NoCommand(c.Lineage()[1].Command, name)
	}
	return writeMan(c.App.Writer, "codex-"+command.Name, source, command, command.Subcommands)
}

// manSource is the text at the foot of a page: the date, or "" if it is not known, and the program
// with its version.
type manSource struct{ date, program string }

// listMan prints the names of the commands, one in a line.
func listMan(c *cli.Context) error {
	if c.Args().Present() {
		return cmdutil.Usagef("man --list takes no command, got %q", c.Args().First())
	}
	for _, command := range c.App.Commands {
		if command.Hidden || command.Name == "help" {
			continue
		}
		if _, err := fmt.Fprintln(c.App.Writer, command.Name); err != nil {
			return err
		}
	}
	return nil
}

// writeMan writes a page in the man macros: a command, and its subcommands as
// sections.
func writeMan(w io.Writer, title string, source manSource, page *cli.Command, below []*cli.Command) error {
	m := &manText{}
	m.macro("TH", strings.ToUpper(title), "1", source.date, source.program, "User Commands")
	m.macro("SH", "NAME")
	m.text(title + " - " + page.Usage)
	m.body("SH", page)
	for _, c := range below {
		if c.Hidden || c.Name == "help" {
			continue
		}
		m.macro("SH", strings.ToUpper(c.HelpName))
		m.text(c.Usage)
		m.body("SS", c)
	}
	_, err := io.WriteString(w, m.String())
	return err
}

// fileSuffix makes the name of a command that of its file with options.
const fileSuffix = ".toml"

// writeFileMan writes the page of a command's file with options.
func writeFileMan(w io.Writer, source manSource, command *cli.Command) error {
	m, file := &manText{}, command.Name+fileSuffix
	m.macro("TH", strings.ToUpper(file), "5", source.date, source.program, "File Formats Manual")
	m.macro("SH", "NAME")
	m.text(file + " - file with options of " + command.HelpName)
	m.macro("SH", "SYNOPSIS")
	m.text("/etc/codex/" + file)
	m.macro("SH", "DESCRIPTION")
	m.paragraphs(`The command reads this file, or the one that its option --config-file names. The file is in TOML.
A key is the name of an option without the dashes in front. A switch is true or false, a number is a
number, a duration is a string, and an option that may be repeated is a string or an array of strings.

An option on the command line takes precedence over a variable, and a variable over the file.
An unknown key, a value of another type, and a file that other users can change, are errors.
The option --check-config checks the file and all that it names. The option --print-config prints
all options with the origin of each.

Example:
   log-format = "json"
   log-level = "warn"`)
	m.macro("SH", "OPTIONS")
	for _, f := range cmdutil.InFile(command) {
		_, text := flagHelp(f)
		m.item(f.Names()[0], text+". The value is "+cmdutil.Allowed(f)+".")
	}
	m.macro("SH", "SEE ALSO")
	m.text("codex-" + command.Name + "(1)")
	_, err := io.WriteString(w, m.String())
	return err
}

// manText is roff source.
type manText struct{ strings.Builder }

// macro writes a request with its arguments. Hyphens of a date are not escaped, because
// mandoc would not recognize the date.
func (m *manText) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, a := range args {
		if _, err := time.Parse(time.DateOnly, a); err != nil {
			a = roffText(a)
		}
		m.WriteString(` "` + strings.ReplaceAll(a, `"`, `\(dq`) + `"`)
	}
	m.WriteByte('\n')
}

// text writes lines as plain text, without roff markup.
func (m *manText) text(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			m.WriteString(`\&`)
		}
		m.WriteString(roffText(line) + "\n")
	}
}

// roffText escapes a text for roff, so that hyphens can be copied.
func roffText(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
}

// body writes the parts of a command's help that follow its name.
func (m *manText) body(heading string, c *cli.Command) {
	m.macro(heading, "SYNOPSIS")
	m.verbatim(c.UsageText)
	if c.Description != "" {
		m.macro(heading, "DESCRIPTION")
		m.paragraphs(c.Description)
	}
	if commands := c.VisibleCommands(); len(commands) > 0 {
		m.macro(heading, "COMMANDS")
		for _, sub := range commands {
			m.item(strings.Join(sub.Names(), ", "), sub.Usage)
		}
	}
	m.macro(heading, "OPTIONS")
	for _, f := range c.VisibleFlags() {
		m.item(flagHelp(f))
	}
}

// item writes a term and, indented below it, its text.
func (m *manText) item(term, text string) {
	m.WriteString(".TP\n")
	m.text(strings.TrimSpace(term))
	m.text(strings.Join(strings.Fields(text), " "))
}

// verbatim writes lines that are not filled.
func (m *manText) verbatim(s string) {
	m.WriteString(".nf\n")
	m.text(s)
	m.WriteString(".fi\n")
}

// paragraphs writes text in which blocks of indented lines are examples. The first one
// follows a heading, which begins a paragraph itself.
func (m *manText) paragraphs(s string) {
	var block []string
	example, begin := false, ""
	flush := func() {
		joined := strings.Join(block, "\n")
		if joined == "" {
			return
		}
		m.WriteString(begin)
		if example {
			m.WriteString(".RS 4\n")
			m.verbatim(joined)
			m.WriteString(".RE\n")
		} else {
			m.text(joined)
		}
		block, begin = nil, ".PP\n"
	}
	for line := range strings.SplitSeq(s, "\n") {
		indented := strings.HasPrefix(line, " ")
		if line == "" || indented != example {
			flush()
		}
		example = indented
		if line != "" {
			block = append(block, strings.TrimPrefix(line, "   "))
		}
	}
	flush()
}
