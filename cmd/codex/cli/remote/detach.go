package remote

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

// detachFlags are the flags of run for detached processes.
func detachFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "start the command, print its handle and leave; see codex remote ps"},
		&cli.StringFlag{Name: "name", Usage: "--detach: the handle is `NAME`"},
		&cli.BoolFlag{Name: "stdin", Usage: "--detach: give the command an input that codex remote attach writes to"},
		cmdutil.Size(cli.GenericFlag{Name: "retain-bytes", Usage: "--detach: retain `SIZE` bytes of output", DefaultText: "64 MiB"}),
		cmdutil.Duration(cli.GenericFlag{Name: "retain-for", Usage: "--detach: retain the output for `DURATION` after the end", DefaultText: "as long as the server does"}, 0, time.Second),
		&cli.StringFlag{Name: "when-full", Usage: "--detach: when the output is full, drop-oldest or wait (`WHAT`)"},
	}
}

// whenFulls are the values of --when-full.
var whenFulls = map[string]execproto.WhenFull{
	"": "", "drop-oldest": execproto.WhenFullDropOldest, "wait": execproto.WhenFullWait,
}

// checkDetach returns an error for options of run that contradict each other.
func checkDetach(c *cli.Context) error {
	if !c.Bool("detach") {
		for _, name := range []string{"name", "stdin", "retain-bytes", "retain-for", "when-full"} {
			if c.IsSet(name) {
				return cmdutil.Usagef("--%s is for --detach", name)
			}
		}
		return nil
	}
	for _, name := range []string{"timeout", "ask-network", "save", "forward"} {
		if c.IsSet(name) {
			return cmdutil.Usagef("--%s cannot be combined with --detach: it needs this command to keep running", name)
		}
	}
	if _, ok := whenFulls[c.String("when-full")]; !ok {
		return cmdutil.Usagef("--when-full must be drop-oldest or wait, not %q", c.String("when-full"))
	}
	if name := c.String("name"); c.IsSet("name") && (len(name) > execproto.MaxHandleName || !handleName.MatchString(name)) {
		return cmdutil.Usagef("--name %q: a handle has 1 to %d letters, digits, dots, hyphens and underscores, and begins with a letter or digit", name, execproto.MaxHandleName)
	}
	return nil
}

// handleName matches valid names of detached processes, except for their length.
var handleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// errNoDetach is the error for a server that does not support detached processes.
var errNoDetach = errors.New("the server does not support detached processes; it may be too old, run with --retain-dir none, or not run on Linux")

// runDetached starts argv as a detached process and prints its handle.
func runDetached(c *cli.Context, s cmdutil.Streams, argv []string) error {
	o, err := parseOptions(c, false)
	if err != nil {
		return err
	}
	o.tty = c.Bool("tty")
	c.Context = asOwner(c.Context)
	x, err := openRemote(c, s, o)
	if err != nil {
		return err
	}
	defer x.close()
	params, _ := x.params(job{argv: argv, asked: argv, cwd: x.cwd})
	params.ProcessID = c.String("name")
	if params.ProcessID == "" {
		params.ProcessID = newHandle(argv[0])
	}
	params.PipeStdin = c.Bool("stdin") && !x.tty
	params.Retain = &execproto.Retain{
		Bytes: c.Uint64("retain-bytes"), Seconds: uint64(c.Duration("retain-for") / time.Second), WhenFull: whenFulls[c.String("when-full")],
	}
	d, err := x.client.StartDetached(x.ctx, params)
	switch {
	case errors.Is(err, execclient.ErrUnsupported):
		return &cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: errNoDetach}
	case execproto.IsProcessExists(err):
		err = fmt.Errorf("a detached process %s already exists; give another --name, or codex remote forget %s if it has ended", params.ProcessID, params.ProcessID)
		return &cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: err}
	case err != nil:
		return runError(err, argv, false)
	}
	_, err = fmt.Fprintln(s.Out, d.Handle())
	return err
}

// newHandle generates a handle from the name of a program.
func newHandle(program string) string {
	const most = 24
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return r
		}
		return -1
	}, path.Base(program))
	name = strings.TrimLeft(name[:min(len(name), most)], "._-")
	if name == "" {
		name = "command"
	}
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return name + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// withDetached runs f with a client of the server that the command names.
func withDetached(c *cli.Context, f func(ctx context.Context, client *execclient.Client) error) error {
	client, err := connect(asOwner(c.Context), c)
	if err != nil {
		return err
	}
	defer client.Close()
	if !client.Has(execproto.MethodProcessDetached) {
		return errNoDetach
	}
	return f(c.Context, client)
}

// oneHandle returns the operand of a command that takes one handle.
func oneHandle(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", cmdutil.Usagef("%s needs one handle of a detached process; codex remote ps lists them", c.Command.Name)
	}
	return c.Args().First(), nil
}

// aboutHandle adds the handle to an error. If no such process exists, it adds a remedy.
func aboutHandle(handle string, err error) error {
	var refused *execclient.ServerError
	if errors.As(err, &refused) && strings.Contains(refused.Message, "unknown process") {
		return noSuchHandle(handle)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", handle, err)
	}
	return nil
}
