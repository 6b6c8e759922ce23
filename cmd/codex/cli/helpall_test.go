package cli

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestHelpOfAllCommands reads the help of the program and of every command: its lines fit 80 columns, a command that
// has commands shows that in its usage, an option that is off does not say so, and a command that does something shows
// an example.
func TestHelpOfAllCommands(t *testing.T) {
	const columns = 80
	t.Setenv("COLUMNS", "")
	seen := 0
	var visit func(commands []*cli.Command, path ...string)
	visit = func(commands []*cli.Command, path ...string) {
		name := strings.Join(append([]string{"codex"}, path...), " ")
		text := helpOf(t, newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard}), path...)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("%s --help has a line of %d columns, want at most %d:\n%s", name, n, columns, line)
			}
		}
		if strings.Contains(text, "default: false") {
			t.Errorf("%s --help has (default: false)", name)
		}
		_, usage, _ := strings.Cut(text, "USAGE:\n")
		usage, _, _ = strings.Cut(usage, "\n\n")
		if len(commands) > 0 && !strings.Contains(usage, "COMMAND") {
			t.Errorf("%s has %d commands, and its usage is %q", name, len(commands), usage)
		}
		if !strings.Contains(text, "Example") {
			t.Errorf("%s --help shows no example", name)
		}
		for _, c := range commands {
			if c.Name != "help" && !c.Hidden {
				seen++
				visit(c.Subcommands, append(path[:len(path):len(path)], c.Name)...)
			}
		}
	}
	visit(newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard}).Commands)
	if seen < 20 {
		t.Errorf("%d commands were visited, want all, which are more than 20", seen)
	}
}

// TestHelpColumns wraps pages to COLUMNS, within limits. Only words and examples, which are not wrapped, are longer.
func TestHelpColumns(t *testing.T) {
	const example, option = "      ", "                             " // indentations
	for _, tt := range []struct {
		columns string
		want    int
	}{{"", 80}, {"x", 80}, {"0", 80}, {"-5", 80}, {"10", 60}, {"60", 60}, {"72", 72}, {"100", 100}, {"300", 100}} {
		t.Setenv("COLUMNS", tt.columns)
		text := helpOf(t, newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard}), "remote", "run")
		longest := 0
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); strings.HasPrefix(line, option) || !strings.HasPrefix(line, example) {
				longest = max(longest, n)
			}
		}
		if longest > tt.want || longest < tt.want-5 {
			t.Errorf("COLUMNS=%s: the longest line has %d columns, want about %d, and no more", tt.columns, longest, tt.want)
		}
	}
}

// TestFill wraps paragraphs and leaves examples and tables as they are.
func TestFill(t *testing.T) {
	text := "One two\nthree four five.\n\nExamples:\n   codex remote run -- a\n     b\nNext\nline."
	want := "One two three\n   four five.\n\n   Examples:\n      codex remote run -- a\n        b\n   Next line."
	if got := fill(text, 17); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
