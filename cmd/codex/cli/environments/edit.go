package environments

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execenv"
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

--token-file names a file with a token. With --url the token is copied into
` + execenv.FileName + `; with --rendezvous the file is read whenever the token is needed.

--ssh cannot ask for a password, so ssh must log in with a key. codex must be on the
PATH of that machine, or in ~/.local/bin, ~/bin or /usr/local/bin. --install copies this
program to ~/` + execenv.InstalledCodex + ` there, if that machine
has the same operating system and architecture.

Examples:
   codex environments add devbox --url wss://devbox:8765 --token-file token --default
   codex environments add box --rendezvous https://meet.example:8766 --token-file ~/box.token
   codex environments add build --ssh me@build.example --install`,
		Flags: []cli.Flag{
			cmdutil.OtherWords,
			&cli.StringFlag{Name: "url", Usage: "the server's `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"},
			&cli.StringFlag{Name: "ca", Usage: "--url wss://: trust the authorities in `FILE`, and no others"},
			&cli.StringFlag{Name: "client-cert", Usage: "--url wss://: show the certificate in `FILE`"},
			&cli.StringFlag{Name: "client-key", Usage: "--url wss://: the `FILE` with the key of --client-cert"},
			&cli.StringFlag{Name: "rendezvous", Usage: "the `URL` of a rendezvous service: https://HOST:PORT"},
			&cli.StringFlag{Name: "environment-id", Usage: "--rendezvous: the `ID` there", DefaultText: "the same id"},
			&cli.StringFlag{Name: "token-file", Usage: "--url, --rendezvous: the `FILE` with the token"},
			&cli.StringFlag{Name: "ssh", Usage: "start a server by ssh on that machine (`[USER@]HOST`)"},
			&cli.StringSliceFlag{Name: "ssh-arg", Usage: "--ssh: an `ARGUMENT` for ssh, as in --ssh-arg=-p --ssh-arg=2222; may be repeated"},
			&cli.StringFlag{Name: "codex", Usage: "--ssh: the `PATH` of codex on that machine", DefaultText: "looked for"},
			&cli.BoolFlag{Name: "install", Usage: "--ssh: copy this program to that machine first"},
			&cli.BoolFlag{Name: "default", Usage: "make this the default environment"},
		},
		Action: func(c *cli.Context) error { return addEnvironment(c, s) },
	}
}

func addEnvironment(c *cli.Context, s cmdutil.Streams) error {
	e, err := newEntry(c)
	if err != nil {
		return err
	}
	dir, err := home.Find()
	if err != nil {
		return err
	}
	if c.Bool("install") {
		if err := install(c.Context, s.Err, execenv.SSHHost{Host: e.SSH, Args: e.SSHArgs}); err != nil {
			return fmt.Errorf("copy this program to %s: %w", e.SSH, err)
		}
	}
	path, err := execenv.Add(dir, e, c.Bool("default"))
	if err != nil {
		return fmt.Errorf("add the environment `%s`: %w", e.ID, err)
	}
	_, err = fmt.Fprintf(s.Out, "Added %s to %s. Try it: codex environments check %s\n", e.ID, terminal.Text(path), e.ID)
	return err
}

// newEntry returns the environment that the options describe.
func newEntry(c *cli.Context) (execenv.Entry, error) {
	e := execenv.Entry{
		ID: c.Args().First(), URL: c.String("url"), Rendezvous: c.String("rendezvous"), EnvironmentID: c.String("environment-id"),
		SSH: c.String("ssh"), SSHArgs: c.StringSlice("ssh-arg"), Codex: c.String("codex"),
	}
	if c.NArg() != 1 {
		return e, cmdutil.Usagef("add takes the id of one environment, got %d", c.NArg())
	}
	kinds := 0
	for _, kind := range []string{e.URL, e.Rendezvous, e.SSH} {
		if kind != "" {
			kinds++
		}
	}
	if kinds != 1 {
		return e, cmdutil.Usagef("add needs one of --url, --rendezvous and --ssh")
	}
	for name, of := range map[string]string{
		"ca": e.URL, "client-cert": e.URL, "client-key": e.URL, "environment-id": e.Rendezvous,
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
	if e.URL != "" && e.TokenFile != "" {
		token, err := readToken(e.TokenFile)
		if err != nil {
			return e, err
		}
		e.BearerToken, e.TokenFile = token, ""
	}
	return e, nil
}

// readToken reads a file with a token. It may be a pipe.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := readAtMost(f, maxTokenBytes)
	token := strings.TrimSpace(text)
	if err == nil && (token == "" || strings.ContainsAny(token, "\r\n")) {
		err = fmt.Errorf("%s: expected one token in one line", path)
	}
	return token, err
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
			dir, err := home.Find()
			if err != nil {
				return err
			}
			id := c.Args().First()
			path, err := execenv.Remove(dir, id)
			if err != nil {
				return fmt.Errorf("remove the environment `%s`: %w", terminal.Text(id), err)
			}
			_, err = fmt.Fprintf(s.Out, "Removed %s from %s.\n", terminal.Text(id), terminal.Text(path))
			return err
		},
	}
}
