package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// helpOf runs the app with --help after the path of a command, and returns its
// output.
func helpOf(t *testing.T, app *cli.App, path ...string) string {
	t.Helper()
	var out bytes.Buffer
	app.Writer = &out
	args := append(append([]string{app.Name}, path...), "--help")
	if err := run(t.Context(), app, args); err != nil {
		t.Fatalf("%q: got error %v, want no error", args, err)
	}
	return out.String()
}

// TestHelp prints pages with all sections, and with the necessary ones only.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "")
	for _, tt := range []struct {
		name    string
		command cli.Command
		want    string
	}{
		{"a command without a description", cli.Command{}, `NAME:
   codex run

USAGE:
   codex run [command options]

OPTIONS:
   --help, -h                show help
`},
		{"a command with all sections", cli.Command{
			Usage: "do files", ArgsUsage: "PATH", Description: "One.\n\n   Two.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "secret", Usage: "unseen", Hidden: true},
				&cli.StringFlag{Name: "url", Usage: strings.Repeat("ask `URL` ", 8)},
				&cli.StringFlag{Name: "a-name-of-many-words-that-is-long", Value: "x", Usage: "say more"},
			},
			Subcommands: []*cli.Command{{Name: "copy", Aliases: []string{"cp"}, Usage: "copy one"}, {Name: "unseen", Hidden: true}},
		}, `NAME:
   codex run - do files

USAGE:
   codex run [command options] PATH | COMMAND

DESCRIPTION:
   One.

      Two.

COMMANDS:
   copy, cp  copy one
   help, h   show the help of a command

OPTIONS:
   --url URL                 ask URL ask ` + "`URL` ask `URL` ask `URL` ask `URL` ask" + `
                             ` + "`URL` ask `URL` ask `URL`" + `
   --a-name-of-many-words-that-is-long value
                             say more (default: "x")
   --help, -h                show help
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app := &cli.App{Name: "codex", Commands: []*cli.Command{&tt.command}}
			tt.command.Name = "run"
			app.Setup()
			addCommon(&tt.command)
			if got := helpOf(t, app, "run"); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// TestHelpWithOperands requests help with operands, and help as an operand.
func TestHelpWithOperands(t *testing.T) {
	page := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), newApp(cmdutil.Streams{Out: &out, Err: io.Discard}), append([]string{"codex"}, args...)); err != nil {
			t.Errorf("%q: got %v, want help", args, err)
		}
		return out.String()
	}
	for typed, want := range map[string]string{
		"":                         "--help",
		"help":                     "--help",
		"-h remote ls":             "remote ls --help",
		"remote":                   "remote --help",
		"remote help":              "remote --help",
		"remote cp -h /tmp":        "remote cp --help",
		"remote ls /tmp --help":    "remote ls --help",
		"remote run --help ls":     "remote run --help",
		"remote -h nope":           "remote --help",
		"help environments rm":     "environments remove --help",
		"exec-server help token":   "exec-server token --help",
		"h rendezvous token":       "rendezvous token --help",
		"rendezvous token h list":  "rendezvous token list --help",
		"exec-server token help":   "exec-server token --help",
		"help remote run":          "remote run --help",
		"sandbox --help -- ls -la": "sandbox --help",
	} {
		if got, want := page(strings.Fields(typed)...), page(strings.Fields(want)...); got != want || got == "" {
			t.Errorf("codex %s: got:\n%s\nwant:\n%s", typed, got, want)
		}
	}
	var errs strings.Builder
	t.Setenv("CODEX_EXEC_SERVER_URL", "ws://127.0.0.1:1")
	if code := Main([]string{"codex", "remote", "rm", "help"}, strings.NewReader(""), io.Discard, &errs); code != cmdutil.ExitUnreachable {
		t.Errorf("codex remote rm help: got exit code %d, %s, want it to remove the file help", code, errs.String())
	}
}

// TestHelpOfEveryCommand checks that each command and option is in the help, with --help
// and with the help command.
func TestHelpOfEveryCommand(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	got := helpOf(t, app)
	checkHelp(t, got, app.VisibleCommands(), app.VisibleFlags())
	walkCommands(app.Commands, nil, func(path []string) {
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
			got := helpOf(t, app, path...)
			c := commandAt(app.Commands, path)
			checkHelp(t, got, c.VisibleCommands(), c.VisibleFlags())
			for at := range path { // codex help remote run, and codex remote help run
				args := append([]string{"codex"}, slices.Insert(slices.Clone(path), at, "help")...)
				var out bytes.Buffer
				app = newApp(cmdutil.Streams{Out: &out, Err: io.Discard})
				if err := run(t.Context(), app, args); err != nil || out.String() != got {
					t.Errorf("%q: %v, and not as with --help:\n%s", args, err, out.String())
				}
			}
		})
	})
}

func checkHelp(t *testing.T, help string, commands []*cli.Command, flags []cli.Flag) {
	t.Helper()
	for _, title := range []string{"NAME:\n", "\nUSAGE:\n", "OPTIONS:\n"} {
		if !strings.Contains(help, title) {
			t.Errorf("there is no %q in:\n%s", title, help)
		}
	}
	for _, c := range commands {
		if line := "\n   " + strings.Join(c.Names(), ", ") + "  "; !strings.Contains(help, line) {
			t.Errorf("there is no %q in:\n%s", line, help)
		}
	}
	for _, f := range flags {
		if line := "\n   --" + f.Names()[0]; !strings.Contains(help, line) {
			t.Errorf("there is no %q in:\n%s", line, help)
		}
	}
}

// walkCommands calls visit with the path of each command, except those that the library adds.
func walkCommands(commands []*cli.Command, parent []string, visit func(path []string)) {
	for _, c := range commands {
		if c.Name == "help" {
			continue
		}
		path := append(slices.Clone(parent), c.Name)
		visit(path)
		walkCommands(c.Subcommands, path, visit)
	}
}

func commandAt(commands []*cli.Command, path []string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == path[0] })
	if len(path) == 1 {
		return commands[i]
	}
	return commandAt(commands[i].Subcommands, path[1:])
}
