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

// helpOf runs the app with --help behind the path of a command, and returns
// what it prints.
func helpOf(t *testing.T, app *cli.App, path ...string) string {
	t.Helper()
	var out bytes.Buffer
	app.Writer = &out
	args := append(append([]string{app.Name}, path...), "--help")
	if err := run(t.Context(), app, args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

func TestHelp(t *testing.T) {
	verbose := &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say\nmore"}
	secret := &cli.StringFlag{Name: "secret", Usage: "unseen", Hidden: true}
	for _, tt := range []struct {
		name string
		app  cli.App
		path []string
		want string
	}{
		{
			name: "an app has its version, commands and global options",
			app: cli.App{
				Usage: "try", Version: "1.2", Description: "One.\n\n  Two.", ArgsUsage: "FILE",
				Flags: []cli.Flag{&cli.StringFlag{Name: "url", Usage: "ask `URL`"}, secret},
				Commands: []*cli.Command{
					{Name: "list", Aliases: []string{"ls"}, Usage: "show\nall"},
					{Name: "unseen", Hidden: true},
				},
			},
			want: `NAME:
   app - try

USAGE:
   app [global options] command [command options] FILE

VERSION:
   1.2

DESCRIPTION:
   One.

     Two.

COMMANDS:
   list, ls  show
             all
   help, h   show what a command does

GLOBAL OPTIONS:
   --url URL          ask URL
   --help, -h         show help
   --version, -v, -V  print the version
`,
		},
		{
			name: "what is empty is left out",
			app:  cli.App{Commands: []*cli.Command{{Name: "run"}}},
			path: []string{"run"},
			want: "NAME:\n   app run\n\nUSAGE:\n   app run [command options]\n\nOPTIONS:\n   --help, -h  show help\n",
		},
		{
			name: "an app may say itself how it is used",
			app:  cli.App{Usage: "try", UsageText: "app this\napp that", HideVersion: true},
			want: "NAME:\n   app - try\n\nUSAGE:\n   app this\n   app that\n\nCOMMANDS:\n   help, h  show what a command does\n\n" +
				"GLOBAL OPTIONS:\n   --help, -h         show help\n   --version, -v, -V  print the version\n",
		},
		{
			name: "a command without subcommands has options only",
			app:  cli.App{Commands: []*cli.Command{{Name: "run", Usage: "go", Args: true, Flags: []cli.Flag{verbose, secret}}}},
			path: []string{"run"},
			want: `NAME:
   app run - go

USAGE:
   app run [command options] [arguments...]

OPTIONS:
   --verbose, -v  say
      more (default: false)
   --help, -h  show help
`,
		},
		{
			name: "a command with subcommands lists them",
			app: cli.App{Commands: []*cli.Command{{Name: "file", Usage: "do\nfiles", ArgsUsage: "PATH", Description: "Files.",
				Subcommands: []*cli.Command{{Name: "copy", Usage: "copy one"}}}}},
			path: []string{"file"},
			want: `NAME:
   app file - do
              files

USAGE:
   app file [command options] PATH

DESCRIPTION:
   Files.

COMMANDS:
   copy     copy one
   help, h  show what a command does

OPTIONS:
   --help, -h  show help
`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app := tt.app
			app.Name = "app"
			prepare(&app)
			if got := helpOf(t, &app, tt.path...); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestHelpOfWhatIsNone(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("help for an integer was printed")
		}
	}()
	printHelp(io.Discard, "", 1)
}

// sameWords compares two pages of help without their line breaks and columns: those
// of the library's templates are wider than a terminal.
func sameWords(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }

// TestHelpOfEveryCommand compares with the library's help.
func TestHelpOfEveryCommand(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	got := helpOf(t, app)
	checkHelp(t, got, app.VisibleCommands(), app.VisibleFlags())
	if want := byLibrary(t); !sameWords(got, want) {
		t.Errorf("codex: got:\n%s\nwant:\n%s", got, want)
	}
	walkCommands(app.Commands, nil, func(path []string) {
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
			got := helpOf(t, app, path...)
			c := commandAt(app.Commands, path)
			checkHelp(t, got, c.VisibleCommands(), c.VisibleFlags())
			if want := byLibrary(t, path...); !sameWords(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			for at := range path { // codex help remote run, codex remote help run
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

// byLibrary returns the help that the library prints by its templates.
func byLibrary(t *testing.T, path ...string) string {
	t.Helper()
	var out bytes.Buffer
	app := newApp(cmdutil.Streams{Out: &out, Err: io.Discard})
	if err := app.Run(append(append([]string{"codex"}, path...), "--help")); err != nil {
		t.Fatal(err)
	}
	return out.String()
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

// walkCommands calls visit with the path of each command, but for those that
// the library adds.
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
