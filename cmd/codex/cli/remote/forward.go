package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

func remoteForwardCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "forward", Usage: "connect ports of this machine and of the server", ArgsUsage: "[LOCAL:]PORT[:HOST:PORT]...",
		Description: `Listens on ports of this machine. For each connection to them, the server connects:

   8080             to port 8080 of the server
   3000:8080        port 3000 here, to port 8080 of the server
   5432:db:5432     port 5432 here, to port 5432 of the host db
   0.0.0.0:80:x:80  the same on another address than 127.0.0.1 and ::1
   2375:/run/x.sock to a Unix socket of the server
   0:8080           any free port here; the line that is printed has it

-R does the reverse: it listens on a port of the server, on 127.0.0.1 unless you give
an address before the port, and this machine connects.
-D is a SOCKS5 proxy here whose connections the server makes. -W connects
standard input and output to one host and port, for ProxyCommand of ssh.

--auto forwards every port that your commands on the server open, with the same
number here if that is free, and prints it on stderr. The commands are those of all
your sessions, such as codex remote shell in another terminal, sandboxed ones too.
It listens on 127.0.0.1 and ::1 only.

A line is printed for each port when it is ready. The command runs until it is
interrupted, or the session is lost. While a lost connection to the server is being
recovered, connections through it wait.

Examples:
   codex remote forward 8080
   codex remote forward 3000:8080 5432:db.internal:5432
   codex remote forward -R 9000:3000
   codex remote forward -D 1080
   codex remote forward --auto
   codex remote forward --process build 3000
   ssh -o ProxyCommand='codex remote --env devbox forward -W %h:%p' \
      me@localhost`,
		Flags: serverFlags(
			cmdutil.OtherWords,
			&cli.StringSliceFlag{Name: "remote", Aliases: []string{"R"}, Usage: "listen on the server: [ADDRESS:]PORT[:HOST:PORT] (`SPEC`); may be repeated"},
			&cli.StringSliceFlag{Name: "dynamic", Aliases: []string{"D"}, Usage: "run a SOCKS5 proxy on `[ADDRESS:]PORT` of this machine; may be repeated"},
			&cli.StringFlag{Name: "process", Usage: "connect to ports and sockets in the sandbox of the detached process `HANDLE`"},
			&cli.BoolFlag{Name: "auto", Usage: "forward every port that a command of yours opens on the server, until it is closed"},
			&cli.StringFlag{Name: "stdio", Aliases: []string{"W"}, Usage: "connect standard input and output to `HOST:PORT`, or to the path of a socket"},
		),
		Action: func(c *cli.Context) error { return forwardRemote(c, s) },
	}
}

// forwards are the ports of the command line.
type forwards struct {
	local, remote []forwarding
	dynamic       []endpoint
	auto          bool // forward every port that is opened
}

// wordAuto is the value of -L that forwards every port that the command opens.
const wordAuto = "auto"

func parseForwards(operands, remote, dynamic []string) (f forwards, err error) {
	for _, text := range operands {
		x, err := parseForwarding("forward a port", text)
		if err != nil {
			return f, err
		}
		f.local = append(f.local, x)
	}
	for _, text := range remote {
		x, err := parseForwarding("-R", text)
		if err != nil {
			return f, err
		}
		f.remote = append(f.remote, x)
	}
	for _, text := range dynamic {
		at, err := parseListen("-D", text)
		if err != nil {
			return f, err
		}
		f.dynamic = append(f.dynamic, at)
	}
	return f, nil
}

func forwardRemote(c *cli.Context, s cmdutil.Streams) error {
	f, err := parseForwards(c.Args().Slice(), c.StringSlice("remote"), c.StringSlice("dynamic"))
	if err != nil {
		return err
	}
	f.auto = c.Bool("auto")
	count := len(f.local) + len(f.remote) + len(f.dynamic)
	if f.auto {
		count++
	}
	switch to := c.String("stdio"); {
	case c.IsSet("process") && (len(f.local) == 0 || len(f.local) < count):
		return cmdutil.Usagef("--process cannot be combined with other options: it forwards ports of this machine to the process")
	case c.IsSet("stdio") && count > 0:
		return cmdutil.Usagef("-W cannot be combined with other ports: its standard output belongs to the connection")
	case c.IsSet("stdio"):
		at, err := parseEndpoint("-W", to)
		if err != nil {
			return err
		}
		return withTunnels(c, s, func(ctx context.Context, client *execclient.Client) error {
			return connectStdio(ctx, s, client, at)
		})
	case count == 0:
		return cmdutil.Usagef("forward needs a port: codex remote forward [LOCAL:]PORT[:HOST:PORT]")
	}
	return withTunnels(c, s, func(ctx context.Context, client *execclient.Client) error {
		x := newForwarder(ctx, client, s.Err)
		defer x.close()
		if id := c.String("process"); id != "" {
			if !client.Has(execproto.ExtensionTunnelProcessPath) {
				return supported(execclient.ErrUnsupported)
			}
			if err := awaitsConnections(ctx, client, id); err != nil {
				return err
			}
			x.inside = func() (string, error) { return execproto.DetachedPrefix + id, nil }
		}
		if err := x.start(f, s.Out); err != nil {
			return err
		}
		if f.auto {
			if err := x.auto(true, sayTo(prefixed{s.Err})); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-client.Done():
			return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: client.Err()}
		}
	})
}

