package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// leastInterval is the shortest interval of top and stats, because the server itself measures at
// most twice a second.
const leastInterval = time.Second

func intervalFlag() cli.Flag {
	return cmdutil.Duration(cli.GenericFlag{Name: "interval", Aliases: []string{"i"}, Usage: "ask again after `DURATION`, at least 1s"}, 2*time.Second, leastInterval)
}

func remoteTopCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "top", Usage: "show what the processes on the server use",
		Description: `Shows the running processes of all your sessions and your detached ones, the busiest
first: age, share of a processor, processor time, memory and number of system processes,
each including descendants. On a terminal it continues until q or Ctrl-C. Otherwise it prints
the table once, with the share since the start of each process.

Memory that several processes share counts once for each of them, unless the server has
given the process a cgroup that counts memory.

Examples:
   codex remote top
   codex remote top --json
   codex remote top --server --interval 5s`,
		Flags: serverFlags(
			intervalFlag(), scopeFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print an object for each process once, one a line"},
		),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("top takes no arguments, got %q; codex remote stats is about one process", c.Args().First())
			}
			every := c.Duration("interval")
			client, err := connect(c.Context, c)
			if err != nil {
				return err
			}
			defer client.Close()
			if !c.Bool("json") && cmdutil.IsTerminal(s.Out) {
				return watchTop(c.Context, s, client, scopeOf(c), every)
			}
			list, err := listRunning(c.Context, client, scopeOf(c), &processList{})
			switch {
			case err != nil:
				return err
			case c.Bool("json"):
				return printRows(s.Out, list.rows)
			}
			fmt.Fprintln(s.Out, list.summary())
			return list.print(s.Out)
		},
	}
}

// listRunning lists the running processes, sorted by their share of the processors.
func listRunning(ctx context.Context, client *execclient.Client, scope execproto.ListScope, before *processList) (processList, error) {
	list, err := listProcesses(ctx, client, scope)
	if err != nil {
		return list, err
	}
	list.running()
	list.shares(before)
	list.byShare()
	return list, nil
}

func printRows(to io.Writer, rows []processRow) error {
	encoder := json.NewEncoder(to)
	for i := range rows {
		if err := encoder.Encode(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

const (
	// screenBegin switches to the alternate screen, hides the cursor, and makes the terminal cut
	// long lines, because only the terminal knows the width of each character.
	screenBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnd   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n"
	screenRest  = "\x1b[J"
)

// watchTop shows the table on the terminal until ctx ends.
func watchTop(ctx context.Context, s cmdutil.Streams, client *execclient.Client, scope execproto.ListScope, every time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, append(cmdutil.NotIgnored(os.Interrupt), syscall.SIGTERM, syscall.SIGHUP)...)
	defer stop()
	list, err := listRunning(ctx, client, scope, &processList{})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	keys := newInput(s.In)
	defer keys.close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	if terminal := newScreen(s); terminal.f != nil {
		defer terminal.makeRaw()()
		wg.Go(func() { endOnKey(keys.reader(ctx), end) })
	}
	screen := cmdutil.DrawOn(s.Out)
	if _, err := io.WriteString(screen, screenBegin); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(screen, screenEnd) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := drawTop(screen, &list, topRows(s.Out)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		next, err := listRunning(ctx, client, scope, &list)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		list = next
	}
}

// endOnKey calls end when q or Ctrl-C is typed.
func endOnKey(keys io.Reader, end func()) {
	buf := make([]byte, keysAtOnce)
	for {
		n, err := keys.Read(buf)
		if bytes.ContainsAny(buf[:n], "qQ\x03") {
			end()
			return
		}
		if err != nil {
			return
		}
	}
}

// topRows returns the number of lines of the terminal.
func topRows(to io.Writer) int {
	if f, ok := cmdutil.FileOf(to); ok {
		if _, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 {
			return rows
		}
	}
	return usualRows
}

// drawTop draws the screen in one write. It escapes all text except its own sequences, even if the
// text was escaped before.
func drawTop(screen io.Writer, list *processList, rows int) error {
	var table bytes.Buffer
	fmt.Fprintf(&table, "%s; q ends\n", list.summary())
	if err := list.print(&table); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	var drawn strings.Builder
	drawn.WriteString(screenHome)
	for i, line := range lines[:min(len(lines), max(rows-1, 1))] {
		if i > 0 {
			drawn.WriteString(lineEnd)
		}
		drawn.WriteString(terminal.Text(line))
	}
	drawn.WriteString("\x1b[K" + screenRest)
	_, err := io.WriteString(screen, drawn.String())
	return err
}

func remoteStatsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "stats", Usage: "print what processes use, once or repeatedly", ArgsUsage: "[NAME]...",
		Description: `Prints a line for each process: those with the names, which are handles of detached
processes or ids of processes of your sessions, or all that run. With --follow it prints the lines
repeatedly until none of the processes runs any more. %CPU is the share of a processor
since the previous line, and in the first line since the start of the process.

Examples:
   codex remote stats build
   codex remote stats -f --interval 10s build
   codex remote stats -f --json`,
		Flags: serverFlags(
			cmdutil.OtherWords,
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the processes have ended"},
			intervalFlag(), scopeFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print an object for each line"},
		),
		Action: func(c *cli.Context) error {
			every := c.Duration("interval")
			client, err := connect(c.Context, c)
			if err != nil {
				return err
			}
			defer client.Close()
			st := &stats{s: s, client: client, scope: scopeOf(c), names: c.Args().Slice(), json: c.Bool("json")}
			if !c.Bool("follow") {
				_, err := st.line(c.Context)
				return err
			}
			return st.follow(c.Context, every)
		},
	}
}

