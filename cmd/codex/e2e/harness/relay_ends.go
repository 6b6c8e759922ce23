package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// NewExecutor starts an executor and returns when it is connected. stop ends it.
type NewExecutor func(context.Context, ExecutorOptions) (stop func() error, err error)

// ExecutorOptions describe where an executor registers.
type ExecutorOptions struct {
	URL, Token, Environment string
	Log                     io.Writer
}

// ExecutorInProcess returns a function that starts executors in the test process, so that the race
// detector sees both ends.
func ExecutorInProcess(srv *execserver.Server) NewExecutor {
	return func(ctx context.Context, o ExecutorOptions) (func() error, error) {
		identity, err := noise.GenerateIdentity()
		if err != nil {
			return nil, err
		}
		calls := new(http.Transport)
		reg, err := registry.New(registry.Options{BaseURL: o.URL, Authorizer: registry.Bearer(o.Token, ""), Transport: calls})
		if err != nil {
			return nil, err
		}
		connected := make(chan struct{}, 1)
		executor := relay.NewExecutor(relay.ExecutorOptions{
			Identity: identity,
			Logger:   slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("end", "executor"),
			Register: func(ctx context.Context) (relay.Registration, error) {
				r, err := reg.Register(ctx, o.Environment, identity.PublicKey())
				return relay.Registration{URL: r.URL, EnvironmentID: o.Environment, RegistrationID: r.ID}, err
			},
			Validate: func(ctx context.Context, registrationID string, harness noise.PublicKey, authorization string) (*registry.Grant, error) {
				return reg.Validate(ctx, o.Environment, registry.Claim{RegistrationID: registrationID, HarnessKey: harness, Authorization: authorization})
			},
			Serve:     func(c websocket.Transport) { _ = srv.ServeConn(c) },
			Connected: func() { notify(connected) },
		})
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = executor.Run(ctx)
		}()
		stop := func() error {
			cancel()
			<-done
			calls.CloseIdleConnections()
			return err
		}
		return stop, awaitConnected(connected, done, stop)
	}
}

// awaitConnected waits until an executor is connected. If that fails, it stops the executor.
func awaitConnected(connected, done <-chan struct{}, stop func() error) error {
	select {
	case <-connected:
		return nil
	case <-done:
		return errors.Join(errors.New("the executor has ended"), stop())
	case <-time.After(Patience):
		return errors.Join(fmt.Errorf("the executor is not connected after %v", Patience), stop())
	}
}

// NewRelayDialer returns a dialer of streams to an environment, with a harness of its own.
func NewRelayDialer(url, token, environment string, log *slog.Logger) (execclient.Dialer, error) {
	identity, err := noise.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	reg, err := registry.New(registry.Options{
		BaseURL: url, Authorizer: registry.Bearer(token, ""), Transport: &http.Transport{DisableKeepAlives: true},
	})
	if err != nil {
		return nil, err
	}
	connect := func(ctx context.Context) (relay.Bundle, error) {
		c, err := reg.Connect(ctx, environment, identity.PublicKey())
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: environment, RegistrationID: c.RegistrationID},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}
	return execclient.DialerOf(relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: connect, Logger: log})), nil
}

// Pause waits for d. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
