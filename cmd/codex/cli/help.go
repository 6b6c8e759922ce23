package cli

import (
	"io"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// helpColumns is the width of a help page. TestHelpOfAllCommands checks it.
const helpColumns = 100

// These are the help pages. They differ from the library's in the texts of options, which have their own
// column and are wrapped; the library does not wrap them. The named templates are the library's.
const (
	optionsTemplate = `{{range .VisibleFlags}}{{$names := names .}}
   {{$names}}{{if gt (len $names) 30}}{{nindent 35 ""}}{{else}}{{indent (subtract 32 (len $names)) ""}}{{end}}{{wrap (text .) 35}}{{end}}
`
	descriptionTemplate = `{{if .Description}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}{{end}}{{if .VisibleCommands}}

COMMANDS:{{template "visibleCommandTemplate" .}}{{end}}`

	appTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{.UsageText}}

VERSION:
   {{.Version}}` + descriptionTemplate + `

GLOBAL OPTIONS:` + optionsTemplate

	commandTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{.UsageText}}` + descriptionTemplate + `

OPTIONS:` + optionsTemplate
)

// The library has its hooks for help and version in variables of the package.
func init() {
	cli.HelpPrinter = func(w io.Writer, page string, of any) {
		cli.HelpPrinterCustom(w, page, of, map[string]any{
			"wrapAt": func() int { return helpColumns },
			"names":  func(f cli.Flag) string { names, _ := flagHelp(f); return names },
			"text":   func(f cli.Flag) string { _, text := flagHelp(f); return text },
		})
	}
	cli.VersionFlag = &cli.BoolFlag{Name: "version", Aliases: []string{"v", "V"}, Usage: "print the version", DisableDefaultText: true}
	cli.VersionPrinter = func(c *cli.Context) { _ = printVersion(c) }
}

// flagHelp returns the names of an option, with the placeholder of its value, and its text.
func flagHelp(f cli.Flag) (names, text string) {
	names, text, _ = strings.Cut(f.String(), "\t")
	return names, text
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
