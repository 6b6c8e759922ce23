package environments

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

// maxTokenBytes bounds a file with a token.
const maxTokenBytes = 64 << 10

func environmentsAddCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "add", Usage: "add an environment to " + execenv.FileName, ArgsUsage: "ID",
		Description: `Adds a server at a URL (--url), one that a rendezvous service knows (--rendezvous),
or one that ssh starts on another machine (--ssh). The file is created if it does not
exist; its comments and its order do not change. To try the new environment, run codex
environments check.

Codex CLI reads the file, too. What it does not know is written as a program with
arguments: this program, as codex environments connect. If you move this program, add
the environment again.

--token-file names a file with a token, which only you can read. It is read whenever the
token is needed.

--default also writes include_local = false, unless the file has a line about it. Without
that, Codex CLI runs commands on this machine, silently, if it does not reach the
default. With --keep-local this machine stays an environment, called local.

--ssh cannot ask for a password, so ssh must log in with a key. codex must be on the
PATH of that machine, or in ~/.local/bin, ~/bin or /usr/local/bin. --install copies this
program to ~/` + execenv.InstalledCodex + ` there, if that machine
has the same operating system and architecture.

Examples:
   codex environments add devbox --url wss://devbox:8765 \
      --token-file token --default
   codex environments add box --rendezvous https://meet.example:8766 \
      --token-file ~/box.token
   codex environments add build --ssh me@build.example --install`,
		Flags: append(append([]cli.Flag{cmdutil.OtherWords}, addressFlags()...),
			&cli.BoolFlag{Name: "install", Usage: "--ssh: copy this program to that machine first"},
			&cli.BoolFlag{Name: "default", Usage: "make this the default environment"},
			keepLocalFlag()),
		Action: func(c *cli.Context) error { return addEnvironment(c, s) },
	}
}

// addressFlags are the options that describe an environment.
func addressFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "the server's `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"},
		&cli.StringFlag{Name: "ca", Usage: "--url wss://, --rendezvous https://: trust the authorities in `FILE`, and no others"},
		&cli.StringFlag{Name: "client-cert", Usage: "--url wss://: show the certificate in `FILE`"},
		&cli.StringFlag{Name: "client-key", Usage: "--url wss://: the `FILE` with the key of --client-cert"},
		&cli.StringFlag{Name: "rendezvous", Usage: "the `URL` of a rendezvous service: https://HOST:PORT"},
		&cli.StringFlag{Name: "environment-id", Usage: "--rendezvous: the `ID` there", DefaultText: "the same id"},
		&cli.StringFlag{Name: "token-file", Usage: "--url, --rendezvous: the `FILE` with the token"},
		&cli.StringFlag{Name: "ssh", Usage: "start a server by ssh on that machine (`[USER@]HOST`)"},
		&cli.StringSliceFlag{Name: "ssh-arg", Usage: "--ssh: an `ARGUMENT` for ssh, as in --ssh-arg=-p --ssh-arg=2222; may be repeated"},
		&cli.StringFlag{Name: "codex", Usage: "--ssh: the `PATH` of codex on that machine", DefaultText: "looked for"},
	}
}

func keepLocalFlag() cli.Flag {
	return &cli.BoolFlag{Name: "keep-local", Usage: "leave this machine as an environment (include_local = true)"}
}

func addEnvironment(c *cli.Context, s cmdutil.Streams) error {
	if c.NArg() != 1 {
		return cmdutil.Usagef("add takes the id of one environment, got %d", c.NArg())
	}
	if c.Bool("keep-local") && !c.Bool("default") {
		return cmdutil.Usagef("--keep-local has no effect without --default")
	}
	e, err := newEntry(c, c.Args().First())
	if err != nil {
		return err
	}
	editor, err := newEditor(c)
	if err != nil {
		return err
	}
	if e.TokenFile != "" {
		if err := checkToken(e.TokenFile); err != nil {
			return err
		}
	}
	if c.Bool("install") {
		host := execenv.SSHHost{Host: e.SSH, Args: e.SSHArgs, Sockets: execenv.SocketDir(editor.Home)}
		if err := install(c.Context, s.Err, host); err != nil {
			return fmt.Errorf("copy this program to %s: %w", e.SSH, err)
		}
	}
	done, err := editor.Add(e, c.Bool("default"))
	if err != nil {
		return fmt.Errorf("add the environment `%s`: %w", e.ID, err)
	}
	showEdited(s, done)
	_, err = fmt.Fprintf(s.Out, cmdutil.OwnCommands("Added %s to %s. Try it: codex environments check %s\n"), e.ID, terminal.Text(done.Path), e.ID)
	return err
}

