package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/environments"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/digest"
	"github.com/urfave/cli/v2"
)

func urlFlag() cli.Flag {
	return &cli.StringFlag{Name: "url", Usage: "the server's `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"}
}

// The flags for TLS, which apply to --url wss://.
func caFlag() cli.Flag {
	return &cli.StringFlag{Name: "ca", Usage: "--url wss://: trust the authorities in `FILE`, and no others"}
}

func clientCertFlag() cli.Flag {
	return &cli.StringFlag{Name: "client-cert", Usage: "--url wss://: show the certificate in `FILE`"}
}

func clientKeyFlag() cli.Flag {
	return &cli.StringFlag{Name: "client-key", Usage: "--url wss://: the `FILE` with the key of --client-cert"}
}

// tlsFiles returns the TLS files for a --url, or their zero value if no option names any.
func tlsFiles(c *cli.Context, url string) (files execenv.TLSFiles, err error) {
	for name, to := range map[string]*string{"ca": &files.CA, "client-cert": &files.ClientCert, "client-key": &files.ClientKey} {
		if *to, err = cmdutil.FlagValue(c, name); err != nil {
			return files, err
		}
	}
	switch {
	case (files.ClientCert == "") != (files.ClientKey == ""):
		return files, cmdutil.Usagef("--client-cert and --client-key must be given together")
	case files != (execenv.TLSFiles{}) && !strings.HasPrefix(url, "wss://"):
		return files, cmdutil.Usagef("--ca, --client-cert and --client-key are for --url wss://HOST:PORT; for an environment set them in %s", execenv.FileName)
	}
	return files, nil
}

func envFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "env",
		Usage: "the environment with that `ID`; see codex environments list. " +
			"Where CODEX_EXEC_SERVER_NOISE_REGISTRY_URL is set, one of that registry's",
	}
}

// serverFlags returns the flags that choose the server, for commands whose --env has no other
// meaning, and --quiet.
func serverFlags(more ...cli.Flag) []cli.Flag {
	return append(serverFlagsButQuiet(quietFlag()), more...)
}

// serverFlagsButQuiet is serverFlags for a command whose --quiet has another meaning.
func serverFlagsButQuiet(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envFlag(), verboseFlag()}, more...)
}

// serverFlag returns the values of --url and --env. A flag after the command takes precedence
// over one before it.
func serverFlag(c *cli.Context) (url, id string, err error) {
	url, urlLevel, err := cmdutil.FlagLevel(c, "url")
	if err != nil {
		return "", "", err
	}
	id, idLevel, err := cmdutil.FlagLevel(c, "env")
	switch {
	case err != nil || url == "" || id == "":
		return url, id, err
	case urlLevel == idLevel:
		return "", "", cmdutil.Usagef("--url and --env exclude each other: both name the server")
	case urlLevel < idLevel:
		return url, "", nil
	default:
		return "", id, nil
	}
}

// checkURL returns an error for a --url with a scheme of HTTP or without a scheme, and suggests the right one.
func checkURL(url string) error {
	scheme, rest, found := strings.Cut(url, "://")
	meant := map[string]string{"http": "ws://" + rest, "https": "wss://" + rest}[strings.ToLower(scheme)]
	if url != "" && !found {
		meant = "ws://" + url
	}
	switch {
	case meant == "":
		return nil
	case strings.ContainsAny(url, "@?"): // the URL may contain a secret
		return cmdutil.Usagef("--url: expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH")
	}
	return cmdutil.Usagef("--url %s: expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH; did you mean %s?", url, meant)
}

