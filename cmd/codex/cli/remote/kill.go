package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

// signalWords are the values of --signal; each may begin with SIG, too. The numbers are those of Linux.
var signalWords = map[string]execproto.Signal{
	"INT": execproto.SignalInterrupt, "TERM": execproto.SignalTerminate, "KILL": execproto.SignalKill, "HUP": execproto.SignalHangup,
	"QUIT": execproto.SignalQuit, "USR1": execproto.SignalUSR1, "USR2": execproto.SignalUSR2,
	"1": execproto.SignalHangup, "2": execproto.SignalInterrupt, "3": execproto.SignalQuit, "9": execproto.SignalKill, "15": execproto.SignalTerminate,
}

func remoteKillCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "kill", Usage: "end processes", ArgsUsage: "NAME...",
		Description: `Kills the processes with all their descendants: detached ones by their handles, and those
of your sessions by their ids, as codex remote top shows them. If several sessions have a
process with that id, name one as SESSION/ID. With --signal it only sends a signal to the
process's group: INT, TERM, KILL, HUP, QUIT, USR1 or USR2. codex remote logs still prints
the output of a detached process. A process that has ended already is an error (exit code
1), but not with --signal.

Examples:
   codex remote kill build
   codex remote kill --signal TERM server
   codex remote kill -9 server`,
		Flags: append(serverFlags(cmdutil.Handles, &cli.StringFlag{Name: "signal", Aliases: []string{"s"}, Usage: "send the signal `NAME` only, as -NAME does"}, scopeFlag()), signalFlags()...),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("kill needs the name of a process; codex remote ps --all lists them")
			}
			signal, given, err := signalOf(c)
			if err != nil {
				return err
			}
			return eachTarget(c, s, "killed", func(ctx context.Context, t target) error {
				if given {
					return t.signal(ctx, signal)
				}
				running, err := t.terminate(ctx)
				if err == nil && !running {
					return errors.New("it has ended already; codex remote ps shows how")
				}
				return err
			})
		},
	}
}

// signalFlags returns hidden flags for each word of a signal, so that -9, -KILL and -SIGKILL mean the same as for kill(1).
func signalFlags() []cli.Flag {
	var flags []cli.Flag
	for word := range signalWords {
		flag := &cli.BoolFlag{Name: word, Hidden: true}
		if word[0] > '9' {
			flag.Aliases = []string{"SIG" + word}
		}
		flags = append(flags, flag)
	}
	return flags
}

// signalOf returns the signal that the options of kill name.
func signalOf(c *cli.Context) (signal execproto.Signal, given bool, err error) {
	word := strings.TrimPrefix(strings.ToUpper(c.String("signal")), "SIG")
	for other := range signalWords {
		switch {
		case !c.Bool(other):
		case c.Count(other) > 1 && other <= "9":
			// The library takes -11, a signal that cannot be sent, as -1 -1.
			return signal, false, cmdutil.Usagef("-%s%s is no signal that can be sent: give one of -1, -2, -3, -9 and -15, or a name", other, other)
		case word != "" && signalWords[word] != signalWords[other]:
			return signal, false, cmdutil.Usagef("several signals exclude each other: give one of them")
		default:
			word = other
		}
	}
	signal, known := signalWords[word]
	if word != "" && !known {
		return signal, false, cmdutil.Usagef("--signal must be INT, TERM, KILL, HUP, QUIT, USR1 or USR2, not %q", c.String("signal"))
	}
	return signal, known, nil
}

func remoteStopCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "ask processes to end, and kill them if they do not", ArgsUsage: "NAME...",
		Description: `Sends TERM to the group of each process and waits for its end. After --timeout the process
is killed with all its descendants. Names are those of codex remote kill. A process
that has ended already is not an error.

Examples:
   codex remote stop server
   codex remote stop --timeout 1m database`,
		Flags: serverFlags(
			cmdutil.Handles,
			cmdutil.Duration(cli.GenericFlag{Name: "timeout", Aliases: []string{"t"}, Usage: "kill after `DURATION`"}, 10*time.Second, 0), scopeFlag(),
		),
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("stop needs the name of a process; codex remote ps --all lists them")
			}
			limit := c.Duration("timeout")
			return eachTarget(c, s, "stopped", func(ctx context.Context, t target) error { return t.stop(ctx, limit) })
		},
	}
}

