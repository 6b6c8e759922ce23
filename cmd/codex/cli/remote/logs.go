package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

func remoteLogsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "print the output of a detached process", ArgsUsage: "HANDLE",
		Description: `Prints the retained output of the process: standard output, or that of its terminal, to
standard output, and standard error to standard error. If output is not retained any more,
the numbers of its events are printed on standard error, and the exit code is 3. With
--follow it continues until the process has ended, also if the server was restarted
meanwhile. Any number of clients may do that at the same time. --tail prints only the
last lines, and --since only output that is not older.

A process that was started with --when-full wait continues when its output is consumed:
with --consume, the server may drop output that was printed.

Examples:
   codex remote logs build
   codex remote logs -f build
   codex remote logs --tail 20 -f build
   codex remote logs --since 10m build
   codex remote logs -f --consume export > export.sql`,
		Flags: serverFlags(
			cmdutil.Handles,
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the process has ended"},
			cmdutil.Count(cli.GenericFlag{Name: "after", Usage: "begin behind the event number `N`"}, 0, 0, cmdutil.NoMost),
			cmdutil.Count(cli.GenericFlag{Name: "tail", Aliases: []string{"n"}, Usage: "begin with the last `N` lines", DefaultText: "all"}, 0, 0, maxTail),
			&cli.StringFlag{Name: "since", Usage: "begin with output of that `TIME`: a duration before now, such as 10m, or a time such as 2026-01-02T15:04:05Z"},
			&cli.BoolFlag{Name: "consume", Usage: "let the server drop output that was printed"},
		),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			p := &logPrinter{handle: handle, s: s}
			if c.IsSet("tail") {
				p.tail = &tail{lines: c.Uint64("tail")}
			}
			since, err := sinceTime(c.String("since"), time.Now())
			if err != nil {
				return err
			}
			o := execclient.FollowOptions{After: c.Uint64("after"), Wait: c.Bool("follow"), Consume: c.Bool("consume"), Times: !since.IsZero()}
			if p.tail != nil && o.Consume {
				return cmdutil.Usagef("--tail and --consume exclude each other: consumed output is dropped, and --tail does not print all of it")
			}
			began := false // after the first output, a lost session is replaced
			return reconnecting(c.Context, s.Err, &began, func() error {
				return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
					if o.Times {
						if !client.Has(execproto.ExtensionOutputTimes) {
							return fmt.Errorf("--since: this server does not report when output was written: %w", execclient.ErrUnsupported)
						}
						process, err := findDetached(ctx, client, handle)
						if err != nil {
							return err
						}
						p.since = uint64(max(0, since.Sub(time.UnixMilli(process.StartedAtMS))) / time.Second)
					}
					return p.follow(ctx, client.Detached(handle), &o, &began)
				})
			})
		},
	}
}

// sinceTime parses the value of --since.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, cmdutil.Usagef("--since %q: expected a duration such as 10m, or a time such as 2026-01-02T15:04:05Z", text)
}

// logPrinter prints the output of a detached process.
type logPrinter struct {
	handle  string
	s       cmdutil.Streams
	dropped bool
	waiting string // the last printed reason why the process waits
	last    execproto.ReadResult
	since   uint64 // begin with output that the process wrote so many seconds after its start, or later
	tail    *tail  // nil: all output; holds output until the retained output has been read
}

// follow prints output, and sets o.After behind it. A later call continues there.
func (p *logPrinter) follow(ctx context.Context, d *execclient.Detached, o *execclient.FollowOptions, began *bool) error {
	until := uint64(0) // with --tail: the last event that exists now
	if p.tail != nil {
		now, err := d.State(ctx)
		if err != nil {
			return aboutHandle(p.handle, err)
		}
		until = now.NextSeq - min(now.NextSeq, 1)
		if o.After >= until {
			if err := p.endTail(); err != nil {
				return err
			}
		}
	}
	for r, err := range d.Follow(ctx, *o) {
		if err == nil {
			*began = true
			err = p.print(r)
		}
		if err != nil {
			return aboutHandle(p.handle, err)
		}
		if r.Dropped != nil {
			o.After = max(o.After, r.Dropped.Last)
		}
		if n := len(r.Chunks); n > 0 {
			o.After = max(o.After, r.Chunks[n-1].Seq)
		}
		if o.After >= until || len(r.Chunks) == 0 {
			if err := p.endTail(); err != nil {
				return err
			}
		}
	}
	return p.end()
}

