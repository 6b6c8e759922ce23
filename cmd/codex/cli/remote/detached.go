package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

func remotePsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "list your detached processes",
		Description: `Lists the processes that codex remote run --detach has started for you, with those that
have ended and whose output is retained. They belong to your user or token, and not to a
connection. OUTPUT is the output that is retained on the server's disk. TIME is the
processor time, MEMORY the memory and PROCS the number of system processes of a running
process and its descendants. With --all, the processes of your sessions follow.

Examples:
   codex remote ps
   codex remote ps --all
   codex remote ps --json`,
		Flags: serverFlagsButQuiet(
			&cli.BoolFlag{Name: "json", Usage: "print an object for each process, one a line"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also list the processes of all your sessions"}, scopeFlag(),
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print the handles only"},
		),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("ps takes no arguments, got %q", c.Args().First())
			}
			if c.Bool("all") || c.Bool("server") {
				if c.Bool("quiet") {
					return cmdutil.Usagef("--quiet prints handles, which processes of sessions do not have: leave out --all and --server")
				}
				return psAll(c, s)
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				list, err := client.ListDetachedUsage(ctx)
				switch {
				case err != nil:
					return err
				case c.Bool("json"):
					return printDetachedJSON(s.Out, list)
				case c.Bool("quiet"):
					for _, p := range list {
						fmt.Fprintln(s.Out, terminal.Text(handleOf(p)))
					}
					return nil
				}
				return printDetached(s.Out, list, time.Now())
			})
		},
	}
}

// psAll lists detached processes and the processes of sessions.
func psAll(c *cli.Context, s cmdutil.Streams) error {
	client, err := connect(c.Context, c)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := listProcesses(c.Context, client, scopeOf(c))
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return printRows(s.Out, list.rows)
	}
	list.shares(&processList{})
	return list.print(s.Out)
}

func handleOf(p execproto.DetachedProcess) string {
	return strings.TrimPrefix(p.ProcessID, execproto.DetachedPrefix)
}

// detachedLine is a line of ps --json.
type detachedLine struct {
	Handle    string     `json:"handle"`
	Argv      []string   `json:"argv"`
	Cwd       string     `json:"cwd"`
	Status    string     `json:"status"`
	ExitCode  *int       `json:"exitCode"`
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt"`
	Retained  uint64     `json:"retained"`
	FirstSeq  uint64     `json:"firstSeq"`
	TTY       bool       `json:"tty"`
	Failure   string     `json:"failure,omitempty"`
	// Usage is set while the process runs, if the server reports it.
	Usage *usageEvent `json:"usage,omitempty"`
}

func printDetachedJSON(to io.Writer, list []execproto.DetachedProcess) error {
	encoder := json.NewEncoder(to)
	for _, p := range list {
		line := detachedLine{
			Handle: handleOf(p), Argv: p.Argv, Cwd: p.Cwd, Status: detachedStatus(p), ExitCode: p.ExitCode, TTY: p.TTY,
			StartedAt: time.UnixMilli(p.StartedAtMS).UTC(), Retained: p.Retained, FirstSeq: p.FirstSeq, Failure: p.Failure,
			Usage: (*usageEvent)(p.Usage),
		}
		if p.EndedAtMS != 0 {
			line.EndedAt = new(time.UnixMilli(p.EndedAtMS).UTC())
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// detachedStatus describes the state of a process in a few words.
func detachedStatus(p execproto.DetachedProcess) string {
	switch {
	case p.Failure != "" && p.Exited:
		return "lost"
	case p.Failure != "":
		return "unknown"
	case p.Closed && p.ExitCode != nil:
		return fmt.Sprintf("exited %d", *p.ExitCode)
	case p.Exited:
		return "exiting"
	case p.Waiting == execproto.WaitingLimit:
		return "waiting: output is full"
	case p.Waiting == execproto.WaitingDisk:
		return "waiting: disk is full"
	default:
		return "running"
	}
}

func printDetached(to io.Writer, list []execproto.DetachedProcess, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HANDLE\tSTATUS\tSTARTED\tTIME\tMEMORY\tPROCS\tOUTPUT\tCOMMAND")
	for _, p := range list {
		ago := now.Sub(time.UnixMilli(p.StartedAtMS)).Round(time.Second)
		output := byteCount(p.Retained)
		if p.FirstSeq > 1 {
			output += " (older dropped)"
		}
		processor, memory, processes := "-", "-", "-"
		if u := p.Usage; u != nil {
			processor = processorTime(time.Duration(u.UserMS+u.SystemMS) * time.Millisecond)
			memory, processes = byteCount(u.MemoryBytes), fmt.Sprint(u.Processes)
		}
		fmt.Fprintf(w, "%s\t%s\t%v ago\t%s\t%s\t%s\t%s\t%s\n", terminal.Text(handleOf(p)), detachedStatus(p), ago, processor, memory,
			processes, output, terminal.Text(strings.Join(p.Argv, " ")))
	}
	return w.Flush()
}

// byteCount formats a number of bytes.
func byteCount(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := uint64(unit), 0
	for m := n / unit; m >= unit && exp < 3; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", float64(n)/float64(div), "KMGT"[exp])
}

func remoteWaitCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait for the end of a detached process", ArgsUsage: "HANDLE",
		Description: `Waits until the process has ended and its output is complete, and exits with its exit
code. If the session is lost meanwhile, for example because the server was restarted, it
connects again until Ctrl-C. If it is not known how the process ended, for example after
a restart of the machine, an error is printed and the exit code is 255.

Example:
   codex remote wait build && codex remote cp :out.tar .`,
		Flags: serverFlags(cmdutil.Handles),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			var exit error
			found := false // after the first answer, a lost session is replaced
			err = reconnecting(c.Context, s.Err, &found, func() error {
				return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
					d := client.Detached(handle)
					if _, err := d.State(ctx); err != nil {
						return aboutHandle(handle, err)
					}
					found = true
					r, err := d.Wait(ctx)
					if err != nil {
						return aboutHandle(handle, err)
					}
					exit = detachedExit(handle, r)
					return nil
				})
			})
			if err != nil {
				return err
			}
			return exit
		},
	}
}

// detachedExit returns the error for the exit code of a closed process.
func detachedExit(handle string, r execproto.ReadResult) error {
	switch {
	case r.Failure != nil:
		return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: fmt.Errorf("%s: %s", handle, terminal.Text(*r.Failure))}
	case r.ExitCode != nil && *r.ExitCode != 0:
		return &cmdutil.ExitError{Code: *r.ExitCode & 0xff}
	}
	return nil
}

func remoteForgetCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "forget", Usage: "remove the output of detached processes that have ended", ArgsUsage: "HANDLE...",
		Description: `Removes the output of the processes from the server's disk. Their handles can be used
again then. A process that is still running is an error.

Example:
   codex remote forget build`,
		Flags: serverFlags(cmdutil.Handles),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("forget needs the handle of a detached process; codex remote ps lists them")
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				return eachOperand(ctx, s.Err, "forgotten", c.Args().Slice(), func(handle string) error {
					return aboutHandle(handle, client.Detached(handle).Forget(ctx))
				})
			})
		},
	}
}