// newEditor returns the editor of the user's file.
func newEditor(c *cli.Context) (execenv.Editor, error) {
	dir, err := home.Find()
	return execenv.Editor{Home: dir, Self: cmdutil.SelfExe(), KeepLocal: c.Bool("keep-local")}, err
}

// showEdited prints what an edit changed besides what the user asked for.
func showEdited(s cmdutil.Streams, done execenv.Edited) {
	path := terminal.Text(done.Path)
	if len(done.Converted) > 0 {
		fmt.Fprintf(s.Err, "codex: wrote %s as a program with arguments: Codex CLI refused the file before\n", strings.Join(done.Converted, ", "))
	}
	if len(done.Unreadable) > 0 {
		fmt.Fprintf(s.Err, "codex: warning: Codex CLI refuses %s because of %s: remove it and add it again, with --token-file if it has a token\n",
			path, strings.Join(done.Unreadable, ", "))
	}
	if done.Opened != 0 {
		fmt.Fprintf(s.Err, "codex: other users could read or change %s (mode %04o): it has the mode 0600 now\n", path, done.Opened)
	}
	if done.LocalExcluded {
		cmdutil.Messagef(s.Err, "codex: wrote include_local = false: otherwise Codex CLI runs commands on this machine, silently, if it does not reach the default; "+
			"codex environments use local, or --keep-local, brings this machine back\n")
	}
}

// newEntry returns the environment that the options describe.
func newEntry(c *cli.Context, id string) (execenv.Entry, error) {
	e := execenv.Entry{
		ID: id, URL: c.String("url"), Rendezvous: c.String("rendezvous"), EnvironmentID: c.String("environment-id"),
		SSH: c.String("ssh"), SSHArgs: c.StringSlice("ssh-arg"), Codex: c.String("codex"),
	}
	kinds := 0
	for _, kind := range []string{e.URL, e.Rendezvous, e.SSH} {
		if kind != "" {
			kinds++
		}
	}
	if kinds != 1 {
		return e, cmdutil.Usagef("%s needs one of --url, --rendezvous and --ssh", c.Command.Name)
	}
	for name, of := range map[string]string{
		"ca": e.URL + e.Rendezvous, "client-cert": e.URL, "client-key": e.URL, "environment-id": e.Rendezvous,
		"token-file": e.URL + e.Rendezvous, "ssh-arg": e.SSH, "codex": e.SSH, "install": e.SSH,
	} {
		if c.IsSet(name) && of == "" {
			return e, cmdutil.Usagef("--%s has no effect on an environment of this kind", name)
		}
	}
	for name, to := range map[string]*string{"ca": &e.CA, "client-cert": &e.ClientCert, "client-key": &e.ClientKey, "token-file": &e.TokenFile} {
		if c.String(name) == "" {
			continue
		}
		// In the file, paths are relative to the home directory of codex.
		var err error
		if *to, err = filepath.Abs(c.String(name)); err != nil {
			return e, err
		}
	}
	return e, nil
}

// checkToken returns an error unless a file has one token, and only this user can read it. The file
// is read again at each use, so it cannot be a pipe.
func checkToken(path string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	text, err := safeopen.ReadPrivate(path, maxTokenBytes)
	if err != nil {
		return fmt.Errorf("--token-file, which is read whenever the token is needed: %w", err)
	}
	if token := strings.TrimSpace(string(text)); token == "" || strings.ContainsAny(token, "\r\n") {
		return fmt.Errorf("--token-file %s: expected one token in one line", path)
	}
	return nil
}

func environmentsConnectCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "connect", Usage: "connect stdin and stdout to the server of an environment",
		Description: `Passes the messages of a client on stdin and stdout to a server, and its answers back.
Codex CLI starts this command for an environment that it cannot reach itself: see codex
environments add. The options are those of codex environments add.

Example:
   codex environments connect --ssh=me@build.example`,
		Flags: addressFlags(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("connect takes no arguments, got %q", c.Args().First())
			}
			if c.String("rendezvous") != "" && c.String("environment-id") == "" {
				return cmdutil.Usagef("connect --rendezvous needs --environment-id")
			}
			e, err := newEntry(c, "connect")
			if err != nil {
				return err
			}
			dir, err := home.Find()
			if err != nil {
				return err
			}
			spec, err := e.Spec(dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, append(cmdutil.NotIgnored(os.Interrupt), syscall.SIGTERM)...)
			defer stop()
			return execenv.Forward(ctx, spec, execenv.Options{
				ClientKeys: filepath.Join(dir, home.ClientKeys), ClientKeysOptional: true,
				UserAgent: cmdutil.UserAgent("codex-environments"), Stderr: s.Err,
			}, s.In, s.Out)
		},
	}
}

func environmentsInstallCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "copy this program to the machine of an environment of ssh", ArgsUsage: "ID",
		Description: `Copies this program to ~/` + execenv.InstalledCodex + ` on that
machine, if it has the same operating system and architecture, and replaces one that was
copied before. Servers that run there keep the former program.

Example:
   codex environments install build`,
		Flags: []cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferWords, Words: IDs}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cmdutil.Usagef("install takes the id of one environment, got %d", c.NArg())
			}
			config, err := Load("")
			if err != nil {
				return err
			}
			id := c.Args().First()
			spec, ok := config.Find(id)
			switch {
			case !ok:
				return UnknownEnvironment(config, id)
			case spec.Kind != execenv.SSH:
				return fmt.Errorf("the environment `%s` is not one of ssh, but %s: copy the program there by hand", id, spec.Kind)
			}
			if err := install(c.Context, s.Err, spec.Host); err != nil {
				return fmt.Errorf("copy this program to %s: %w", spec.Host.Host, err)
			}
			return nil
		},
	}
}

func environmentsUseCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "use", Usage: "make an environment the default", ArgsUsage: "ID",
		Description: `Sets the default of ` + execenv.FileName + `, for this program and for Codex CLI. With
an ID other than local it also writes include_local = false, as codex environments
add --default does.

Examples:
   codex environments use devbox
   codex environments use local`,
		Flags: []cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferWords, Words: IDs}, keepLocalFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cmdutil.Usagef("use takes the id of one environment, got %d", c.NArg())
			}
			editor, err := newEditor(c)
			if err != nil {
				return err
			}
			id := c.Args().First()
			done, err := editor.Use(id)
			if err != nil {
				return fmt.Errorf("make the environment `%s` the default: %w", terminal.Text(id), err)
			}
			showEdited(s, done)
			_, err = fmt.Fprintf(s.Out, "%s is the default of %s now.\n", id, terminal.Text(done.Path))
			return err
		},
	}
}

func environmentsRemoveCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "remove", Aliases: []string{"rm"}, Usage: "remove an environment from " + execenv.FileName, ArgsUsage: "ID",
		Description: `The rest of the file, with its comments, does not change.

Example:
   codex environments remove devbox`,
		Flags: []cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferWords, Words: IDs}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cmdutil.Usagef("remove takes the id of one environment, got %d", c.NArg())
			}
			editor, err := newEditor(c)
			if err != nil {
				return err
			}
			id := c.Args().First()
			done, err := editor.Remove(id)
			if err != nil {
				return fmt.Errorf("remove the environment `%s`: %w", terminal.Text(id), err)
			}
			showEdited(s, done)
			_, err = fmt.Fprintf(s.Out, "Removed %s from %s.\n", terminal.Text(id), terminal.Text(done.Path))
			return err
		},
	}
}
