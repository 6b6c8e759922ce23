package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/account/signin"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// checkRemote checks the options of a server that registers instead of listening. Its errors use
// the words of Codex CLI.
func checkRemote(c *cli.Context) error {
	if cmdutil.IsSet(c, "remote") && cmdutil.IsSet(c, "listen") {
		return cmdutil.Usagef("the argument '--remote <URL>' cannot be used with '--listen <URL>'%s", remoteUsage(c))
	}
	var needed []neededFlag
	switch {
	case c.Bool("use-agent-identity-auth") || c.Bool("registration-bearer-stdin"):
		needed = []neededFlag{{"environment-id", "ID"}, {"remote", "URL"}}
	case cmdutil.IsSet(c, "remote"):
		needed = []neededFlag{{"environment-id", "ID"}}
	}
	return checkRegistration(c, remoteUsage(c), needed...)
}

// neededFlag is a required option, and the name of its value.
type neededFlag struct{ name, value string }

// checkRegistration checks the options for registering. Its errors use the words of Codex CLI, and
// end with usage.
func checkRegistration(c *cli.Context, usage string, needed ...neededFlag) error {
	if c.Bool("registration-bearer-stdin") && c.Bool("use-agent-identity-auth") {
		return cmdutil.Usagef("the argument '--registration-bearer-stdin' cannot be used with '--use-agent-identity-auth'%s", usage)
	}
	var missing []string
	for _, flag := range needed {
		if !cmdutil.IsSet(c, flag.name) {
			missing = append(missing, "  --"+flag.name+" <"+flag.value+">")
		}
	}
	if len(missing) > 0 {
		return cmdutil.Usagef("the following required arguments were not provided:\n%s%s", strings.Join(missing, "\n"), usage)
	}
	return nil
}

// remoteUsage names the missing options, and then the given ones in the order of the command line.
// Codex CLI uses the same order.
func remoteUsage(c *cli.Context) string {
	flags := []string{"--environment-id <ID>", "--remote <URL>"}
	if cmdutil.IsSet(c, "remote") && cmdutil.IsSet(c, "environment-id") {
		slices.Reverse(flags)
	}
	if cmdutil.IsSet(c, "name") {
		flags = append(flags, "--name <NAME>")
	}
	if c.Bool("use-agent-identity-auth") {
		flags = append(flags, "--use-agent-identity-auth")
	}
	if c.Bool("registration-bearer-stdin") {
		flags = append(flags, "--registration-bearer-stdin")
	}
	return "\n\nUsage: codex exec-server " + strings.Join(flags, " ") + "\n\nFor more information, try '--help'."
}

// remoteFront registers at the environment registry that --remote names.
func remoteFront(c *cli.Context, s cmdutil.Streams, opts execserver.Options, log *slog.Logger) (front, error) {
	if opts.Auth != nil {
		return front{}, cmdutil.Usagef("--ws-auth is for a server that listens; with --remote the registry decides who may connect")
	}
	r, err := newRegistrar(c, s, log)
	if err != nil {
		return front{}, err
	}
	r.sessionTTL = opts.SessionTTL
	return front{serve: func(ctx context.Context, srv *execserver.Server, ready func()) error {
		r.counts = srv.Remote()
		return r.serve(ctx, ready, func(conn websocket.Transport) {
			if err := srv.ServeConn(conn); err != nil {
				log.Debug("connection ended", "error", err)
			}
		})
	}}, nil
}

// newRegistrar returns a registrar for the options of a command. The registrar is ready to
// register.
func newRegistrar(c *cli.Context, s cmdutil.Streams, log *slog.Logger) (*registrar, error) {
	if cmdutil.IsSet(c, "rendezvous-token-file") {
		switch {
		case c.String("rendezvous-token-file") == "":
			return nil, cmdutil.Usagef("--rendezvous-token-file is empty; leave it out or give it a value")
		case c.Bool("registration-bearer-stdin"), c.Bool("use-agent-identity-auth"):
			return nil, cmdutil.Usagef("--rendezvous-token-file cannot be used with --registration-bearer-stdin or --use-agent-identity-auth")
		}
	}
	// The token in the environment with which the server was started stays in /proc/PID/environ, and all credentials stay in its
	// memory. Commands of the same user must not read them there (TestTokenIsKeptFromCommands).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("keep the credentials from other processes: prctl: %w", err)
	}
	var bearer signin.Secret
	if c.Bool("registration-bearer-stdin") {
		var err error
		if bearer, err = signin.ReadBearer(s.In); err != nil {
			return nil, err
		}
	}
	config, err := cmdutil.LoadConfig(c)
	if err != nil {
		return nil, err
	}
	transport, err := httpclient.New(os.Getenv)
	if err != nil {
		return nil, err
	}
	r := &registrar{
		url: strings.TrimSpace(c.String("remote")), environment: strings.TrimSpace(c.String("environment-id")),
		agent: c.Bool("use-agent-identity-auth"), bearer: bearer, tokenFile: c.String("rendezvous-token-file"), description: describe(c), log: log, transport: transport, tls: transport.TLSClientConfig.Clone(),
	}
	if err := r.prepare(c.Context, config, takeSecrets()); err != nil {
		transport.CloseIdleConnections()
		err = adviseRegistration(err)
		if cmdutil.AdviceOn(err) == "" && !strings.Contains(r.url, "://") {
			err = cmdutil.WithAdvice(err, wantURL)
		}
		return nil, err
	}
	return r, nil
}

