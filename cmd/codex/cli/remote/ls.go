package remote

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

func remoteLsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list a directory of the server", ArgsUsage: "[PATH]",
		Description: "Examples:\n   codex remote ls /etc\n   codex remote ls -l '~/project'",
		Flags: serverFlags(
			cmdutil.RemoteFiles,
			&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "also print permissions, size, time and the targets of links"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "accepted for compatibility with ls; all names are always listed"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return cmdutil.Usagef("ls takes one path, got %d", c.NArg())
			}
			typed := c.Args().First()
			if typed == "" {
				typed = "."
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				uri, err := at.marked(typed)
				if err != nil {
					return err
				}
				l := &listing{fs: fs, long: c.Bool("long"), show: cmdutil.ListedNames(s.Out)}
				rows, err := l.rows(c.Context, typed, uri)
				if err != nil {
					return fmt.Errorf("%s: %w", typed, withoutPath(err))
				}
				return l.print(s.Out, rows)
			})
		},
	}
}

// listing is one ls.
type listing struct {
	fs   *execclient.FS
	long bool
	show func(name string) string
}

// row is one line of the output.
type row struct {
	name      string
	directory bool // or a link to one
	// For --long: attributes if the server reports them, or metadata.
	attributes *execproto.Attributes
	metadata   execproto.Metadata
	unreadable bool // the server could not read the attributes
}

// rows lists a directory. For another path, it describes the file that the path leads to.
func (l *listing) rows(ctx context.Context, typed, uri string) ([]row, error) {
	m, err := l.fs.Stat(ctx, uri)
	if err != nil {
		return nil, err
	}
	switch {
	case m.IsDirectory && l.fs.HasEntryAttributes():
		return l.attributes(ctx, uri)
	case m.IsDirectory:
		return l.plain(ctx, uri)
	}
	one := row{name: typed, metadata: m}
	if l.fs.HasAttributes() {
		a, err := l.fs.Attributes(ctx, uri)
		if err != nil {
			return nil, err
		}
		one.attributes = &a
	}
	return []row{one}, nil
}

// attributes lists a directory with attributes, in one request.
func (l *listing) attributes(ctx context.Context, uri string) ([]row, error) {
	list, err := l.fs.ReadDirAttributes(ctx, uri)
	rows := make([]row, len(list))
	for i, e := range list {
		rows[i] = row{
			name: e.FileName, directory: e.IsDirectory, attributes: e.Attributes, unreadable: e.Attributes == nil,
			metadata: execproto.Metadata{IsDirectory: e.IsDirectory, IsFile: e.IsFile},
		}
	}
	return rows, err
}

// plain lists a directory of a server without attributes. For --long it asks about each name,
// copiesInFlight at a time.
func (l *listing) plain(ctx context.Context, uri string) ([]row, error) {
	entries, err := l.fs.ReadDir(ctx, uri)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(entries))
	q := newQueue(ctx.Err)
	for i, e := range entries {
		rows[i] = row{
			name: e.FileName, directory: e.IsDirectory, metadata: execproto.Metadata{IsDirectory: e.IsDirectory, IsFile: e.IsFile},
		}
		if l.long {
			q.add(func() {
				if m, err := l.fs.Stat(ctx, under(uri, e.FileName)); err == nil { // otherwise the file is gone, or its name is not UTF-8
					rows[i].metadata = m
				}
			})
		}
	}
	q.run()
	return rows, ctx.Err()
}

func (l *listing) print(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.StripEscape)
	for _, r := range rows {
		if !l.long {
			if r.directory {
				r.name += "/"
			}
			fmt.Fprintln(w, l.show(r.name))
			continue
		}
		first, size, at, name := kindOf(r.metadata), r.metadata.Size, r.metadata.ModifiedAtMS, l.show(r.name)
		if r.unreadable {
			fmt.Fprintf(w, "%s\t?\t?\t %s\n", first+"?", name)
			continue
		}
		if a := r.attributes; a != nil {
			first, size, at = modeText(a), a.Size, a.ModifiedAtMS
			if a.Kind == execproto.KindSymlink {
				name += " -> " + l.show(a.Target)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t %s\n", first, size, time.UnixMilli(at).Format("2006-01-02 15:04:05"), name)
	}
	return w.Flush()
}

// kindOf returns the first column for servers that report no permissions.
func kindOf(m execproto.Metadata) string {
	kind := "other"
	switch {
	case m.IsDirectory:
		kind = "dir"
	case m.IsFile:
		kind = "file"
	}
	if m.IsSymlink {
		kind += "@"
	}
	return kind
}

// modeText formats a mode in the same way as ls; ? is a device, a FIFO or a socket.
func modeText(a *execproto.Attributes) string {
	var b strings.Builder
	switch a.Kind {
	case execproto.KindDirectory:
		b.WriteByte('d')
	case execproto.KindSymlink:
		b.WriteByte('l')
	case execproto.KindFile:
		b.WriteByte('-')
	default:
		b.WriteByte('?')
	}
	for i, letter := range "rwxrwxrwx" {
		if a.Permissions&(1<<(8-i)) == 0 {
			letter = '-'
		}
		b.WriteRune(letter)
	}
	return b.String()
}
