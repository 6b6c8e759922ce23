package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// prepare gives an app and its commands what each has: a help, and the flags for it and
// for the version.
func prepare(app *cli.App) {
	app.HelpName = app.Name
	addHelp(&app.Commands, &app.Flags)
	app.Flags = append(app.Flags, cli.VersionFlag)
}

// run carries out a command line, as app.RunContext of the library does for what this
// program uses of it. The library's reaches the templates of its help, and text/template
// calls methods by name: the linker then keeps every exported method, which makes codex 2.2
// MB larger.
func run(ctx context.Context, app *cli.App, args []string) error {
	root := &cli.Command{
		Name: app.Name, HelpName: app.HelpName, Flags: app.Flags, Subcommands: app.Commands,
		Action: app.Action, OnUsageError: app.OnUsageError,
	}
	r := &appRunner{app: app, root: root}
	return r.command(&cli.Context{Context: ctx}, root, args[1:])
}

// appRunner carries out one command line.
type appRunner struct {
	app  *cli.App
	root *cli.Command
}

// command parses the flags of a command, and runs it or the one below it that the first
// operand names.
func (r *appRunner) command(parent *cli.Context, cmd *cli.Command, args []string) error {
	set, parsed := parseFlags(cmd, args)
	c := cli.NewContext(r.app, set, parent)
	c.Command = cmd
	switch {
	case parsed != nil:
		return cmdutil.OnUsageError(c, parsed, cmd != r.root)
	case isGiven(c, cli.HelpFlag):
		return r.help(c, cmd)
	case cmd == r.root && isGiven(c, cli.VersionFlag):
		_, err := fmt.Fprintf(r.app.Writer, "codex %s\n", r.app.Version)
		return err
	}
	if sub := commandNamed(cmd.Subcommands, c.Args().First()); sub != nil {
		return r.command(c, named(cmd, sub), c.Args().Tail())
	}
	if cmd.Action == nil {
		return r.help(c, cmd)
	}
	err := cmd.Action(c)
	if errors.Is(err, cmdutil.ErrHelp) {
		return r.help(c, cmd)
	}
	return err
}

// named gives a command below another its full name, and returns it.
func named(cmd, sub *cli.Command) *cli.Command {
	if sub.HelpName == "" {
		sub.HelpName = cmd.HelpName + " " + sub.Name
	}
	return sub
}

// isGiven reports whether a flag was given, by any of its names, to this command.
func isGiven(c *cli.Context, option cli.Flag) bool {
	return slices.ContainsFunc(option.Names(), func(name string) bool {
		return slices.Contains(c.LocalFlagNames(), name) && c.Bool(name)
	})
}

// help prints the help of a command, or of the one below it that the operands name.
func (r *appRunner) help(c *cli.Context, cmd *cli.Command) error {
	for _, word := range c.Args().Slice() {
		sub := commandNamed(cmd.Subcommands, word)
		if sub == nil {
			break
		}
		cmd = named(cmd, sub)
	}
	if cmd == r.root {
		printHelp(r.app.Writer, "", r.app)
	} else {
		printHelp(r.app.Writer, "", cmd)
	}
	return nil
}

// parseFlags parses the flags of a command up to the first operand. The operands are the
// arguments of the result.
func parseFlags(cmd *cli.Command, args []string) (*flag.FlagSet, error) {
	set := newFlagSet()
	for _, f := range cmd.Flags {
		if err := f.Apply(set); err != nil {
			return newFlagSet(), err
		}
	}
	if !cmd.SkipFlagParsing {
		var err error
		if args, err = parseInto(set, args, cmd.UseShortOptionHandling); err == nil {
			err = copyToAliases(cmd.Flags, set)
		}
		if err != nil {
			return newFlagSet(), err
		}
	}
	return set, set.Parse(append([]string{"--"}, args...))
}

func newFlagSet() *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return set
}

// parseInto sets flags from the beginning of args and returns the operands. With short,
// flags of one letter may be joined.
func parseInto(set *flag.FlagSet, args []string, short bool) ([]string, error) {
	passed := make(map[string]*passedOn)
	for {
		parser := newFlagSet()
		addNamed(parser, set, args, passed)
		err := parser.Parse(args)
		if err == nil || !short {
			return parser.Args(), err
		}
		unknown, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
		at := slices.IndexFunc(args, func(arg string) bool { return strings.TrimLeft(arg, "-") == unknown })
		if !ok || at < 0 {
			return nil, err
		}
		letters := splitLetters(set, args[at])
		if letters == nil {
			return nil, err
		}
		// What stands before was parsed.
		args = append(letters, args[at+1:]...)
	}
}

// addNamed adds to parser the flags of set that args may name. A server has a hundred flags, of
// which a command line names three, and a flag takes a microsecond to add. Those added are kept in
// passed, by name.
func addNamed(parser, set *flag.FlagSet, args []string, passed map[string]*passedOn) {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		f := set.Lookup(name)
		if f == nil || parser.Lookup(name) != nil {
			continue
		}
		if passed[name] == nil {
			passed[name] = &passedOn{set: set, flag: f}
		}
		parser.Var(passed[name], name, "")
	}
}

// splitLetters returns -a and -b for -ab, or nil if that is not what arg means.
func splitLetters(set *flag.FlagSet, arg string) []string {
	if len(arg) < 3 || arg[0] != '-' || arg[1] == '-' {
		return nil
	}
	var letters []string
	for _, letter := range arg[1:] {
		if set.Lookup(string(letter)) == nil {
			return nil
		}
		letters = append(letters, "-"+string(letter))
	}
	return letters
}

// passedOn is a flag whose values are passed on to another set. A value of a flag that may
// be repeated may have commas in it, at which the library would split it.
type passedOn struct {
	set   *flag.FlagSet
	flag  *flag.Flag
	given []string
}

func (p *passedOn) String() string { return "" }

func (p *passedOn) IsBoolFlag() bool {
	b, ok := p.flag.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func (p *passedOn) Set(value string) error {
	if _, ok := p.flag.Value.(*cli.StringSlice); ok {
		p.given = append(p.given, value)
		value = cli.NewStringSlice(p.given...).Serialize()
	}
	return p.set.Set(p.flag.Name, value)
}

// copyToAliases gives all names of a flag the value that one of them was given.
func copyToAliases(flags []cli.Flag, set *flag.FlagSet) error {
	given := make(map[string]bool)
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	left := len(given)
	for _, f := range flags {
		if left == 0 {
			break
		}
		var from *flag.Flag
		names := f.Names()
		for _, name := range names {
			if !given[name] {
				continue
			}
			if from != nil {
				return fmt.Errorf("--%s and --%s mean the same: give one of them", from.Name, name)
			}
			from = set.Lookup(name)
			left--
		}
		for _, name := range names {
			if from == nil || given[name] {
				continue
			}
			value := from.Value.String()
			if s, ok := from.Value.(cli.Serializer); ok {
				value = s.Serialize()
			}
			if err := set.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
