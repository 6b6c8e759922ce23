package execenv

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// DefaultClientName is the default of Options.ClientName.
const DefaultClientName = "codex-environment"

// Options configure how environments are connected to.
type Options struct {
	ClientName string // "": DefaultClientName
	// SelfExe is the absolute path of this program, which is started as the server of the
	// local environment; empty: there is no local environment.
	SelfExe string
	// Stderr gets the standard error of started programs, from several goroutines; nil: the
	// log gets it line by line.
	Stderr io.Writer
	Logger *slog.Logger // nil: no log
	// ClientKeys is a directory with the keys that identify this client to servers behind a
	// registry; it is made if it does not exist. Detached processes belong to the key of the
	// client that started them. Empty: each Connect uses a new key, and detached processes
	// that it starts cannot be found again.
	ClientKeys string
	// ClientKeysOptional uses a new key, with a warning, if the key cannot be read or made.
	ClientKeysOptional bool
	// UserAgent is the NAME/VERSION of this program. It is sent to rendezvous services that
	// accept descriptions, for their status pages; empty: nothing is sent. ClientName is never
	// sent to the service.
	UserAgent string
	// OnStateChange gets the state changes of the clients; see execclient.Options.
	OnStateChange func(id string, change execclient.StateChange)
	// OnPolicyRequest answers questions about hosts; see execclient.Options.
	OnPolicyRequest func(context.Context, execproto.PolicyRequestParams) execproto.PolicyDecision
}

func (o Options) withDefaults() Options {
	if o.ClientName == "" {
		o.ClientName = DefaultClientName
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Connect opens a session in an environment. Closing the client ends it.
func Connect(ctx context.Context, s Spec, o Options) (*execclient.Client, error) {
	return newConnector(s, o).connect(ctx)
}

// connector opens sessions in one environment, one at a time.
type connector struct {
	spec  Spec
	opts  Options
	noise noiseOpener
}

func newConnector(s Spec, o Options) *connector {
	return &connector{spec: s, opts: o.withDefaults(), noise: noiseOpener{keys: o.ClientKeys, optional: o.ClientKeysOptional, agent: o.UserAgent}}
}

func (c *connector) connect(ctx context.Context) (*execclient.Client, error) {
	s, o := c.spec, c.opts
	opts := c.clientOptions()
	if o.OnStateChange != nil {
		opts.OnStateChange = func(change execclient.StateChange) { o.OnStateChange(s.ID, change) }
	}
	switch s.Kind {
	case WebSocket:
		if err := s.webSocketOptions(&opts); err != nil {
			return nil, err
		}
		return execclient.DialWebSocket(ctx, s.URL, opts)
	case Noise:
		return c.noise.connect(ctx, s.Registry, opts)
	case SSH:
		return connectSSH(ctx, s.ID, s.Host, c.stderr(), opts)
	}
	command := execclient.Command{Path: s.Program, Args: s.Args, Dir: s.Dir, Stderr: c.stderr()}
	if s.Kind == Local {
		if !filepath.IsAbs(o.SelfExe) {
			return nil, ErrNoRuntime
		}
		command.Path, command.Args = o.SelfExe, []string{"exec-server", "--listen", "stdio", "--log-level", "warn"}
	}
	if len(s.Env) > 0 {
		command.Env = append(os.Environ(), s.Env...)
	}
	return execclient.StartCommand(ctx, command, opts)
}

// clientOptions returns the options that do not depend on the kind of the environment.
func (c *connector) clientOptions() execclient.Options {
	return execclient.Options{
		ClientName: c.opts.ClientName, UserAgent: c.opts.UserAgent, ConnectTimeout: c.spec.ConnectTimeout, InitializeTimeout: c.spec.InitializeTimeout,
		Logger: c.opts.Logger, KeepAlive: keepAlive, OnPolicyRequest: c.opts.OnPolicyRequest,
	}
}

// stderr returns the writer for the standard error of a program.
func (c *connector) stderr() io.Writer {
	if c.opts.Stderr == nil {
		return lineLog{c.opts.Logger.With("environment", c.spec.ID)}
	}
	return c.opts.Stderr
}

// webSocketOptions reads the files of an environment at a URL.
func (s Spec) webSocketOptions(opts *execclient.Options) (err error) {
	token := s.Token
	if s.TokenFile != "" {
		if token, err = readToken(s.TokenFile); err != nil {
			return err
		}
	}
	opts.BearerToken = string(token)
	if opts.TLS, err = s.TLS.config(); err != nil {
		return err
	}
	opts.ServerUser, err = serverUser(os.Getenv(ServerUserVariable))
	return err
}

// ServerUserVariable has the user, by name or id, whose servers on this machine get tokens; "*": those of every user.
const ServerUserVariable = "CODEX_EXEC_SERVER_USER"

// serverUser returns the id of the user that the variable names; "": root, who is trusted anyway.
func serverUser(name string) (int, error) {
	switch name {
	case "":
		return 0, nil
	case "*":
		return execclient.AnyUser, nil
	}
	id := name
	if u, err := user.Lookup(name); err == nil {
		id = u.Uid
	}
	uid, err := strconv.ParseUint(id, 10, 31)
	if err != nil {
		return 0, invalid("%s is %q: it must be the name or the id of a user of this machine, or *", ServerUserVariable, name)
	}
	return int(uid), nil
}

// lineLog logs the text that a program writes, with one record for each line.
type lineLog struct{ log *slog.Logger }

func (l lineLog) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.log.Debug("stderr", "line", string(line))
		}
	}
	return len(text), nil
}
