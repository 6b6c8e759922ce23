package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

func remoteAttachCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "attach", Usage: "use a detached process as if it had just been started", ArgsUsage: "HANDLE",
		Description: `Prints the output of the process from now on, passes your input on, and exits with the
exit code of the process. A process with a terminal gets your keys and the size of your
terminal. Ctrl-P Ctrl-Q leaves it, and it continues; without a terminal, Ctrl-C leaves.

Any number of clients may be attached. The first one that writes is the only one that may
write, until its connection ends. A process without a terminal reads your input only if it
was started with --stdin. Its input stays open when yours ends, unless you give --eof.

Examples:
   codex remote run --detach --tty --name sh -- bash
   codex remote attach sh
   codex remote attach --all --read-only build`,
		Flags: serverFlags(
			cmdutil.Handles,
			&cli.BoolFlag{Name: "all", Usage: "first print the output that the server has retained"},
			&cli.BoolFlag{Name: "read-only", Usage: "do not pass input on"},
			&cli.BoolFlag{Name: "eof", Usage: "end the process's input where yours ends"},
		),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
				defer stop()
				a := &attachment{
					handle: handle, d: client.Detached(handle), s: s, notes: unlessQuiet(c, s.Err), in: newInput(s.In), all: c.Bool("all"),
					readOnly: c.Bool("read-only"), eof: c.Bool("eof"),
				}
				defer a.in.close()
				return a.run(ctx, client)
			})
		},
	}
}

// errLeft ends an attachment when the user has typed the keys to leave it.
var errLeft = errors.New("left")

// attachment connects a terminal, or other streams, to a detached process.
type attachment struct {
	handle             string
	d                  *execclient.Detached
	s                  cmdutil.Streams
	notes              io.Writer
	in                 *input
	all, readOnly, eof bool
}

// run passes input and output on until the process has closed or the user leaves.
func (a *attachment) run(ctx context.Context, client *execclient.Client) error {
	p, err := findDetached(ctx, client, a.handle)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	var raw rawMode
	screen := newScreen(a.s)
	if p.TTY && screen.f != nil && !a.readOnly {
		raw.enter(screen)
		defer raw.end()
		resize := func() {
			if size := screen.size(); size != nil {
				_ = a.d.Resize(ctx, size.Rows, size.Cols) // fails if another client writes to the process
			}
		}
		wg.Go(func() { routineResize(ctx, nil, screen.size, resize) })
	}
	if !a.readOnly {
		wg.Go(func() { a.routineInput(ctx, cancel, p.TTY && screen.f != nil) })
	}
	last, err := a.follow(ctx)
	raw.end()
	switch {
	case errors.Is(context.Cause(ctx), errLeft):
		cmdutil.Messagef(a.notes, "codex: left %s, which continues to run\n", a.handle)
		return nil
	case err != nil:
		return aboutHandle(a.handle, cause(ctx, err))
	}
	return detachedExit(a.handle, last)
}

// findDetached returns the description of a detached process.
func findDetached(ctx context.Context, client *execclient.Client, handle string) (execproto.DetachedProcess, error) {
	list, err := client.ListDetached(ctx)
	if err != nil {
		return execproto.DetachedProcess{}, err
	}
	for _, p := range list {
		if handleOf(p) == handle {
			return p, nil
		}
	}
	return execproto.DetachedProcess{}, noSuchHandle(handle)
}

// follow prints the output until the process has closed.
func (a *attachment) follow(ctx context.Context) (execproto.ReadResult, error) {
	o := execclient.FollowOptions{Wait: true}
	if !a.all {
		now, err := a.d.State(ctx)
		if err != nil {
			return now, err
		}
		o.After = now.NextSeq - min(now.NextSeq, 1)
	}
	p := &logPrinter{handle: a.handle, s: a.s}
	for r, err := range a.d.Follow(ctx, o) {
		if err == nil {
			err = p.print(r)
		}
		if err != nil {
			return r, err
		}
	}
	return p.last, nil
}

// routineInput passes the input on. keys means that it comes from a terminal, where Ctrl-P
// Ctrl-Q leaves the process.
func (a *attachment) routineInput(ctx context.Context, cancel context.CancelCauseFunc, keys bool) {
	r := a.in.reader(ctx)
	buf := make([]byte, inputChunk)
	var filter leavingKeys
	for {
		n, err := r.Read(buf)
		data := buf[:n]
		if keys {
			left := false
			if data, left = filter.pass(data); left {
				cancel(errLeft)
				return
			}
		}
		if len(data) > 0 {
			if e := a.d.Write(ctx, data); e != nil {
				if ctx.Err() == nil && !errors.Is(e, execclient.ErrStdinClosed) {
					cmdutil.Messagef(a.s.Err, "codex: your input is not passed on: %v\n", e)
				}
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) && a.eof {
				_ = a.d.CloseStdin(ctx)
			}
			return
		}
	}
}

// leavingKeys finds Ctrl-P Ctrl-Q in typed keys.
type leavingKeys struct{ held bool }

// The keys that leave a process.
const (
	keyP = 0x10
	keyQ = 0x11
)

// pass returns the typed keys that are meant for the process. It holds a Ctrl-P until the next key.
// left reports that the user leaves; then all of typed is dropped.
func (k *leavingKeys) pass(typed []byte) (data []byte, left bool) {
	for _, key := range typed {
		switch {
		case k.held && key == keyQ:
			return nil, true
		case k.held && key == keyP:
			data = append(data, keyP)
			continue
		case k.held:
			data = append(data, keyP)
			k.held = false
		}
		if key == keyP {
			k.held = true
			continue
		}
		data = append(data, key)
	}
	return data, false
}

// noSuchHandle is the error for a handle that belongs to no process of this user.
func noSuchHandle(handle string) error {
	return fmt.Errorf("%s: you have no such detached process; codex remote ps lists yours", handle)
}
