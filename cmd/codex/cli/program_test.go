package cli

import (
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// TestTextsNameTheProgramAsItWasStarted: installed under another name, the help, errors and hints name that one, because
// codex may be another program.
func TestTextsNameTheProgramAsItWasStarted(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	t.Cleanup(func() { cmdutil.SetProgram("codex") })
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	for name, want := range map[string]string{
		"/opt/bin/codex-go": "codex-go", "cx": "cx", "x+codex": "x+codex", "codex.exe": "codex", "codex": "codex", "-codex": "codex", "a b": "codex", "/proc/self/exe": "codex", "x\x1b[2J": "codex",
	} {
		cmdutil.SetProgram(name)
		for _, c := range app.Commands {
			if c.Name == "help" {
				continue
			}
			if got := cmdutil.OwnCommands("try `codex " + c.Name + "`"); got != "try `"+want+" "+c.Name+"`" {
				t.Errorf("started as %q: got %s, want %s before %s", name, got, want, c.Name)
			} else if again := cmdutil.OwnCommands(got); again != got {
				t.Errorf("started as %q: got %s the second time, want %s", name, again, got)
			}
		}
	}
	cmdutil.SetProgram("cx")
	for _, same := range []string{"codex-linux-sandbox --help", "/usr/bin/codex remote", "codex: the connection was lost", "codex ended", "./codex remote run"} {
		if got := cmdutil.OwnCommands(same); got != same {
			t.Errorf("got %q, want %q unchanged", got, same)
		}
	}
	for args, want := range map[string]string{
		"remote nosuch":                   "error: cx remote has no command \"nosuch\"; see cx remote --help\n",
		"ps":                              "did you mean cx remote ps? see cx --help\n",
		"exec-server token revoke nosuch": "hint: cx exec-server token list shows the tokens with their ids\n",
		"remote run --help":               "      cx remote run -- uname -a\n",
		"":                                "   cx [global options] COMMAND [command options]\n",
	} {
		var out strings.Builder
		Main(append([]string{"/opt/bin/cx"}, strings.Fields(args)...), strings.NewReader(""), &out, &out)
		if got := strings.ReplaceAll(out.String(), "codex\n                             ", "codex "); !strings.Contains(got, want) || strings.Contains(got, "codex remote") || strings.Contains(got, "codex exec-server") {
			t.Errorf("cx %s: got\n%s\nwant %q, and no command of codex", args, got, want)
		}
	}
}