// describe returns the description of this server for a rendezvous service. It returns nil if no description is sent.
func describe(c *cli.Context) http.Header {
	if c.Bool("no-description") {
		return nil
	}
	name := strings.TrimSpace(c.String("name"))
	if name == "" {
		name, _ = os.Hostname() // without a name, the status page shows none
	}
	return relay.Description{Name: name, Agent: cmdutil.UserAgent("codex-exec-server")}.Header()
}

const wantURL = "give --remote https://HOST:PORT"

// adviseRegistration adds a remedy to the error of a server that could not register.
func adviseRegistration(err error) error {
	const variable = "CODEX_RENDEZVOUS_TOKEN"
	switch {
	case errors.Is(err, signin.ErrNotSignedIn), errors.Is(err, signin.ErrAPIKeyHost):
		return cmdutil.WithAdvice(err, "for codex rendezvous set "+variable+" to a token: on its machine, run codex rendezvous token create --role executor")
	case errors.Is(err, signin.ErrPlaintext):
		return cmdutil.WithAdvice(err, wantURL)
	default:
		return cmdutil.WithAdvice(err, cmdutil.RegistryHint(err, "executor", variable))
	}
}

// takeSecrets returns a function that reads variables of the original environment. It removes the credentials for
// registering from the environment, because commands must not get them.
func takeSecrets() func(name string) string {
	taken := make(map[string]string)
	for _, name := range signin.Variables {
		taken[name] = os.Getenv(name)
		_ = os.Unsetenv(name) // the name is valid
	}
	return func(name string) string {
		if value, ok := taken[name]; ok {
			return value
		}
		return os.Getenv(name)
	}
}

// maxTokenFile bounds the file of --rendezvous-token-file, in bytes: a token has less than 100.
const maxTokenFile = 4 << 10

// registrar registers a server at an environment registry, and serves the clients that connect through its relay.
type registrar struct {
	url, environment string
	agent            bool          // sign in as an agent
	tokenFile        string        // sign in with the token in this file; empty: no file
	sessionTTL       time.Duration // how long a refused server tries again: after that time the sessions without a client have ended
	bearer           signin.Secret // sign in with this token; empty: no token
	description      http.Header   // see describe
	log              *slog.Logger
	transport        *http.Transport
	tls              *tls.Config     // TLS configuration for the relay; may be nil
	counts           *observe.Remote // set before serve; nil: metrics are off

	credentials signin.Resolver
	client      *registry.Client
	identity    *noise.Identity

	mu         sync.Mutex
	credential signin.Credential
	registered bool      // registered at least once, with credentials that were valid then
	refused    time.Time // the time since which the credentials are refused; zero: they are valid
	// sendsGrants means that the service that registered the server reports what a client's token permits.
	sendsGrants bool
}

// prepare loads the credentials and checks the other requirements of registering.
func (r *registrar) prepare(ctx context.Context, config home.Config, getenv func(string) string) error {
	dir, err := home.Find()
	if err != nil {
		return err
	}
	store, err := signin.OpenStore(config.CredentialsStore, dir, func(text string) { r.log.Warn(text) })
	if err != nil {
		return err
	}
	r.credentials = signin.Resolver{
		Getenv: getenv, Store: store, ChatGPTBaseURL: config.ChatGPTBaseURL, Log: r.log,
		Authority: signin.NewAuthority(signin.AuthorityOptions{Getenv: getenv, Transport: r.transport, Version: cmdutil.Version()}),
	}
	if r.credential, err = r.resolve(ctx); err != nil {
		return err
	}
	if r.environment == "" {
		return &registry.ConfigError{Message: "environment id is required for remote exec-server registration"}
	}
	if r.client, err = registry.New(registry.Options{BaseURL: r.url, Authorizer: r, Transport: r.transport}); err != nil {
		return err
	}
	r.identity, err = noise.GenerateIdentity()
	return err
}

