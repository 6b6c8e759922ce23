package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

// scopeFlag is the flag of commands that list processes of sessions.
func scopeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "server", Usage: "list the processes of all sessions of the server; needs the role admin"}
}

// errNoUsage is the error for a server that does not report the usage of processes.
var errNoUsage = errors.New("the server does not report what processes use: it is too old, or it is Codex CLI's")

// processRow is a process of a session, or a detached one, in ps, top and stats.
type processRow struct {
	Handle    string      `json:"handle,omitempty"`
	Session   string      `json:"session,omitempty"`
	Client    string      `json:"client,omitempty"`
	Principal string      `json:"principal,omitempty"`
	ProcessID string      `json:"processId"`
	Argv      []string    `json:"argv"`
	Status    string      `json:"status"`
	ExitCode  *int        `json:"exitCode"`
	StartedAt time.Time   `json:"startedAt"`
	Usage     *usageEvent `json:"usage,omitempty"`
	running   bool        // the process has not closed
	share     float64     // as a share of one processor
}

// usageEvent is an execproto.ProcessUsage as --json prints it.
type usageEvent struct {
	UserMS      uint64 `json:"userMs"`
	SystemMS    uint64 `json:"systemMs"`
	MemoryBytes uint64 `json:"memoryBytes"`
	Processes   uint64 `json:"processes"`
}

// key identifies a process on a server.
func (r *processRow) key() string { return r.Session + "\x00" + r.ProcessID }

// name returns the handle of a detached process, or the id of another one.
func (r *processRow) name() string {
	return terminal.Text(cmp.Or(r.Handle, r.ProcessID))
}

// processor returns the processor time that the process has used.
func (r *processRow) processor() time.Duration {
	if r.Usage == nil {
		return 0
	}
	return time.Duration(r.Usage.UserMS+r.Usage.SystemMS) * time.Millisecond
}

// detachedRow returns the row of a detached process.
func detachedRow(p *execproto.DetachedProcess) processRow {
	return processRow{
		Handle: handleOf(*p), ProcessID: p.ProcessID, Argv: p.Argv, Status: detachedStatus(*p), ExitCode: p.ExitCode,
		StartedAt: time.UnixMilli(p.StartedAtMS).UTC(), Usage: (*usageEvent)(p.Usage), running: !p.Closed && p.Failure == "",
	}
}

// sessionRow returns the row of a process of a session.
func sessionRow(p *execproto.ProcessInfo) processRow {
	status := "running"
	switch {
	case p.ExitCode != nil && p.Closed:
		status = fmt.Sprintf("exited %d", *p.ExitCode)
	case p.Exited:
		status = "exiting"
	}
	return processRow{
		Session: p.Session, Client: p.Client, Principal: p.Principal, ProcessID: p.ProcessID, Argv: p.Argv, Status: status, ExitCode: p.ExitCode,
		StartedAt: time.UnixMilli(p.StartedAtMS).UTC(), Usage: (*usageEvent)(p.Usage), running: !p.Closed,
	}
}

// processList is a list of processes at one time.
type processList struct {
	at      time.Time
	owners  bool // the rows may have several owners, whom the table names
	rows    []processRow
	omitted uint64
}

// listProcesses lists the processes of sessions in a scope. It also lists detached processes if the
// server supports them.
func listProcesses(ctx context.Context, client *execclient.Client, scope execproto.ListScope) (processList, error) {
	if !client.Has(execproto.ExtensionUsage) {
		return processList{}, errNoUsage
	}
	l := processList{at: time.Now(), owners: scope == execproto.ListServer}
	if client.Has(execproto.MethodProcessDetached) {
		detached, err := client.ListDetachedUsage(ctx)
		var refused *execclient.ServerError
		switch {
		case errors.As(err, &refused): // the server does not support it for this client, for example through a relay
		case err != nil:
			return l, err
		}
		for i := range detached {
			l.rows = append(l.rows, detachedRow(&detached[i]))
		}
	}
	own, err := client.ListProcesses(ctx, execproto.ListParams{Usage: true, Scope: scope})
	if err != nil {
		return l, err
	}
	for i := range own.Processes {
		l.rows = append(l.rows, sessionRow(&own.Processes[i]))
	}
	l.omitted = own.Omitted
	return l, nil
}

