package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestOptionsBehindOperands arranges command lines for the library, which ends the options at the first
// operand.
func TestOptionsBehindOperands(t *testing.T) {
	for typed, want := range map[string]string{
		"remote ls /tmp -l":                "remote ls -l /tmp",
		"remote ls -l /tmp":                "remote ls -l /tmp",
		"remote ls /tmp":                   "remote ls /tmp",
		"remote --env x ls /tmp -la":       "remote --env x ls -la /tmp",
		"remote --env=x ls /tmp --env y":   "remote --env=x ls --env y /tmp",
		"remote cp a :b -r --exclude x -p": "remote cp -r --exclude x -p a :b",
		"remote cp a - --exclude=x":        "remote cp --exclude=x a -",
		"remote cp a -r -- -b :c":          "remote cp -r -- a -b :c",
		"remote cp -- a -r":                "remote cp -- a -r",
		"remote cp a :b --exclude":         "remote cp --exclude a :b",
		"remote mv a b -n":                 "remote mv -n a b",
		"remote cat a --url u b":           "remote cat --url u a b",
		"remote watch d --url u -- ls -l":  "remote watch --url u -- d ls -l",
		"remote run ls -l":                 "remote run ls -l",
		"remote run --tty ls --nope":       "remote run --tty ls --nope",
		"remote run -- ls -l":              "remote run -- ls -l",
		"remote run host -- cmd":           "remote run host -- cmd",
		"remote exec make -n":              "remote exec make -n",
		"sandbox ls -l":                    "sandbox ls -l",
		"audit verify trail --key k":       "audit verify --key k trail",
		"environments rm x":                "environments rm x",
		"remote nosuch a -l":               "remote nosuch a -l",
		"-- remote ls --nope":              "-- remote ls --nope",
		"":                                 "",
	} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		arranged, err := cmdutil.Arrange(app, append([]string{"codex"}, strings.Fields(typed)...))
		if got := strings.Join(arranged[1:], " "); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", typed, got, err, want)
		}
	}
}

// TestOperandsAreDeclared fails for a command that shows operands in its help and declares none, or the other
// way round: options after them would be parsed as operands, and shell completion would offer nothing.
func TestOperandsAreDeclared(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	walkCommands(app.Commands, nil, func(path []string) {
		c := commandAt(app.Commands, path)
		declared := cmdutil.OperandsOf(c)
		if (c.ArgsUsage != "") != (declared != nil) {
			t.Errorf("codex %s: the help shows the operands %q, and its Flags declare %+v: give both or none", strings.Join(path, " "), c.ArgsUsage, declared)
			return
		}
		if runs := strings.HasPrefix(c.ArgsUsage, "-- COMMAND"); declared != nil && runs != declared.CommandLine {
			t.Errorf("codex %s: the help shows the operands %q, got CommandLine = %v, want %v", strings.Join(path, " "), c.ArgsUsage, declared.CommandLine, runs)
		}
	})
}

// TestUndeclaredOperandsAreRefused gives an operand to each command whose help shows none. A command
// that accepts it uses operands without declaring them, and fails the test.
func TestUndeclaredOperandsAreRefused(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	walkCommands(app.Commands, nil, func(path []string) {
		if cmdutil.OperandsOf(commandAt(app.Commands, path)) != nil {
			return
		}
		var errs strings.Builder
		args := slices.Concat([]string{"codex"}, path, []string{"surplus"})
		if code := Main(args, strings.NewReader(""), io.Discard, &errs); code != cmdutil.ExitUsage || !strings.Contains(errs.String(), "surplus") {
			t.Errorf("%q: got exit code %d and %q, want %d and an error that names the operand", args, code, errs.String(), cmdutil.ExitUsage)
		}
	})
}

// TestSpaceInValues: the library trims the values of an option that may be repeated, unless the application turns that off.
func TestSpaceInValues(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	var got []string
	commandAt(app.Commands, []string{"remote", "run"}).Action = func(c *cli.Context) error {
		got = c.StringSlice("env-var")
		return nil
	}
	want := []string{"PS1=$ ", "A=1,2", "B=3"}
	err := run(t.Context(), app, []string{"codex", "remote", "run", "-e", want[0], "-e", want[1], "-e=" + want[2], "-it", "--", "sh"})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