// endTail prints the output that tail holds. Later output is printed at once.
func (p *logPrinter) endTail() error {
	if p.tail == nil {
		return nil
	}
	held := p.tail.last()
	p.tail = nil
	for _, c := range held {
		if err := p.write(c); err != nil {
			return err
		}
	}
	return nil
}

// tail holds the last lines of output, and at most maxTailBytes.
type tail struct {
	lines uint64
	held  []execproto.OutputChunk
	ends  uint64 // line ends in held
	bytes int
}

// add adds output and drops chunks that have none of the last lines.
func (t *tail) add(c execproto.OutputChunk) {
	t.held = append(t.held, c)
	t.ends += lineEnds(c.Chunk)
	t.bytes += len(c.Chunk)
	for len(t.held) > 1 && (t.ends-lineEnds(t.held[0].Chunk) > t.lines || t.bytes > maxTailBytes) {
		t.ends -= lineEnds(t.held[0].Chunk)
		t.bytes -= len(t.held[0].Chunk)
		t.held = t.held[1:]
	}
}

// last returns the last lines. A line without an end counts, too.
func (t *tail) last() []execproto.OutputChunk {
	if len(t.held) == 0 || t.lines == 0 {
		return nil
	}
	skip := t.ends - min(t.ends, t.lines) // line ends to drop
	if end := t.held[len(t.held)-1].Chunk; t.ends >= t.lines && !bytes.HasSuffix(end, []byte{'\n'}) {
		skip++
	}
	for i := range t.held {
		for chunk := &t.held[i].Chunk; ; skip-- {
			if skip == 0 {
				return t.held[i:]
			}
			end := bytes.IndexByte(*chunk, '\n')
			if end < 0 {
				break
			}
			*chunk = (*chunk)[end+1:]
		}
	}
	return nil
}

func lineEnds(b []byte) uint64 { return uint64(bytes.Count(b, []byte{'\n'})) }

func (p *logPrinter) print(r execproto.ReadResult) error {
	p.last = r
	if d := r.Dropped; d != nil {
		p.dropped = true
		cmdutil.Messagef(p.s.Err, "codex: %s: the output of the events %d to %d is no longer retained\n", p.handle, d.First, d.Last)
	}
	if r.Waiting != p.waiting && r.Waiting != "" && len(r.Chunks) == 0 {
		what := "the space for its output is used up; logs --consume frees some"
		if r.Waiting == execproto.WaitingDisk {
			what = "the server's disk is full"
		}
		cmdutil.Messagef(p.s.Err, "codex: %s: the process waits: %s\n", p.handle, what)
	}
	p.waiting = r.Waiting
	for _, c := range r.Chunks {
		switch {
		case c.ElapsedSeconds < p.since:
		case p.tail != nil:
			p.tail.add(c)
		default:
			if err := p.write(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *logPrinter) write(c execproto.OutputChunk) error {
	to := p.s.RawOut
	if c.Stream == execproto.Stderr {
		to = p.s.RawErr
	}
	if _, err := to.Write(c.Chunk); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// end returns the error for the end of the output.
func (p *logPrinter) end() error {
	switch {
	case p.last.Failure != nil:
		return errors.New(p.handle + ": " + terminal.Text(*p.last.Failure))
	case p.dropped:
		return &cmdutil.ExitError{Code: cmdutil.ExitDropped}
	}
	return nil
}
