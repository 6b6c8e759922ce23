// Package remote implements the commands of codex remote: they run commands on a server and
// work on its files.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

// Environment variables of the client.
const (
	urlVariable   = execenv.URLVariable
	tokenVariable = execenv.TokenVariable
)

// connectionToken returns the token for the server of --url.
func connectionToken() execenv.Secret { return execenv.Secret(os.Getenv(tokenVariable)) }

func Command(s cmdutil.Streams) *cli.Command {
	commands := []*cli.Command{
		remoteRunCommand(s), remoteExecCommand(s), remoteShellCommand(s), remoteInfoCommand(s),
		remoteLsCommand(s), remoteCatCommand(s), remoteCpCommand(s), remoteSyncCommand(s), remoteMvCommand(s),
		remoteRmCommand(s), remoteMkdirCommand(s), remoteLnCommand(s), remoteEditCommand(s), remoteWatchCommand(s),
		remotePsCommand(s), remoteLogsCommand(s), remoteAttachCommand(s), remoteWaitCommand(s), remoteKillCommand(s), remoteStopCommand(s), remoteForgetCommand(s),
		remoteTopCommand(s), remoteStatsCommand(s),
		remoteForwardCommand(s),
	}
	return &cli.Command{
		Name:  "remote",
		Usage: "run commands on an exec-server and copy files to and from it",
		Description: `The server is named by --url, which may be the unix:///PATH of its socket, or it is
the environment of --env ID, or the default one: see codex environments --help.
If a server of --url or ` + urlVariable + ` demands a token, that is taken from
` + tokenVariable + `; it is sent over wss:// or to a
loopback address only. --url and --env stand before or after the command.

A server that has registered at a codex rendezvous is found by its id where
CODEX_EXEC_SERVER_NOISE_REGISTRY_URL has the URL of that service and
CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN a token of it.

Examples:
   export ` + urlVariable + `=ws://127.0.0.1:8765
   codex remote run -- make test
   codex remote --env devbox shell
   codex remote cp -r ./src :/tmp/src`,
		Flags:       serverFlags(),
		Subcommands: commands,
	}
}

// unreachable returns the error for a failed connection, with a hint.
func unreachable(err error, s execenv.Spec) error {
	own := s.Kind != execenv.Noise // the user chose the address and the token: they are not those of a relay
	var dns *net.DNSError
	cert := cmdutil.CertificateHint(err)
	hint := cmdutil.RegistryHint(err, "harness", execenv.NoiseVariables[2])
	switch {
	case hint != "" || cmdutil.FromRegistry(err):
	case own && errors.Is(err, cmdutil.ErrConnectionRefused):
		hint = "is the server running?" + startHint(s.URL)
	case own && strings.Contains(err.Error(), "401"):
		hint = "set " + tokenVariable + " to the server's token"
	case errors.Is(err, execclient.ErrUntrustedServer):
		hint = "if you trust that server, set " + execenv.ServerUserVariable + " to its user, or to * if its user is unknown"
	case s.Kind == execenv.WebSocket && tlsHint(err, s) != "":
		hint = tlsHint(err, s)
	case cert != "":
		hint = cert
	case errors.As(err, &dns):
		hint = cmdutil.CheckName
	}
	if hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return &cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: err}
}

// startHint returns the command that starts a server with a URL of this machine, or "" for other URLs.
func startHint(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "unix" && (u.Scheme != "ws" || net.ParseIP(u.Hostname()) == nil || !net.ParseIP(u.Hostname()).IsLoopback()) {
		return ""
	}
	return " Start one with codex exec-server --listen " + terminal.Text(text)
}

// tlsHint returns advice on a failed connection to a URL that the user chose; "" for errors that are not about TLS.
func tlsHint(err error, s execenv.Spec) string {
	option := func(flag, member string) string {
		if s.Source == "--url" {
			return flag
		}
		return member + " in " + execenv.FileName
	}
	var untrusted x509.UnknownAuthorityError
	var plain tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &untrusted):
		return "its certificate is not trusted on this machine: set " + option("--ca", "ca") + " to a file with its certificate authority"
	case errors.As(err, &plain), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "it does not use TLS; its URL begins with ws://"
	case strings.HasPrefix(s.URL, "ws://") && strings.Contains(text, "HTTPS server"):
		return "it uses TLS; its URL begins with wss://"
	case strings.Contains(text, "tls: certificate required"):
		return "it demands a certificate of the client: set " + option("--client-cert and --client-key", "client_cert and client_key")
	case strings.Contains(text, "tls: unknown certificate authority"), strings.Contains(text, "tls: bad certificate"):
		return "it does not accept the client's certificate of " + option("--client-cert", "client_cert")
	}
	return ""
}

