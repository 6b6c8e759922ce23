package sandbox

import (
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
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
			t.Errorf("%s: %v", args, err)
		}
	}
}
