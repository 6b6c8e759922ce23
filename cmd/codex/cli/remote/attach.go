package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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
terminal. Ctrl-P Ctrl-Q, or the keys of --detach-keys, leave it, and it continues; without
a terminal, Ctrl-C leaves. A full-screen program draws its screen again.

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
			&cli.StringFlag{Name: "detach-keys", Value: "ctrl-p,ctrl-q", Usage: "leave the process by these `KEYS`: letters, and ctrl- with a letter or one of @[\\]^_, with commas in between"},
			&cli.BoolFlag{Name: "eof", Usage: "end the process's input where yours ends"},
		),
		Action: func(c *cli.Context) error {
			handle, err := oneHandle(c)
			if err != nil {
				return err
			}
			keys, err := parseKeys(c.String("detach-keys"))
			if err != nil {
				return err
			}
			return withDetached(c, func(ctx context.Context, client *execclient.Client) error {
				ended := make(chan os.Signal, 1)
				cmdutil.Catch(ended, syscall.SIGTERM, syscall.SIGHUP)
				defer signal.Stop(ended)
				a := &attachment{
					handle: handle, d: client.Detached(handle), s: s, notes: unlessQuiet(c, s.Err), in: newInput(s.In), all: c.Bool("all"),
					readOnly: c.Bool("read-only"), eof: c.Bool("eof"), keys: keys,
				}
				defer a.in.close()
				return a.run(ctx, client, ended)
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
	keys               []byte // that leave the process
}

// run passes input and output on until the process has closed or the user leaves.
func (a *attachment) run(ctx context.Context, client *execclient.Client, ended <-chan os.Signal) error {
	p, err := findDetached(ctx, client, a.handle)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case sig := <-ended:
			cancel(cmdutil.Signaled(sig.(syscall.Signal), nil))
		case <-ctx.Done():
		}
	})
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
		if size := screen.size(); size != nil {
			// A program draws its screen again when the size changes. It may have the right size already.
			_ = a.d.Resize(ctx, size.Rows+1, size.Cols)
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

// routineInput passes the input on. keys means that it comes from a terminal, where the
// detach keys leave the process.
func (a *attachment) routineInput(ctx context.Context, cancel context.CancelCauseFunc, keys bool) {
	r := a.in.reader(ctx)
	buf := make([]byte, inputChunk)
	filter := leavingKeys{keys: a.keys}
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

// leavingKeys finds a sequence of keys in typed keys.
type leavingKeys struct {
	keys []byte
	held int // so many keys of the sequence were typed last
}

// pass returns the typed keys that are meant for the process. It holds keys that may begin the sequence until the next
// key. left reports that the user leaves; then all of typed is dropped.
func (k *leavingKeys) pass(typed []byte) (data []byte, left bool) {
	for _, key := range typed {
		// Keys that do not continue the sequence may begin it again.
		for ; k.held > 0 && key != k.keys[k.held]; k.held = k.shorter() {
			data = append(data, k.keys[:k.held-k.shorter()]...)
		}
		if key != k.keys[k.held] {
			data = append(data, key)
			continue
		}
		if k.held++; k.held == len(k.keys) {
			return nil, true
		}
	}
	return data, false
}

// shorter returns the length of the longest beginning of the sequence that is also the end of the held keys.
func (k *leavingKeys) shorter() int {
	n := k.held - 1
	for ; n > 0 && !bytes.Equal(k.keys[:n], k.keys[k.held-n:k.held]); n-- {
	}
	return n
}

// parseKeys parses keys in the form that docker uses, such as ctrl-p,ctrl-q.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	for word := range strings.SplitSeq(text, ",") {
		control, isControl := strings.CutPrefix(strings.ToLower(word), "ctrl-")
		switch {
		case isControl && len(control) == 1 && (control[0] >= 'a' && control[0] <= 'z' || strings.ContainsAny(control, `@[\]^_`)):
			keys = append(keys, control[0]&0x1f)
		case len(word) == 1 && word[0] > ' ' && word[0] <= '~':
			keys = append(keys, word[0])
		default:
			return nil, cmdutil.Usagef("--detach-keys %q: expected keys such as ctrl-p,ctrl-q or ctrl-], with commas in between", text)
		}
	}
	return keys, nil
}

// errNoProcess is the error for a name that belongs to no process of this user.
var errNoProcess = errors.New("you have no such detached process; codex remote ps lists yours")

func noSuchHandle(handle string) error { return fmt.Errorf("%s: %w", handle, errNoProcess) }
