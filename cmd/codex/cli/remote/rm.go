package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteRmCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove files of the server", ArgsUsage: "PATH...",
		Description: `All paths are the server's; the colon that cp needs before them may be left out.
In a path, * ? and [ ] match names.

Of a link, the link itself is removed and not its target. A directory needs
--recursive, even if it is empty. If some files cannot be removed, they are reported,
the others are removed, and the exit code is 1.

Examples:
   codex remote rm /tmp/report.txt ':build/*.o'
   codex remote rm -r '~/project/build'`,
		Flags: serverFlags(
			cmdutil.RemoteFiles,
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r", "R"}, Usage: "remove directories with all that is below them"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "ignore paths that do not exist"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 && !c.Bool("force") {
				return cmdutil.Usagef("rm needs the path of a file on the server")
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				r := &removing{ctx: c.Context, fs: fs, at: at, recursive: c.Bool("recursive"), force: c.Bool("force")}
				operands, err := r.operands(c.Args().Slice())
				if err != nil {
					return err
				}
				return eachOperand(c.Context, s.Err, "removed", operands, func(typed string) error {
					if err := r.one(typed); err != nil {
						return fmt.Errorf("remove %s: %w", typed, withoutPath(err))
					}
					return nil
				})
			})
		},
	}
}

// removing is one rm.
type removing struct {
	ctx              context.Context
	fs               *execclient.FS
	at               places
	recursive, force bool
}

// operands returns the paths to remove. With --force, a pattern may match no path.
func (r *removing) operands(typed []string) ([]string, error) {
	m := &matcher{r.ctx, r.fs, r.at}
	var all []string
	for _, one := range typed {
		found, err := m.expand("remove", []string{one})
		if errors.Is(err, errNoMatch) && r.force {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r *removing) one(typed string) error {
	if base := path.Base(strings.TrimPrefix(typed, ":")); base == "." || base == ".." {
		return errors.New("this may be the server's own directory or a parent of it; name the directory")
	}
	uri, err := r.at.marked(typed)
	if err != nil {
		return err
	}
	if native, err := pathuri.Parse(uri, ""); err == nil && path.Clean(native) == "/" {
		return errors.New("this is the root directory of the server")
	}
	// Stat fails for a link whose target is missing. The link itself is removed.
	there, err := r.fs.Stat(r.ctx, uri)
	directory := err == nil && there.IsDirectory && !there.IsSymlink
	switch {
	case directory && !r.recursive:
		return errors.New("it is a directory; remove it and all that is below it with -r")
	case directory:
		return r.fs.RemoveAll(r.ctx, uri)
	}
	if err = r.fs.Remove(r.ctx, uri); r.force && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
