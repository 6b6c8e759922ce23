package cli

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestHelpOfAllCommands reads the help of the program and of every command: its lines
// fit a terminal of 100 columns, and a command that does something shows an example.
func TestHelpOfAllCommands(t *testing.T) {
	const columns = 100
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
