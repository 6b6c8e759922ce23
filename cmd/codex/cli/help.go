package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// The width of a help page in columns: that of COLUMNS or of the terminal if it is known, within these limits.
// TestHelpOfAllCommands checks that pages keep to it.
const (
	helpColumns    = 80  // if the width is not known, as in a pipe
	minHelpColumns = 60  // the texts of options begin at column 29
	maxHelpColumns = 100 // longer lines are hard to read
)

// textIndent is the indentation of everything below the title of a section.
const textIndent = 3

// These are the help pages. They differ from the library's in the texts of options, which have their own
// column and are wrapped; the library does not wrap them. The named templates are the library's.
const (
	optionsTemplate = `{{range .VisibleFlags}}{{$names := names .}}
   {{$names}}{{if gt (len $names) 24}}{{nindent 29 ""}}{{else}}{{indent (subtract 26 (len $names)) ""}}{{end}}{{wrap (text .) 29}}{{end}}
`
	descriptionTemplate = `{{if .Description}}

DESCRIPTION:
   {{fill .Description}}{{end}}{{if .VisibleCommands}}

COMMANDS:{{template "visibleCommandTemplate" .}}{{end}}`

	appTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{wrap .UsageText 3}}

VERSION:
   {{.Version}}` + descriptionTemplate + `

GLOBAL OPTIONS:` + optionsTemplate

	commandTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{wrap .UsageText 3}}` + descriptionTemplate + `

OPTIONS:` + optionsTemplate
)

// The library has its hooks for help and version in variables of the package.
func init() {
	cli.HelpPrinter = func(w io.Writer, page string, of any) {
		columns := pageColumns(w)
		var text bytes.Buffer
		defer func() { _, _ = io.WriteString(w, cmdutil.OwnCommands(text.String())) }()
		cli.HelpPrinterCustom(&text, page, of, map[string]any{
			"wrapAt": func() int { return columns },
			"fill":   func(text string) string { return fill(cmdutil.OwnCommands(text), columns) },
			"names":  func(f cli.Flag) string { names, _ := flagHelp(f); return names },
			"text":   func(f cli.Flag) string { _, text := flagHelp(f); return cmdutil.OwnCommands(text) },
		})
	}
	// The library would show the help for each option with a name of this one, also for ls -h.
	cli.HelpFlag = nil
	cli.VersionFlag = &cli.BoolFlag{Name: "version", Aliases: []string{"v", "V"}, Usage: "print the version", DisableDefaultText: true}
	cli.VersionPrinter = func(c *cli.Context) { _ = printVersion(c) }
}

// pageColumns returns the width of a help page that is written to a stream. As with other programs, COLUMNS has
// precedence over the terminal.
func pageColumns(to io.Writer) int {
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || columns <= 0 {
		columns = cmdutil.Columns(to)
	}
	if columns <= 0 {
		return helpColumns
	}
	return min(max(columns, minHelpColumns), maxHelpColumns)
}

// fill wraps the paragraphs of a description, whose line breaks are those of the source. Indented lines are examples
// and tables: they stay as they are.
func fill(text string, columns int) string {
	var lines []string
	room := 0 // in the last line; 0: it is complete
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			lines, room = append(lines, line), 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			if room > n {
				lines[len(lines)-1] += " " + word
				room -= n + 1
				continue
			}
			lines = append(lines, word)
			room = max(columns-textIndent-n, 1)
		}
	}
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = strings.Repeat(" ", textIndent) + line
		}
	}
	return strings.Join(lines, "\n")
}

// flagHelp returns the names of an option, with the placeholder of its value, and its text. The library repeats the
// names of an option that may be repeated, in brackets; the text says that.
func flagHelp(f cli.Flag) (names, text string) {
	names, text, _ = strings.Cut(f.String(), "\t")
	names, _, _ = strings.Cut(names, " [ --")
	return names, text
}

// helpOption returns the option that shows the help of a command with these other options. It is -h, too, unless one of
// them is.
func helpOption(others []cli.Flag) cli.Flag {
	f := &cli.BoolFlag{Name: "help", Usage: "show help", DisableDefaultText: true}
	if !slices.ContainsFunc(others, func(o cli.Flag) bool { return slices.Contains(o.Names(), "h") }) {
		f.Aliases = []string{"h"}
	}
	return f
}

// errHelpShown ends a command whose help was printed in place of what it does.
var errHelpShown = errors.New("the help was printed")

// helpIfAsked prints the help of a command, or of the one below it that the operands name, if --help is given. The
// library calls it before the command's action.
func helpIfAsked(c *cli.Context) error {
	if !c.Bool("help") {
		return nil
	}
	at := c.Command
	for _, word := range c.Args().Slice() {
		below := at.Command(word)
		if below == nil {
			break
		}
		at = below
	}
	if at.HelpName == c.App.HelpName {
		_ = cli.ShowAppHelp(c)
	} else {
		cli.HelpPrinter(c.App.Writer, commandTemplate, at)
	}
	return errHelpShown
}

// helpCommand returns the command help, which shows the help of a subcommand of its parent. The
// library's version reads only one word: codex help remote run would show the help of codex remote.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "show the help of a command", ArgsUsage: "[COMMAND...]",
		Flags: []cli.Flag{&cmdutil.Operands{}},
		Action: func(c *cli.Context) error {
			at := c.Lineage()[1].Command
			if !c.Args().Present() && at.HelpName == c.App.HelpName {
				return cli.ShowAppHelp(c)
			}
			for _, word := range c.Args().Slice() {
				below := at.Command(word)
				if below == nil {
					return cmdutil.NoCommand(at, word)
				}
				at = below
			}
			cli.HelpPrinter(c.App.Writer, commandTemplate, at)
			return nil
		},
	}
}
