package execenv

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// noiseOpener opens sessions through a registry, with one identity that is made or read on
// first use.
type noiseOpener struct {
	keys     string // see Options.ClientKeys
	optional bool   // see Options.ClientKeysOptional
	agent    string // see Options.UserAgent
	harness  *relay.Harness
	states   stateMerger
}

func (n *noiseOpener) connect(ctx context.Context, r Registry, opts execclient.Options) (*execclient.Client, error) {
	dialer, err := n.dialer(r, opts.Logger)
	if err != nil {
		return nil, err
	}
	if opts.OnStateChange != nil {
		opts.OnStateChange = n.states.start(opts.OnStateChange)
	}
	return execclient.Dial(ctx, dialer, opts)
}

// dialer returns the dialer of streams, all with the same identity.
func (n *noiseOpener) dialer(r Registry, log *slog.Logger) (execclient.Dialer, error) {
	if n.harness == nil {
		var err error
		if r.Token, err = r.token(); err != nil {
			return nil, err
		}
		identity, err := n.identity(r, log)
		if err != nil {
			return nil, err
		}
		if n.harness, err = newHarness(r, identity, n.agent, log, n.states.linkChanged); err != nil {
			return nil, err
		}
	}
	return execclient.DialerOf(n.harness), nil
}

// identity returns the key of the client for an environment.
func (n *noiseOpener) identity(r Registry, log *slog.Logger) (*noise.Identity, error) {
	id, err := clientIdentity(n.keys, r)
	if err != nil && n.optional {
		log.Warn("the server will not recognize this client later", "reason", err)
		return noise.GenerateIdentity()
	}
	return id, err
}

// token returns the token, which may be in a file.
func (r Registry) token() (Secret, error) {
	if r.TokenFile == "" {
		return r.Token, nil
	}
	return readToken(r.TokenFile)
}

// readToken reads a file with a token.
func readToken(path string) (Secret, error) {
	text, err := safeopen.ReadFile(path, maxTokenBytes)
	if err != nil {
		return "", fmt.Errorf("read token_file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("token_file %s is empty", path)
	}
	return Secret(token), nil
}

// stateMerger combines the states of a client and of the websocket below its stream. A stream
// may wait long for a new websocket; meanwhile the client has no state to report, but the user
// should see one.
type stateMerger struct {
	mu     sync.Mutex
	report func(execclient.StateChange) // nil: states are not reported
	client execclient.State
	last   execclient.State
}

// start begins with a new client and returns the callback for its states.
func (m *stateMerger) start(report func(execclient.StateChange)) func(execclient.StateChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report, m.client, m.last = report, execclient.Connected, execclient.Connected
	return m.clientChanged
}

func (m *stateMerger) clientChanged(change execclient.StateChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.client = change.State
	m.notify(change)
}

func (m *stateMerger) linkChanged(lost error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.client != execclient.Connected: // the client's own state takes precedence
	case lost != nil:
		m.notify(execclient.StateChange{State: execclient.Recovering, Err: lost})
	default:
		m.notify(execclient.StateChange{State: execclient.Connected})
	}
}

// notify reports a state if it is new. The lock is held.
func (m *stateMerger) notify(change execclient.StateChange) {
	if m.report != nil && change.State != m.last {
		m.last = change.State
		m.report(change)
	}
}

func newHarness(r Registry, identity *noise.Identity, agent string, log *slog.Logger, onLink func(error)) (*relay.Harness, error) {
	if inTheClear(r.URL) {
		return nil, &registry.ConfigError{Message: "the token of an environment registry is sent only over https, or to a loopback address"}
	}
	transport, err := httpclient.New(os.Getenv)
	if err != nil {
		return nil, err
	}
	if r.CA != "" {
		if transport.TLSClientConfig, err = (TLSFiles{CA: r.CA}).config(); err != nil {
			return nil, err
		}
	}
	// The environment makes one request per connection. Keeping an HTTP connection open is not
	// worth it, and it would have to be closed.
	transport.DisableKeepAlives = true
	client, err := registry.New(registry.Options{
		BaseURL: r.URL, Authorizer: registry.Bearer(string(r.Token), r.AccountID), Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	id := strings.TrimSpace(r.EnvironmentID) // executors register the trimmed id
	connect := func(ctx context.Context) (relay.Bundle, error) {
		c, err := client.Connect(ctx, id, identity.PublicKey())
		var header http.Header
		if c.AcceptsDescription {
			header = relay.Description{Agent: agent}.Header()
		}
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: id, RegistrationID: c.RegistrationID, Header: header},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}
	return relay.NewHarness(relay.HarnessOptions{
		Identity: identity, Connect: connect, OnLink: onLink, TLS: transport.TLSClientConfig.Clone(), Logger: log,
	}), nil
}

// inTheClear reports whether requests to a registry would not be encrypted on a network. It is
// false for an invalid URL, which the registry client refuses.
func inTheClear(base string) bool {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Scheme != "http" {
		return false
	}
	return !websocket.IsLoopback(u.Hostname())
}