// scopeOf returns the scope that --server selects.
func scopeOf(c *cli.Context) execproto.ListScope {
	if c.Bool("server") {
		return execproto.ListServer
	}
	return execproto.ListPrincipal
}

// running removes the rows of processes that have ended.
func (l *processList) running() {
	l.rows = slices.DeleteFunc(l.rows, func(r processRow) bool { return !r.running })
}

// shares computes each process's share of a processor since an earlier list, or since its
// start.
func (l *processList) shares(before *processList) {
	earlier := make(map[string]*processRow)
	for i := range before.rows {
		earlier[before.rows[i].key()] = &before.rows[i]
	}
	for i := range l.rows {
		r := &l.rows[i]
		used, span := r.processor(), l.at.Sub(r.StartedAt)
		if was := earlier[r.key()]; was != nil && was.StartedAt.Equal(r.StartedAt) && was.Usage != nil {
			used, span = used-was.processor(), l.at.Sub(before.at)
		}
		if r.share = 0; span > 0 {
			r.share = max(0, float64(used)/float64(span))
		}
	}
}

// byShare sorts rows by their share of the processors, then by memory.
func (l *processList) byShare() {
	slices.SortStableFunc(l.rows, func(a, b processRow) int {
		if d := cmp.Compare(b.share, a.share); d != 0 {
			return d
		}
		var memory [2]uint64
		for i, r := range []*processRow{&a, &b} {
			if r.Usage != nil {
				memory[i] = r.Usage.MemoryBytes
			}
		}
		return cmp.Compare(memory[1], memory[0])
	})
}

// summary returns the line above the table.
func (l *processList) summary() string {
	var share float64
	var memory, processes uint64
	for i := range l.rows {
		share += l.rows[i].share
		if u := l.rows[i].Usage; u != nil {
			memory += u.MemoryBytes
			processes += u.Processes
		}
	}
	line := fmt.Sprintf("%d running, %.0f%% of a processor, %s of memory, %d system processes", len(l.rows), share*100, byteCount(memory), processes)
	if l.omitted > 0 {
		line += fmt.Sprintf("; %d older ones are not listed", l.omitted)
	}
	return line
}

// print prints the table.
func (l *processList) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if l.owners {
		fmt.Fprint(w, "OWNER\t")
	}
	fmt.Fprintln(w, "PROCESS\tOF\tSTATUS\tAGE\t%CPU\tTIME\tMEMORY\tPROCS\tCOMMAND")
	for i := range l.rows {
		r := &l.rows[i]
		of := "detached"
		if r.Handle == "" {
			of = terminal.Text(clientOf(r))
		}
		processor, memory, processes := "-", "-", "-"
		share := "-"
		if u := r.Usage; u != nil {
			share, processor = fmt.Sprintf("%.1f", r.share*100), processorTime(r.processor())
			memory, processes = byteCount(u.MemoryBytes), fmt.Sprint(u.Processes)
		}
		if l.owners {
			fmt.Fprintf(w, "%s\t", terminal.Text(cmp.Or(r.Principal, "you"))) // a detached process is the client's own
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name(), of, r.Status, ageOf(l.at, r.StartedAt), share, processor, memory,
			processes, terminal.Text(shownCommand(r.Argv)))
	}
	return w.Flush()
}

// shownCommand returns the command line of a process for display. Of a line of codex remote exec --shell it
// returns what the user has typed.
func shownCommand(argv []string) string {
	if len(argv) > 2 && argv[1] == "-c" && argv[2] == reportScript {
		if len(argv) == 5 {
			return argv[4]
		}
		return "a line of codex remote exec --shell"
	}
	return strings.Join(argv, " ")
}

// clientOf returns the name of the client of a process of a session.
func clientOf(r *processRow) string {
	const most = 20
	client := []rune(cmp.Or(r.Client, "a client"))
	return string(client[:min(len(client), most)])
}

// processorTime formats processor time as m:ss.cc.
func processorTime(d time.Duration) string {
	return fmt.Sprintf("%d:%02d.%02d", d/time.Minute, d%time.Minute/time.Second, d%time.Second/(10*time.Millisecond))
}

// ageOf returns the time that has passed since then. The server's clock may be ahead of this machine's.
func ageOf(now, then time.Time) string { return max(0, now.Sub(then)).Round(time.Second).String() }