// awaitsConnections returns an error if no detached process of this handle runs.
func awaitsConnections(ctx context.Context, client *execclient.Client, handle string) error {
	p, err := findDetached(ctx, client, handle)
	if err == nil && p.Exited {
		err = fmt.Errorf("%s: the process has ended, and nothing can be forwarded to it", handle)
	}
	return err
}

// withTunnels runs f with a client. A signal ends the context first, so that the server's
// ports are closed before the program ends.
func withTunnels(c *cli.Context, s cmdutil.Streams, f func(context.Context, *execclient.Client) error) error {
	ctx, cancel := context.WithCancelCause(c.Context)
	signals := make(chan os.Signal, 1)
	cmdutil.Catch(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	link := newLink(s.Err, isQuiet(c))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case sig := <-signals:
			cancel(cmdutil.Signaled(sig.(syscall.Signal), nil))
		case <-ctx.Done():
		}
	})
	wg.Go(func() { link.routineShow(ctx) })
	defer wg.Wait()
	defer cancel(nil)
	defer signal.Stop(signals)
	client, err := connect(withLink(ctx, link), c)
	if err != nil {
		return cause(ctx, err)
	}
	defer client.Close()
	return cause(ctx, f(ctx, client))
}

// start opens all ports and prints them to out.
func (f *forwarder) start(x forwards, out io.Writer) error {
	if !f.client.Has(execproto.MethodTunnelOpen) {
		return supported(execclient.ErrUnsupported)
	}
	for _, l := range x.local {
		port, err := f.local(l)
		if err != nil {
			return err
		}
		l.listen.port = port
		fmt.Fprintf(out, "%s leads to %s of the server\n", l.listen, l.to)
	}
	for _, d := range x.dynamic {
		port, err := f.dynamic(d)
		if err != nil {
			return err
		}
		d.port = port
		fmt.Fprintf(out, "%s is a SOCKS5 proxy\n", d)
	}
	for _, r := range x.remote {
		at, err := f.remote(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s of the server leads to %s\n", at, r.to)
	}
	return nil
}

// forwardFlag is -L of run, shell and exec.
func forwardFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "forward", Aliases: []string{"L"},
		Usage: "forward a port to the server while the command runs, as codex remote forward does (`SPEC`), or auto: every port that the command opens; may be repeated"}
}

// openForwards forwards the ports of -L until the command has ended. A port without a host
// leads into the command's sandbox, if that has a network of its own.
func (x *remoteExec) openForwards() error {
	if len(x.forwards.local) == 0 && !x.forwards.auto {
		return nil
	}
	f := newForwarder(x.ctx, x.client, x.s.Err)
	if x.sandbox != nil && x.client.Has(execproto.ExtensionTunnelProcess) {
		f.inside = func() (string, error) {
			if id := x.confined.Load(); id != nil {
				return *id, nil
			}
			return "", errors.New("the command has not started yet; try again when it has")
		}
	}
	x.closing = append(x.closing, f.close)
	notes, say := x.s.Err, x.link.say
	if x.quiet {
		notes, say = io.Discard, func(string) {}
	}
	if err := f.start(x.forwards, prefixed{notes}); err != nil || !x.forwards.auto {
		return err
	}
	return f.auto(false, say)
}

// prefixed writes lines as messages of codex, between the output of a command.
type prefixed struct{ to io.Writer }

func (p prefixed) Write(line []byte) (int, error) {
	cmdutil.Messagef(p.to, "codex: %s", line)
	return len(line), nil
}

// supported explains the error of a server that does not support tunnels.
func supported(err error) error {
	if errors.Is(err, execclient.ErrUnsupported) {
		return errors.New("this server cannot forward ports: it is Codex CLI's, or an older one")
	}
	return err
}

// connectStdio connects standard input and output to a host until the host closes its direction.
func connectStdio(ctx context.Context, s cmdutil.Streams, client *execclient.Client, to endpoint) error {
	t, err := client.OpenTunnel(ctx, to.target())
	if err != nil {
		return supported(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = t.Abort("interrupted") })
	defer stop()
	// No code waits for this goroutine, because a read of standard input cannot be interrupted. It
	// ends with the program.
	go func() {
		if _, err := io.Copy(t, s.In); err != nil && !errors.Is(err, net.ErrClosed) {
			_ = t.Abort(err.Error())
			return
		}
		_ = t.CloseWrite()
	}()
	_, err = io.Copy(s.RawOut, t)
	if err != nil {
		_ = t.Abort("the output is closed")
		return err
	}
	_ = t.Close()
	return nil
}
