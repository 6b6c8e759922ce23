package remote

import (
	"fmt"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"github.com/urfave/cli/v2"
)

func remoteMkdirCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "mkdir", Usage: "make directories on the server", ArgsUsage: "PATH...",
		Description: `All paths are the server's; the colon that cp needs before them may be left out.

Example:
   codex remote mkdir -p '~/project/build'`,
		Flags: serverFlags(
			cmdutil.RemoteFiles,
			&cli.BoolFlag{Name: "parents", Aliases: []string{"p"}, Usage: "make parent directories too; ignore directories that exist"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cmdutil.Usagef("mkdir needs the path of a directory on the server")
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				mkdir := fs.Mkdir
				if c.Bool("parents") {
					mkdir = fs.MkdirAll
				}
				return eachOperand(c.Context, s.Err, "made", c.Args().Slice(), func(typed string) error {
					uri, err := at.marked(typed)
					if err == nil {
						err = mkdir(c.Context, uri)
					}
					if err != nil {
						return fmt.Errorf("make %s: %w", typed, withoutPath(err))
					}
					return nil
				})
			})
		},
	}
}
