package remote

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteMvCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "mv", Usage: "move or rename files of the server", ArgsUsage: "SOURCE... TARGET",
		Description: `All paths are the server's; the colon that cp needs before them may be left out.
Relative paths begin at the server's own directory, and ~ is its home.

If the target is a directory, the sources are moved into it. An existing file with the
new name is replaced, unless --no-clobber is given; an existing directory is replaced if
it is empty. Links are not followed. Each source moves in one step; nothing is moved
between file systems.

Examples:
   codex remote mv report.txt old-report.txt
   codex remote mv -n /tmp/a /tmp/b /srv/files/`,
		Flags: serverFlags(cmdutil.RemoteFiles, &cli.BoolFlag{Name: "no-clobber", Aliases: []string{"n"}, Usage: "fail if the new name exists"}),
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) < 2 {
				return cmdutil.Usagef("mv needs a source and a target: codex remote mv OLD NEW")
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				m := &moving{c: c, fs: fs, at: at, options: execclient.RenameOptions{Overwrite: !c.Bool("no-clobber")}}
				return m.all(args[:len(args)-1], args[len(args)-1])
			})
		},
	}
}

// moving is one mv.
type moving struct {
	c       *cli.Context
	fs      *execclient.FS
	at      places
	options execclient.RenameOptions
}

// all moves the sources to the target. If the target is a directory, it moves them into it.
func (m *moving) all(sources []string, target string) error {
	uri, err := m.at.marked(target)
	if err != nil {
		return err
	}
	there, err := m.fs.Stat(m.c.Context, uri)
	into := err == nil && there.IsDirectory
	if !into && (len(sources) > 1 || strings.HasSuffix(target, "/")) {
		return fmt.Errorf("the target %s is not a directory on the server", target)
	}
	for _, source := range sources {
		if err := m.one(source, uri, into); err != nil {
			return fmt.Errorf("move %s: %w", source, m.remedy(withoutPath(err), source, target))
		}
	}
	return nil
}

// one moves a source to a URI, or into the directory at that URI.
func (m *moving) one(source, to string, into bool) error {
	from, err := m.at.marked(source)
	if err != nil {
		return err
	}
	if into {
		native, err := pathuri.Parse(from, "")
		if err != nil {
			return err
		}
		to = under(to, path.Base(native))
	}
	return m.fs.Rename(m.c.Context, from, to, m.options)
}

// remedy adds a command that can move the file to the error of a rename that cannot move it.
func (m *moving) remedy(err error, source, target string) error {
	switch {
	case errors.Is(err, execclient.ErrUnsupported):
		err = errors.New("this server cannot rename files")
	case !errors.Is(err, syscall.EXDEV):
		return err
	}
	command := []string{"codex", "remote", "run", "--", "mv"}
	if !m.options.Overwrite {
		command = append(command, "-n")
	}
	for _, typed := range []string{source, target} {
		uri, _ := m.at.marked(typed) // the path was checked before
		native, parse := pathuri.Parse(uri, "")
		if parse != nil {
			return err
		}
		command = append(command, native)
	}
	return fmt.Errorf("%w; a command of the server can move it: %s", err, shellCommand(command))
}