// stats prints the usage of processes.
type stats struct {
	s      cmdutil.Streams
	client *execclient.Client
	scope  execproto.ListScope
	names  []string // empty: all running processes
	json   bool
	before processList
	headed bool
}

func (st *stats) follow(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		running, err := st.line(ctx)
		if err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// line prints a line for each process, and reports whether one of the processes runs.
func (st *stats) line(ctx context.Context) (running bool, err error) {
	list, err := listProcesses(ctx, st.client, st.scope)
	if err != nil {
		return false, err
	}
	if len(st.names) == 0 {
		list.running()
	}
	list.rows = slices.DeleteFunc(list.rows, func(r processRow) bool { return !st.wants(&r) })
	for _, name := range st.names {
		if !slices.ContainsFunc(list.rows, func(r processRow) bool { return name == r.Handle || name == r.ProcessID }) {
			return false, fmt.Errorf("%s: you have no such process; codex remote ps --all lists your processes", terminal.Text(name))
		}
	}
	list.shares(&st.before)
	for i := range list.rows {
		running = running || list.rows[i].running
	}
	st.before = list
	if st.json {
		at := list.at.UTC()
		encoder := json.NewEncoder(st.s.Out)
		for i := range list.rows {
			line := struct {
				Time time.Time `json:"time"`
				*processRow
			}{at, &list.rows[i]}
			if err := encoder.Encode(line); err != nil {
				return running, err
			}
		}
		return running, nil
	}
	return running, st.print(&list)
}

// wants reports whether the user has named a process.
func (st *stats) wants(r *processRow) bool {
	return len(st.names) == 0 || slices.Contains(st.names, r.Handle) && r.Handle != "" || slices.Contains(st.names, r.ProcessID)
}

// statsColumns have fixed widths, because later lines are not known yet.
const statsColumns = "%-24s  %-12s  %9s  %6s  %10s  %10s  %10s  %5s\n"

func (st *stats) print(list *processList) error {
	if !st.headed {
		st.headed = true
		fmt.Fprintf(st.s.Out, statsColumns, "PROCESS", "STATUS", "AGE", "%CPU", "USER", "SYSTEM", "MEMORY", "PROCS")
	}
	for i := range list.rows {
		r := &list.rows[i]
		share, user, system, memory, processes := "-", "-", "-", "-", "-"
		if u := r.Usage; u != nil {
			share, memory, processes = fmt.Sprintf("%.1f", r.share*100), byteCount(u.MemoryBytes), fmt.Sprint(u.Processes)
			user, system = processorTime(time.Duration(u.UserMS)*time.Millisecond), processorTime(time.Duration(u.SystemMS)*time.Millisecond)
		}
		_, err := fmt.Fprintf(st.s.Out, statsColumns, r.name(), r.Status, ageOf(list.at, r.StartedAt), share, user, system, memory, processes)
		if err != nil {
			return err
		}
	}
	return nil
}
