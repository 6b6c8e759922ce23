package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// built is the output of codex version --json.
type built struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`     // time of the commit
	Modified bool   `json:"modified,omitempty"` // the work tree had uncommitted changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func versionCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version of this program",
		Description: `Prints the version, as codex --version does. With --json it also prints the commit and
its time, the version of Go, the operating system and the architecture.

Example:
   codex version --json`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("version takes no arguments, got %q; see codex version --help", c.Args().First())
			}
			if !c.Bool("json") {
				return printVersion(c)
			}
			return cmdutil.PrintJSON(s.Out, build(c.App.Version))
		},
	}
}

func printVersion(c *cli.Context) error {
	_, err := fmt.Fprintf(c.App.Writer, "codex %s\n", c.App.Version)
	return err
}

// build returns the known facts about the build of the program.
func build(version string) built {
	b := built{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}
