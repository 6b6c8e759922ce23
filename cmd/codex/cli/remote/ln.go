package remote

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"github.com/urfave/cli/v2"
)

func remoteLnCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "ln", Usage: "make a symbolic link on the server", ArgsUsage: "TARGET LINK",
		Description: `Both paths are the server's; the colon that cp needs before them may be left out.
The target is written into the link as you type it: a relative one begins at the
directory of the link, and ~ means nothing in it. It need not exist.

If LINK is a directory, the link is made in it, with the last name of the target.
Only symbolic links can be made.

Examples:
   codex remote ln -s ../lib/libx.so.1 /srv/lib/libx.so
   codex remote ln -sfn releases/42 /srv/current`,
		Flags: serverFlags(
			cmdutil.RemoteFiles,
			&cli.BoolFlag{Name: "symbolic", Aliases: []string{"s"}, Usage: "make a symbolic link; required, because ln makes no hard links"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "replace a link that exists"},
			&cli.BoolFlag{Name: "no-dereference", Aliases: []string{"n"}, Usage: "replace LINK itself, even if it leads to a directory"},
		),
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() != 2:
				return cmdutil.Usagef("ln takes a target and the path of the link, got %d arguments: codex remote ln -s TARGET LINK", c.NArg())
			case !c.Bool("symbolic"):
				return cmdutil.Usagef("ln makes symbolic links only: codex remote ln -s TARGET LINK")
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				if err := makeLink(c, fs, at); err != nil {
					return fmt.Errorf("make the link %s: %w", c.Args().Get(1), withoutPath(err))
				}
				return nil
			})
		},
	}
}

// makeLink makes the link that the command names.
func makeLink(c *cli.Context, fs *execclient.FS, at places) error {
	target, link := strings.TrimPrefix(c.Args().Get(0), ":"), c.Args().Get(1)
	if target == "" {
		return errors.New("its target is empty")
	}
	uri, err := at.marked(link)
	if err != nil {
		return err
	}
	there, err := fs.Stat(c.Context, uri)
	if err == nil && there.IsDirectory && !(there.IsSymlink && c.Bool("no-dereference")) {
		name := path.Base(target)
		if name == "/" || name == "." || name == ".." {
			return fmt.Errorf("the link needs a name, because %s has none", target)
		}
		uri = under(uri, name)
	}
	return fs.Symlink(c.Context, target, uri, execclient.SymlinkOptions{Overwrite: c.Bool("force")})
}
