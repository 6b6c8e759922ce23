package cmdutil

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestGiven: what is given is what IsSet of the library says, for options without environment variables.
func TestGiven(t *testing.T) {
	names := []string{"word", "w", "level", "yes", "list", "none"}
	for _, args := range []string{"", "--word x", "-w x", "--word=", "--yes", "--yes=false", "--list a --list b", "--level 0", "-w x --level 2"} {
		ran := false
		app := &cli.App{
			Flags: []cli.Flag{&cli.StringFlag{Name: "root"}, &cli.StringFlag{Name: "none"}},
			Commands: []*cli.Command{{
				Name: "do",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "word", Aliases: []string{"w"}, Value: "default"}, &cli.IntFlag{Name: "level", Value: 1},
					&cli.BoolFlag{Name: "yes"}, &cli.StringSliceFlag{Name: "list"}, &cli.StringFlag{Name: "none"},
				},
				Action: func(c *cli.Context) error {
					for _, name := range names {
						if got, want := Given(c, name), c.IsSet(name); got != want {
							t.Errorf("%q: %s: %v, want %v", args, name, got, want)
						}
					}
					if err := c.Set("none", "value"); err != nil || !Given(c, "none") {
						t.Errorf("%q: an option that is set as by a configuration file: %v, %v", args, Given(c, "none"), err)
					}
					ran = true
					return nil
				},
			}},
		}
		for _, root := range []string{"", "--root r", "--none n"} {
			if err := app.Run(append(append([]string{"app"}, strings.Fields(root)...), append([]string{"do"}, strings.Fields(args)...)...)); err != nil || !ran {
				t.Errorf("%q: %v, ran %v", args, err, ran)
			}
		}
	}
}
