package remote

import (
	"context"
	"encoding/json"
	"errors"
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

func remoteWaitCommand(cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait for the end of a detached process", ArgsUsage: "HANDLE",
		Description: `Waits until the process has ended and its output is complete, and exits with its exit
code. If it is not known how the process ended, for example after a restart of the
machine, an error is printed and the exit code is 255.

Example:
   codex remote wait build && codex remote cp :out.tar .`,
		Flags: serverFlags(cmdutil.Handles),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				r, err := client.Detached(handle).Wait(ctx)
				if err != nil {
					return aboutHandle(handle, err)
				}
				return detachedExit(handle, r)
			})
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

// signalWords are the values of --signal; each may begin with SIG, too.
var signalWords = map[string]execproto.Signal{
	"INT": execproto.SignalInterrupt, "TERM": execproto.SignalTerminate, "KILL": execproto.SignalKill, "HUP": execproto.SignalHangup,
	"QUIT": execproto.SignalQuit, "USR1": execproto.SignalUSR1, "USR2": execproto.SignalUSR2,
}

func remoteKillCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "kill", Usage: "end detached processes", ArgsUsage: "HANDLE...",
		Description: `Kills the processes with all their descendants. With --signal it only sends a signal to
the process's group: INT, TERM, KILL, HUP, QUIT, USR1 or USR2. codex remote logs still
prints their output. A process that has ended already is an error (exit code 1), but not
with --signal.

Examples:
   codex remote kill build
   codex remote kill --signal TERM server`,
		Flags: serverFlags(cmdutil.Handles, &cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "send the signal `NAME` only"}),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("kill needs the handle of a detached process; codex remote ps lists them")
			}
			word := strings.TrimPrefix(strings.ToUpper(c.String("signal")), "SIG")
			signal, known := signalWords[word]
			if word != "" && !known {
				return cmdutil.Usagef("--signal must be INT, TERM, KILL, HUP, QUIT, USR1 or USR2, not %q", c.String("signal"))
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				return eachOperand(ctx, s.Err, "killed", c.Args().Slice(), func(handle string) error {
					d := client.Detached(handle)
					if word != "" {
						return aboutHandle(handle, d.Signal(ctx, signal))
					}
					running, err := d.Terminate(ctx)
					if err == nil && !running {
						return fmt.Errorf("%s has ended already; codex remote ps shows how", handle)
					}
					return aboutHandle(handle, err)
				})
			})
		},
	}
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

func remoteLogsCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "print the output of a detached process", ArgsUsage: "HANDLE",
		Description: `Prints the retained output of the process: standard output, or that of its terminal, to
standard output, and standard error to standard error. If output is not retained any more,
the numbers of its events are printed on standard error, and the exit code is 3. With
--follow it continues until the process has ended. Any number of clients may do that at
the same time.

A process that was started with --when-full wait continues when its output is consumed:
with --consume, the server may drop output that was printed.

Examples:
   codex remote logs build
   codex remote logs -f build
   codex remote logs -f --consume export > export.sql`,
		Flags: serverFlags(
			cmdutil.Handles,
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the process has ended"},
			cmdutil.Count(cli.GenericFlag{Name: "after", Usage: "begin behind the event number `N`"}, 0, 0, cmdutil.NoMost),
			&cli.BoolFlag{Name: "consume", Usage: "let the server drop output that was printed"},
		),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			o := execclient.FollowOptions{After: c.Uint64("after"), Wait: c.Bool("follow"), Consume: c.Bool("consume")}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				p := &logPrinter{handle: handle, s: s}
				for r, err := range client.Detached(handle).Follow(ctx, o) {
					if err == nil {
						err = p.print(r)
					}
					if err != nil {
						return aboutHandle(handle, err)
					}
				}
				return p.end()
			})
		},
	}
}

// logPrinter prints the output of a detached process.
type logPrinter struct {
	handle  string
	s       cmdutil.Streams
	dropped bool
	waiting string // the last printed reason why the process waits
	last    execproto.ReadResult
}

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
		to := p.s.RawOut
		if c.Stream == execproto.Stderr {
			to = p.s.RawErr
		}
		if _, err := to.Write(c.Chunk); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
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
