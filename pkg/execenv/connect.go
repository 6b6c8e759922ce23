package execenv

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// DefaultClientName is what the client of an environment calls itself.
const DefaultClientName = "codex-environment"

// Options say how environments are reached.
type Options struct {
	ClientName string // default DefaultClientName
	// SelfExe is the absolute path of this program, which the local environment
	// starts as a server; empty: there is no local environment.
	SelfExe string
	// Stderr gets what programs that were started write to stderr; nil: the
	// log does, line by line. It may be written to from several goroutines.
	Stderr io.Writer
	Logger *slog.Logger // nil: no log
	// ClientKeys is a directory with the keys by which servers behind a registry know this
	// client; it is made if it does not exist. Detached processes belong to the key that they
	// were started with. Empty: each Connect makes a new key, and a detached process that is
	// started with it cannot be found again.
	ClientKeys string
	// ClientKeysOptional: if the key cannot be read or made, there is a new one, and a warning.
	ClientKeysOptional bool
	// UserAgent is the NAME/VERSION of this program, which is sent to a rendezvous service that
	// accepts descriptions, for its status page; empty: nothing is sent. ClientName is never sent
	// to the service.
	UserAgent string
	// OnStateChange tells of the clients' states; see execclient.Options.
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

// Connect opens a session of its own in an environment, which Close of the
// client ends.
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
	opts := execclient.Options{
		ClientName: o.ClientName, ConnectTimeout: s.ConnectTimeout, InitializeTimeout: s.InitializeTimeout,
		BearerToken: string(s.Token), Logger: o.Logger, KeepAlive: keepAlive, OnPolicyRequest: o.OnPolicyRequest,
	}
	if o.OnStateChange != nil {
		opts.OnStateChange = func(change execclient.StateChange) { o.OnStateChange(s.ID, change) }
	}
	switch s.Kind {
	case WebSocket:
		config, err := s.TLS.config()
		if err != nil {
			return nil, err
		}
		opts.TLS = config
		return execclient.DialWebSocket(ctx, s.URL, opts)
	case Noise:
		return c.noise.connect(ctx, s.Registry, opts)
	case SSH:
		stderr := o.Stderr
		if stderr == nil {
			stderr = lineLog{o.Logger.With("environment", s.ID)}
		}
		return connectSSH(ctx, s.Host, stderr, opts)
	}
	command := execclient.Command{Path: s.Program, Args: s.Args, Dir: s.Dir, Stderr: o.Stderr}
	if s.Kind == Local {
		if !filepath.IsAbs(o.SelfExe) {
			return nil, ErrNoRuntime
		}
		command.Path, command.Args = o.SelfExe, []string{"exec-server", "--listen", "stdio", "--log-level", "warn"}
	}
	if len(s.Env) > 0 {
		command.Env = append(os.Environ(), s.Env...)
	}
	if command.Stderr == nil {
		command.Stderr = lineLog{o.Logger.With("environment", s.ID)}
	}
	return execclient.StartCommand(ctx, command, opts)
}

// lineLog writes what a program says to a log: a line, or what there is of it,
// is a record.
type lineLog struct{ log *slog.Logger }

func (l lineLog) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.log.Debug("stderr", "line", string(line))
		}
	}
	return len(text), nil
}
