package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

func remoteLsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list directories of the server", ArgsUsage: "[PATH...]",
		Description: `Lists the entries of directories, and other files themselves. In a path, * ? and [ ] match
names. A name that is not UTF-8 is printed with U+FFFD for each wrong byte.

Examples:
   codex remote ls /etc
   codex remote ls -lh '~/project'
   codex remote ls '/etc/*.conf'
   codex remote ls --json /srv`,
		Flags: serverFlags(
			cmdutil.RemoteFiles,
			&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "also print permissions, size, time and the targets of links"},
			&cli.BoolFlag{Name: "human-readable", Aliases: []string{"h"}, Usage: "with --long: print sizes such as 1.5K, in powers of 1024"},
			&cli.BoolFlag{Name: "json", Usage: "print an object for each entry, one a line"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "accepted for compatibility with ls; all names are always listed"},
		),
		Action: func(c *cli.Context) error {
			paths := c.Args().Slice()
			if len(paths) == 0 {
				paths = []string{"."}
			}
			return withFiles(c, func(fs *execclient.FS, at places) error {
				paths, err := (&matcher{c.Context, fs, at}).expand("list", paths)
				if err != nil {
					return err
				}
				l := &listing{fs: fs, long: c.Bool("long") || c.Bool("json"), json: c.Bool("json"), human: c.Bool("human-readable"), show: cmdutil.ListedNames(s.Out)}
				return l.all(c.Context, s, at, paths)
			})
		},
	}
}

// all lists the paths: first those that are not directories, and then each directory.
func (l *listing) all(ctx context.Context, s cmdutil.Streams, at places, paths []string) error {
	var single []row
	type folder struct {
		typed string
		rows  []row
	}
	var folders []folder
	err := eachOperand(ctx, s.Err, "listed", paths, func(typed string) error {
		uri, err := at.marked(typed)
		if err != nil {
			return err
		}
		rows, directory, err := l.rows(ctx, typed, uri)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", typed, withoutPath(err))
		case directory:
			folders = append(folders, folder{typed, rows})
		default:
			single = append(single, rows...)
		}
		return nil
	})
	if failed := l.print(s.Out, single); failed != nil {
		return failed
	}
	for i, f := range folders {
		if len(paths) > 1 && !l.json {
			if i > 0 || len(single) > 0 {
				fmt.Fprintln(s.Out)
			}
			name := strings.TrimPrefix(f.typed, ":")
			if cmdutil.IsTerminal(s.Out) {
				name = terminal.Text(name)
			}
			fmt.Fprintf(s.Out, "%s:\n", name)
		}
		if failed := l.print(s.Out, f.rows); failed != nil {
			return failed
		}
	}
	return err
}

// listing is one ls.
type listing struct {
	fs    *execclient.FS
	long  bool
	json  bool
	human bool
	show  func(name string) string
}

// row is one line of the output.
type row struct {
	name      string
	directory bool // or a link to one
	// For --long: attributes if the server reports them, or metadata.
	attributes *execproto.Attributes
	metadata   execproto.Metadata
	unreadable bool // the server could not read the attributes
	lossy      bool // the name is not UTF-8
}

// rows lists a directory. For another path, it describes the file that the path leads to.
func (l *listing) rows(ctx context.Context, typed, uri string) (rows []row, directory bool, err error) {
	m, err := l.fs.Stat(ctx, uri)
	switch {
	case err != nil:
		return nil, false, err
	case m.IsDirectory && l.fs.HasEntryAttributes():
		rows, err = l.attributes(ctx, uri)
		return rows, true, err
	case m.IsDirectory:
		rows, err = l.plain(ctx, uri)
		return rows, true, err
	}
	one := row{name: strings.TrimPrefix(typed, ":"), metadata: m}
	if l.fs.HasAttributes() {
		a, err := l.fs.Attributes(ctx, uri)
		if err != nil {
			return nil, false, err
		}
		one.attributes = &a
	}
	return []row{one}, false, nil
}

// attributes lists a directory with attributes, in one request.
func (l *listing) attributes(ctx context.Context, uri string) ([]row, error) {
	list, err := l.fs.ReadDirAttributes(ctx, uri)
	rows := make([]row, len(list))
	for i, e := range list {
		rows[i] = row{
			name: e.FileName, directory: e.IsDirectory, attributes: e.Attributes, unreadable: e.Attributes == nil, lossy: e.IsLossy,
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

// listedEntry is a line of ls --json. Members that the server does not report are missing.
type listedEntry struct {
	Name        string     `json:"name"`
	Kind        string     `json:"kind"`
	Size        *uint64    `json:"size,omitempty"`
	Permissions string     `json:"permissions,omitempty"` // octal
	Modified    *time.Time `json:"modified,omitempty"`
	Target      string     `json:"target,omitempty"`
	NotUTF8     bool       `json:"notUtf8,omitempty"` // name has U+FFFD for each wrong byte
}

func (l *listing) printJSON(out io.Writer, rows []row) error {
	encoder := json.NewEncoder(out)
	for _, r := range rows {
		e := listedEntry{Name: r.name, Kind: kindOf(r.metadata), NotUTF8: r.lossy}
		size, at := r.metadata.Size, r.metadata.ModifiedAtMS
		if a := r.attributes; a != nil {
			e.Kind, e.Permissions, e.Target, size, at = a.Kind, fmt.Sprintf("%04o", a.Permissions), a.Target, a.Size, a.ModifiedAtMS
		}
		if !r.unreadable {
			e.Size, e.Modified = &size, new(time.UnixMilli(at).UTC())
		}
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) print(out io.Writer, rows []row) error {
	if l.json {
		return l.printJSON(out, rows)
	}
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
		fmt.Fprintf(w, "%s\t%s\t%s\t %s\n", first, l.size(size), time.UnixMilli(at).Format("2006-01-02 15:04:05"), name)
	}
	return w.Flush()
}

// size formats a size.
func (l *listing) size(n uint64) string {
	if !l.human {
		return strconv.FormatUint(n, 10)
	}
	return shortSize(n)
}

// shortSize formats a size in the same way as ls -h: rounded up, with two digits at least.
func shortSize(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	value, unit := float64(n)/1024, 0
	for math.Ceil(value) >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if tenths := math.Ceil(value * 10); tenths < 100 {
		return fmt.Sprintf("%.1f%c", tenths/10, units[unit])
	}
	return fmt.Sprintf("%.0f%c", math.Ceil(value), units[unit])
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