// chooseServer returns the environment of --url or --env, or the default one.
func chooseServer(c *cli.Context) (execenv.Spec, error) {
	url, id, err := serverFlag(c)
	if err != nil {
		return execenv.Spec{}, err
	}
	if isQuiet(c) && isVerbose(c) {
		return execenv.Spec{}, cmdutil.Usagef("--quiet and --verbose exclude each other: give one of them")
	}
	if err := checkURL(url); err != nil {
		return execenv.Spec{}, err
	}
	files, err := tlsFiles(c, url)
	if err != nil {
		return execenv.Spec{}, err
	}
	if url != "" {
		return execenv.Spec{ID: execenv.RemoteID, Kind: execenv.WebSocket, Source: "--url", URL: url, Token: connectionToken(), TLS: files}, nil
	}
	config, err := environments.Load(id)
	if err != nil {
		return execenv.Spec{}, err
	}
	environments.Warn(c.App.ErrWriter, config)
	named := id != ""
	if !named {
		id = config.Default
		if config.Source == "" {
			fmt.Fprintf(unlessQuiet(c, c.App.ErrWriter), "codex: no server is named by --url, --env, %s or %s: this is the local environment\n", execenv.FileName, execenv.URLVariable)
		}
	}
	if id != "" && id == config.Default && !named {
		if ignored := os.Getenv(execenv.URLVariable); ignored != "" && config.Source != execenv.URLVariable {
			cmdutil.Messagef(unlessQuiet(c, c.App.ErrWriter), "codex: %s is ignored, because %s decides: this is the environment %s; --url \"$%[1]s\" uses the variable\n",
				execenv.URLVariable, terminal.Text(config.Source), terminal.Text(id))
		}
	}
	if id == "" {
		return execenv.Spec{}, cmdutil.Usagef("which environment? %s; give --env ID or --url ws://HOST:PORT", environments.NoDefault(config))
	}
	s, ok := config.Find(id)
	if !ok {
		return s, cmdutil.WithAdvice(environments.UnknownEnvironment(config, id), "for one of a codex rendezvous set "+execenv.NoiseVariables[0]+" and "+execenv.NoiseVariables[2])
	}
	return s, nil
}

// connect opens a session on the server that the command names.
func connect(ctx context.Context, c *cli.Context) (*execclient.Client, error) {
	s, err := chooseServer(c)
	if err != nil {
		return nil, err
	}
	return connectTo(ctx, c, s, nil)
}

// asOwner returns a context for commands about detached processes. Only with this context does a
// connection fail if the server does not recognize this client's key. Other commands use the key if
// possible, so that they show processes of earlier sessions.
func asOwner(ctx context.Context) context.Context { return context.WithValue(ctx, ownerKey{}, true) }

// ownerKey is the context key of asOwner.
type ownerKey struct{}

// keysFor returns the directory with the key for a server, or "" if the server needs no key.
func keysFor(s execenv.Spec) (string, error) {
	if s.Kind != execenv.Noise {
		return "", nil
	}
	dir, err := home.Find()
	if err != nil {
		return "", fmt.Errorf("the keys that identify this client to servers: %w", err)
	}
	return filepath.Join(dir, home.ClientKeys), nil
}

// connectTo opens a session on a server. answers answers the server's questions about hosts. It is
// nil if the caller starts no command that causes such questions.
func connectTo(
	ctx context.Context, c *cli.Context, s execenv.Spec, answer func(context.Context, execproto.PolicyRequestParams) execproto.PolicyDecision,
) (*execclient.Client, error) {
	began := time.Now()
	keys, err := keysFor(s)
	if err != nil {
		return nil, err
	}
	client, err := execenv.Connect(ctx, s, execenv.Options{
		ClientKeys: keys, ClientKeysOptional: ctx.Value(ownerKey{}) == nil,
		ClientName: "codex-remote", UserAgent: cmdutil.UserAgent("codex-remote"), SelfExe: cmdutil.SelfExe(), Stderr: childStderr(c),
		OnStateChange: onStateChange(ctx), OnPolicyRequest: answer,
	})
	if err != nil && s.Source != "--url" && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("environment `%s` of %s: %w", s.ID, s.Source, err)
	}
	if err != nil {
		return nil, unreachable(err, s)
	}
	if isVerbose(c) {
		cmdutil.Messagef(c.App.ErrWriter, "codex: connected to %s (environment %s) in %v, session %s\n", terminal.Text(s.Address()), terminal.Text(s.ID),
			time.Since(began).Round(100*time.Microsecond), digest.Of(client.SessionID()))
	}
	return client, nil
}
