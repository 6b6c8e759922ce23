package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteWatchCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "report changes of files on the server, or run a command after them",
		ArgsUsage: "PATH [-- COMMAND [ARGUMENT...]]",
		Description: `Prints a line for each change of the file, or of the directory and everything below
it: created, modified, attributes or removed, and the path. A line "overflow" means
that changes were lost, and that everything may have changed.

With a COMMAND no changes are printed: the command runs on the server at once, and
again after changes. Changes while it runs make it run once more. Use --exclude for
files that the command itself writes.

Ends with Ctrl-C. If the directory is removed or moved, that is an error.

Examples:
   codex remote watch '~/project/src'
   codex remote watch --json . | jq -r .path
   codex remote watch --exclude .git '~/project' -- make -C project test`,
		Flags: serverFlags(
			&cmdutil.Operands{Kind: cmdutil.OfferRemoteFiles, Last: 1},
			&cli.BoolFlag{Name: "no-recursive", Usage: "report changes in the directory itself only"},
			&cli.StringSliceFlag{Name: "exclude", Usage: "leave out names that match `PATTERN`, or paths below PATH if it has a slash; may be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print print a line of JSON for each change: {\"kind\", \"path\", \"isDirectory\"}"},
			cwdFlag("run the command in `DIR` of the server; default: the server's own directory"),
		),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("watch needs the path of a file or directory on the server")
			}
			typed, command := c.Args().First(), c.Args().Tail()
			exclude := copyOptions{patterns: c.StringSlice("exclude")}
			if err := exclude.check(); err != nil {
				return err
			}
			client, err := connect(c.Context, c)
			if err != nil {
				return err
			}
			defer client.Close()
			at, _, err := lookAround(c.Context, client)
			if err != nil {
				return err
			}
			w := &watching{ctx: c.Context, s: s, client: client, exclude: exclude, json: c.Bool("json")}
			if err = w.begin(at, typed, !c.Bool("no-recursive")); err == nil {
				err = w.run(at, c.String("cwd"), command)
			}
			if err != nil {
				return fmt.Errorf("watch %s: %w", typed, withoutPath(err))
			}
			return nil
		},
	}
}

// watching is one watch.
type watching struct {
	ctx     context.Context
	s       cmdutil.Streams
	client  *execclient.Client
	watch   *execclient.Watch
	root    string // the native path that is watched
	exclude copyOptions
	json    bool
}

func (w *watching) begin(at places, typed string, recursive bool) error {
	uri, err := at.marked(typed)
	if err != nil {
		return err
	}
	if w.root, err = pathuri.Parse(uri, ""); err != nil {
		w.root = uri
	}
	w.watch, err = w.client.FS().Watch(w.ctx, uri, execclient.WatchOptions{Recursive: recursive})
	return err
}

// run prints changes, or runs a command after them, until the watch ends.
func (w *watching) run(at places, cwd string, command []string) error {
	defer w.watch.Close()
	if len(command) == 0 {
		for {
			n, err := w.next(w.ctx)
			if err == nil {
				err = w.print(n)
			}
			if err != nil {
				return err
			}
		}
	}
	dir := at.cwd
	if cwd != "" {
		var err error
		if dir, err = at.uri(cwd); err != nil {
			return err
		}
	}
	for {
		if err := w.command(dir, command); err != nil {
			return err
		}
		if _, err := w.next(w.ctx); err != nil {
			return err
		}
		if err := w.settle(); err != nil {
			return err
		}
	}
}

// next returns the next changes without those that are left out.
func (w *watching) next(ctx context.Context) (execclient.Changes, error) {
	for {
		n, err := w.watch.Next(ctx)
		if err != nil {
			return n, err
		}
		n.Events = slices.DeleteFunc(n.Events, func(e execclient.Change) bool { return w.excluded(e.Path) })
		if len(n.Events) > 0 || n.Overflow {
			return n, nil
		}
	}
}

// excluded reports whether a path, or a directory above it, is left out.
func (w *watching) excluded(changed string) bool {
	return w.exclude.leavesOut(belowRoot(w.root, changed), false)
}

// settle waits until there was no change for watchPause.
func (w *watching) settle() error {
	for {
		ctx, cancel := context.WithTimeout(w.ctx, watchPause)
		_, err := w.next(ctx)
		cancel()
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}

// command runs the command once. It prints a failure of the command, and the watch continues. If
// the command cannot be started, the error ends the watch.
func (w *watching) command(dir string, argv []string) error {
	command := w.client.CommandContext(w.ctx, argv[0], argv[1:]...)
	command.Dir, command.Stdout, command.Stderr = dir, w.s.RawOut, w.s.RawErr
	err := command.Run()
	var exit *execclient.ExitError
	if errors.As(err, &exit) && w.ctx.Err() == nil {
		cmdutil.Messagef(w.s.Err, "codex: %s: exit code %d\n", argv[0], exit.ExitCode())
		return nil
	}
	return err
}

// print prints a line for each change.
func (w *watching) print(n execclient.Changes) error {
	var b []byte
	if n.Overflow {
		n.Events = slices.Insert(n.Events, 0, execclient.Change{Kind: "overflow", Path: w.root, IsDirectory: true})
	}
	for _, e := range n.Events {
		if w.json {
			line, err := json.Marshal(struct {
				Kind        string `json:"kind"`
				Path        string `json:"path"`
				IsDirectory bool   `json:"isDirectory"`
			}{e.Kind, e.Path, e.IsDirectory})
			if err != nil {
				return err
			}
			b = append(append(b, line...), '\n')
			continue
		}
		name := e.Path
		if e.IsDirectory {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		if cmdutil.IsTerminal(w.s.Out) {
			name = terminal.Text(name)
		}
		b = fmt.Appendf(b, "%-10s %s\n", e.Kind, name)
	}
	_, err := w.s.Out.Write(b)
	return err
}