// remoteURI returns the URI of a path that a user typed. The path is absolute, or relative to base,
// the server's directory as a URI. A tilde means the server's home directory.
func remoteURI(typed, base, home string) (string, error) {
	switch {
	case strings.HasPrefix(typed, "file:"):
		return typed, nil
	case strings.HasPrefix(typed, "/"):
	case typed == "~" || strings.HasPrefix(typed, "~/"):
		dir, err := pathuri.Parse(home, "")
		if err != nil {
			return "", cmdutil.Usagef("%s: the server does not report its home directory; give an absolute path", typed)
		}
		typed = path.Join(dir, strings.TrimPrefix(typed, "~"))
	default:
		dir, err := pathuri.Parse(base, "")
		if err != nil {
			return "", cmdutil.Usagef("%s: the server does not report its working directory; give an absolute path", typed)
		}
		typed = path.Join(dir, typed)
	}
	return pathuri.Format(path.Clean(typed)), nil
}

// places are the directories of the server to which paths are relative.
type places struct{ cwd, home string }

// lookAround asks the server for its directories.
func lookAround(ctx context.Context, client *execclient.Client) (places, execproto.EnvironmentInfo, error) {
	info, err := client.EnvironmentInfo(ctx)
	return places{info.Cwd, info.UserHomeDir}, info, err
}

func (p places) uri(typed string) (string, error) { return remoteURI(typed, p.cwd, p.home) }

// marked is uri for a path that may begin with the colon that cp needs. The user types a name that
// itself begins with a colon as ./:NAME.
func (p places) marked(typed string) (string, error) { return p.uri(strings.TrimPrefix(typed, ":")) }

func remoteInfoCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "info", Usage: "describe the server's machine",
		Description: `Prints what the server reports about its machine, and how long it takes to connect.

Example:
   codex remote info --url ws://127.0.0.1:8765`,
		Flags: serverFlags(&cli.BoolFlag{Name: "json", Usage: "print the server's answer as JSON"}),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("info takes no arguments, got %q", c.Args().First())
			}
			server, err := chooseServer(c)
			if err != nil {
				return err
			}
			began := time.Now()
			client, err := connectTo(c.Context, c, server, nil)
			if err != nil {
				return err
			}
			defer client.Close()
			dialed := time.Since(began)
			info, err := client.EnvironmentInfo(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				_, err := fmt.Fprintf(s.Out, "%s\n", info.AppendJSON(nil))
				return err
			}
			return printInfo(s.Out, server.Address(), client, info, dialed)
		},
	}
}

func printInfo(to io.Writer, address string, client *execclient.Client, info execproto.EnvironmentInfo, dialed time.Duration) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	native := func(uri string) string {
		if p, err := pathuri.Parse(uri, ""); err == nil {
			return terminal.Text(p)
		}
		return "unknown"
	}
	orUnknown := func(s string) string {
		if s == "" {
			return "unknown"
		}
		return terminal.Text(s)
	}
	fmt.Fprintf(w, "server\t%s (connected in %v)\n", terminal.Text(address), dialed.Round(100*time.Microsecond))
	fmt.Fprintf(w, "session\t%s\n", digest.Of(client.SessionID()))
	fmt.Fprintf(w, "version\t%s\n", orUnknown(info.ExecutorVersion))
	fmt.Fprintf(w, "system\t%s\n", orUnknown(info.PlatformOS))
	fmt.Fprintf(w, "shell\t%s (%s)\n", terminal.Text(info.Shell.Path), terminal.Text(info.Shell.Name))
	fmt.Fprintf(w, "directory\t%s\n", native(info.Cwd))
	fmt.Fprintf(w, "home\t%s\n", native(info.UserHomeDir))
	fmt.Fprintf(w, "temporary\t%s\n", native(info.TempDir))
	return w.Flush()
}

// withFiles runs f with the file system of the server that the command names.
func withFiles(c *cli.Context, f func(fs *execclient.FS, at places) error) error {
	client, err := connect(c.Context, c)
	if err != nil {
		return err
	}
	defer client.Close()
	at, _, err := lookAround(c.Context, client)
	if err != nil {
		return err
	}
	return f(client.FS(), at)
}

func remoteCatCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "cat", Usage: "print files of the server", ArgsUsage: "PATH...",
		Description: `Prints the files one after another. In a path, * ? and [ ] match names.

Example:
   codex remote cat --url ws://127.0.0.1:8765 /etc/os-release`,
		Flags: serverFlags(cmdutil.RemoteFiles),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cmdutil.Usagef("cat needs the path of a file on the server")
			}
			return withFiles(c, func(files *execclient.FS, at places) error {
				paths, err := (&matcher{c.Context, files, at}).expand("print", c.Args().Slice())
				if err != nil {
					return err
				}
				for _, typed := range paths {
					uri, err := at.marked(typed)
					if err != nil {
						return err
					}
					if err := printFile(c.Context, s.RawOut, files, uri); err != nil {
						return fmt.Errorf("%s: %w", typed, withoutPath(err))
					}
				}
				return nil
			})
		},
	}
}

// withoutPath removes the path from an error. The caller adds the path as the user typed it.
func withoutPath(err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// printFile writes a file of the server to out.
func printFile(ctx context.Context, out io.Writer, fs *execclient.FS, uri string) error {
	r, err := fs.OpenStream(ctx, uri)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(out, r)
	return err
}
