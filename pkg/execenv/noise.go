package execenv

import (
	"context"
	"log/slog"
	"os"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/httpclient"
	"codex.internal/pkg/noiseik"
	"codex.internal/pkg/registry"
	"codex.internal/pkg/relay"
)

// harness makes the streams of a Noise environment. All come from one identity,
// which is made when it is first needed.
type harness struct{ made *relay.Harness }

// dialer returns what connects to the environment that a registry knows.
func (h *harness) dialer(r Registry, log *slog.Logger) (execclient.Dialer, error) {
	if h.made == nil {
		made, err := newHarness(r, log)
		if err != nil {
			return nil, err
		}
		h.made = made
	}
	return noiseDialer{h.made}, nil
}

func newHarness(r Registry, log *slog.Logger) (*relay.Harness, error) {
	transport, err := httpclient.New(os.Getenv)
	if err != nil {
		return nil, err
	}
	// A request per connection to the environment is too few to keep one of
	// HTTP open, which somebody would have to close.
	transport.DisableKeepAlives = true
	client, err := registry.New(registry.Options{
		BaseURL: r.URL, Authorizer: registry.Bearer(string(r.Token), r.AccountID), Transport: transport,
	})
	if err != nil {
		return nil, err
	}
	identity, err := noiseik.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	connect := func(ctx context.Context) (relay.Bundle, error) {
		c, err := client.Connect(ctx, r.EnvironmentID, identity.PublicKey())
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: r.EnvironmentID, RegistrationID: c.RegistrationID},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}
	return relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: connect, TLS: transport.TLSClientConfig.Clone(), Logger: log}), nil
}

// noiseDialer is a harness as a client wants it.
type noiseDialer struct{ *relay.Harness }

// Dial implements execclient.Dialer.
func (d noiseDialer) Dial(ctx context.Context) (execclient.Transport, error) {
	conn, err := d.Harness.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}
