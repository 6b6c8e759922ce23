package cmdutil

import (
	"context"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestIsSet: an option is set by the command line, under each of its names, by a variable, and by Context.Set, which a
// file with options uses. It is not set by its default, or by an option of the same name before the command.
func TestIsSet(t *testing.T) {
	t.Setenv("CODEX_TEST_VARIABLE", "1")
	want := map[string]bool{
		"line": true, "l": true, "alias": true, "a": true, "empty": true, "variable": true, "file": true,
		"default": false, "before": false, "none": false,
	}
	app := &cli.App{
		Name: "codex", Flags: []cli.Flag{&cli.StringFlag{Name: "before"}},
		Commands: []*cli.Command{{
			Name: "command",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "line", Aliases: []string{"l"}}, &cli.BoolFlag{Name: "alias", Aliases: []string{"a"}}, &cli.StringFlag{Name: "empty"},
				&cli.StringFlag{Name: "variable", EnvVars: []string{"CODEX_TEST_VARIABLE"}}, &cli.StringFlag{Name: "file"},
				&cli.StringFlag{Name: "default", Value: "x"}, &cli.StringFlag{Name: "before"},
			},
			Action: func(c *cli.Context) error {
				if err := c.Set("file", "x"); err != nil {
					return err
				}
				for name, set := range want {
					if got := IsSet(c, name); got != set || got != c.IsSet(name) {
						t.Errorf("%s: got %v, want %v; the library's answer is %v", name, got, set, c.IsSet(name))
					}
				}
				return nil
			},
		}},
	}
	if err := app.RunContext(context.Background(), []string{"codex", "--before", "x", "command", "--line", "x", "-a", "--empty", ""}); err != nil {
		t.Error(err)
	}
}