// target is a process that kill or stop ends.
type target struct {
	name     string
	client   *execclient.Client
	detached *execclient.Detached // nil: a process of a session
	session  string
	id       string
}

// eachTarget calls one for each process that the user has named.
func eachTarget(c *cli.Context, s cmdutil.Streams, done string, one func(ctx context.Context, t target) error) error {
	client, err := connect(asOwner(c.Context), c)
	if err != nil {
		return err
	}
	defer client.Close()
	return eachOperand(c.Context, s.Err, done, c.Args().Slice(), func(name string) error {
		t, err := findTarget(c.Context, client, scopeOf(c), name)
		if err != nil {
			return err
		}
		return aboutHandle(name, one(c.Context, t))
	})
}

// findTarget finds a detached process with a handle, or else a running process of a session with an id.
func findTarget(ctx context.Context, client *execclient.Client, scope execproto.ListScope, name string) (target, error) {
	t := target{name: name, client: client}
	if client.Has(execproto.MethodProcessDetached) {
		switch _, err := findDetached(ctx, client, name); {
		case err == nil:
			t.detached = client.Detached(name)
			return t, nil
		case !errors.Is(err, errNoProcess):
			return t, err
		}
	}
	if !client.Has(execproto.ExtensionEndOthers) { // only detached processes can be named
		return t, noSuchHandle(name)
	}
	list, err := client.ListProcesses(ctx, execproto.ListParams{Scope: scope})
	if err != nil {
		return t, err
	}
	found := slices.DeleteFunc(list.Processes, func(p execproto.ProcessInfo) bool {
		return p.ProcessID != name && p.Session+"/"+p.ProcessID != name
	})
	if running := slices.IndexFunc(found, func(p execproto.ProcessInfo) bool { return !p.Exited }); running >= 0 {
		found = slices.DeleteFunc(found, func(p execproto.ProcessInfo) bool { return p.Exited })
	}
	switch len(found) {
	case 0:
		return t, fmt.Errorf("%s: you have no such process; codex remote ps --all lists yours", name)
	case 1:
		t.session, t.id = found[0].Session, found[0].ProcessID
		return t, nil
	}
	var names []string
	for _, p := range found {
		names = append(names, p.Session+"/"+p.ProcessID)
	}
	return t, fmt.Errorf("%s: several sessions have a process with this id; name one of %s", name, strings.Join(names, ", "))
}

func (t target) signal(ctx context.Context, signal execproto.Signal) error {
	if t.detached != nil {
		return t.detached.Signal(ctx, signal)
	}
	return t.client.SignalOther(ctx, t.session, t.id, signal)
}

func (t target) terminate(ctx context.Context) (running bool, err error) {
	if t.detached != nil {
		return t.detached.Terminate(ctx)
	}
	return t.client.TerminateOther(ctx, t.session, t.id)
}

// exited reports whether the process has ended.
func (t target) exited(ctx context.Context) (bool, error) {
	if t.detached != nil {
		r, err := t.detached.State(ctx)
		return r.Exited || r.Closed, err
	}
	list, err := t.client.ListProcesses(ctx, execproto.ListParams{Scope: execproto.ListServer})
	if execclient.IsCode(err, execproto.CodeInvalidRequest) { // without the role admin
		list, err = t.client.ListProcesses(ctx, execproto.ListParams{Scope: execproto.ListPrincipal})
	}
	return !slices.ContainsFunc(list.Processes, func(p execproto.ProcessInfo) bool {
		return p.Session == t.session && p.ProcessID == t.id && !p.Exited
	}), err
}

// stop sends TERM, waits for the end of the process and kills it after limit.
func (t target) stop(ctx context.Context, limit time.Duration) error {
	if over, err := t.exited(ctx); err != nil || over {
		return err
	}
	if err := t.signal(ctx, execproto.SignalTerminate); err != nil {
		return err
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(lookForEnd)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			_, err := t.terminate(ctx)
			return err
		case <-look.C:
			if over, err := t.exited(ctx); err != nil || over {
				return err
			}
		}
	}
}