func (r *registrar) resolve(ctx context.Context) (signin.Credential, error) {
	switch {
	case r.bearer != "":
		return signin.BearerRegistration(r.bearer, r.url)
	case r.tokenFile != "":
		token, err := safeopen.ReadPrivate(r.tokenFile, maxTokenFile)
		if err != nil {
			return nil, fmt.Errorf("--rendezvous-token-file: %w", err)
		}
		if token = bytes.TrimSpace(token); len(token) == 0 {
			return nil, fmt.Errorf("--rendezvous-token-file: %s is empty: write a token of the rendezvous service into it", r.tokenFile)
		}
		return signin.RendezvousRegistration(signin.Secret(token), r.url)
	case r.agent:
		return r.credentials.AgentRegistration(ctx)
	}
	return r.credentials.Registration(ctx, r.url)
}

// Authorize implements registry.Authorizer.
func (r *registrar) Authorize(ctx context.Context, header http.Header) error {
	r.mu.Lock()
	credential := r.credential
	r.mu.Unlock()
	return credential.Authorize(ctx, header)
}

// serve connects to the relay until ctx ends, and serves each stream.
func (r *registrar) serve(ctx context.Context, ready func(), stream func(websocket.Transport)) error {
	defer r.transport.CloseIdleConnections()
	options := relay.ExecutorOptions{
		Identity: r.identity, Register: r.register, Validate: r.validate, Serve: stream, Connected: ready, TLS: r.tls, Logger: r.log,
	}
	if r.counts != nil {
		options.Connected = func() { r.counts.Connected(); ready() }
		options.Disconnected = r.counts.Disconnected
	}
	err := relay.NewExecutor(options).Run(ctx)
	r.mu.Lock()
	mode := r.credential.Mode()
	r.mu.Unlock()
	if cmdutil.FromRegistry(err) && mode != signin.ModeRendezvous && mode != signin.ModeAPIKey {
		return err // the registry is not a rendezvous service, so a token of one would not help
	}
	return adviseRegistration(err)
}

// register registers the server's key at the registry.
func (r *registrar) register(ctx context.Context) (relay.Registration, error) {
	var made registry.Registration
	err := r.ask(ctx, func() (err error) {
		made, err = r.client.Register(ctx, r.environment, r.identity.PublicKey())
		return err
	})
	if r.counts != nil {
		r.counts.Registered(err)
	}
	if err != nil {
		return relay.Registration{}, r.tryAgain(err)
	}
	r.mu.Lock()
	r.refused = time.Time{}
	r.registered, r.sendsGrants = true, made.SendsGrants
	r.mu.Unlock()
	r.log.Info("registered", "environment", r.environment, "registration", made.ID)
	registration := relay.Registration{URL: made.URL, EnvironmentID: r.environment, RegistrationID: made.ID}
	if made.AcceptsDescription {
		registration.Header = r.description
	}
	return registration, nil
}

// tryAgain makes the error of a registration retryable if the service has refused credentials that were valid before, and the
// server has tried for less than the lifetime of sessions. Scenario: an operator revokes the token. If the operator then puts
// another token into the file, the server registers again. If the operator wants the server to end, its commands still continue
// for as long as after any other lost connection.
func (r *registrar) tryAgain(err error) error {
	var refused interface{ Unauthorized() bool }
	if !errors.As(err, &refused) || !refused.Unauthorized() {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused.IsZero() {
		r.refused = time.Now()
	}
	if !r.registered || time.Since(r.refused) >= r.sessionTTL {
		return err
	}
	return &refusedError{err}
}

// refusedError is the error of a registration that will be tried again.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// Retryable reports that another attempt may succeed.
func (e *refusedError) Retryable() bool { return true }

// validate asks the registry whether a harness may connect, and what its token permits.
func (r *registrar) validate(ctx context.Context, registration string, harness noise.PublicKey, authorization string) (grant *registry.Grant, err error) {
	r.mu.Lock()
	claim := registry.Claim{RegistrationID: registration, HarnessKey: harness, Authorization: authorization, AcceptsGrant: r.sendsGrants}
	r.mu.Unlock()
	err = r.ask(ctx, func() (err error) {
		grant, err = r.client.Validate(ctx, r.environment, claim)
		return err
	})
	return grant, err
}

// ask calls question. If the registry refuses the credentials, ask reads them again, because the user may have
// signed in again. If they have changed, it calls question once more.
func (r *registrar) ask(ctx context.Context, question func() error) error {
	r.mu.Lock()
	former := r.credential // the credentials that question used, or older ones
	r.mu.Unlock()
	err := question()
	var refused interface{ Unauthorized() bool }
	if !errors.As(err, &refused) || !refused.Unauthorized() {
		return err
	}
	r.mu.Lock()
	were := r.registered
	r.mu.Unlock()
	if !were {
		return err
	}
	credential, renewErr := r.resolve(ctx)
	if renewErr != nil {
		r.log.Warn("the registry refused the credentials, and no others are stored", "error", renewErr)
		return err
	}
	if signin.Same(credential, former) {
		return err
	}
	r.mu.Lock()
	r.credential = credential
	r.mu.Unlock()
	return question()
}
