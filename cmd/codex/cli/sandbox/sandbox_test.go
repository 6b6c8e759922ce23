package sandbox

import (
	"errors"
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/runner"
	"github.com/urfave/cli/v2"
)

func TestTheSandboxOfThisMachineIsNotTheRoot(t *testing.T) {
	t.Chdir("/")
	for args, refused := range map[string]bool{
		"--workspace-write": true, "--workspace-write --cwd /": false, "--read-only": false,
	} {
		var c *cli.Context
		command := Command(cmdutil.Streams{})
		command.Action = func(got *cli.Context) error { c = got; return nil }
		app := &cli.App{Commands: []*cli.Command{command}, Writer: io.Discard}
		if err := app.Run(append(append([]string{"codex", "sandbox"}, strings.Fields(args)...), "--", "true")); err != nil {
			t.Fatal(err)
		}
		if _, err := launchOf(c, cmdutil.Streams{}); (err != nil) != refused {
			t.Errorf("%s: got error %v, want an error: %v", args, err, refused)
		}
	}
}

// TestNobodyIsAskedHere: the command has the terminal, so it could answer a question on the
// terminal. So this command refuses the option of codex remote run, and names an alternative.
func TestNobodyIsAskedHere(t *testing.T) {
	for _, args := range []string{"--ask-network -- true", "--workspace-write --cwd /tmp --allow-domain a.test --ask-network -- true", "--ask-network --explain"} {
		app := &cli.App{Commands: []*cli.Command{Command(cmdutil.Streams{})}, Writer: io.Discard, ExitErrHandler: func(*cli.Context, error) {}}
		err := app.Run(append([]string{"codex", "sandbox"}, strings.Fields(args)...))
		var exit *cmdutil.ExitError
		if !errors.As(err, &exit) || exit.Code != 2 || !strings.Contains(err.Error(), "codex remote run --ask-network") {
			t.Errorf(`%s: got error %v; want errors.As(err, &exit), exit.Code 2, an error with "codex remote run --ask-network"`, args, err)
		}
	}
}

// TestWindowsSaysWhatIsMissing follows the launch of codex sandbox on a Windows host.
func TestWindowsSaysWhatIsMissing(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	command := Command(cmdutil.Streams{})
	command.Action = func(c *cli.Context) error { return runWindows(c, cmdutil.Streams{}) }
	app := &cli.App{Commands: []*cli.Command{command}, Writer: io.Discard, ExitErrHandler: func(*cli.Context, error) {}}
	err := app.Run([]string{"codex", "sandbox", "--workspace-write", "--", "dir"})
	var exit *cmdutil.ExitError
	if !errors.As(err, &exit) || exit.Code != notStarted || !errors.Is(err, runner.ErrNoSetup) {
		t.Fatalf("got %v", err)
	}
	if advice := cmdutil.AdviceOn(err); !strings.Contains(advice, onAServer) {
		t.Errorf("the advice is %q", advice)
	}
}
