//go:build linux

package execenv_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/wire/websocket"
)

// meetingPlace is a registry with its relay and an executor. It collects the keys of the
// harnesses that connect.
type meetingPlace struct {
	execenv.Registry
	stop func() // ends the executor's server, which loses its sessions

	mu   sync.Mutex
	keys []noise.PublicKey
}

func newMeetingPlace(t *testing.T) *meetingPlace {
	t.Helper()
	tokens := rendezvous.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
	token, _, err := tokens.Create(t.Context(), rendezvous.TokenSpec{Role: rendezvous.RoleBoth, Environments: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	service, err := rendezvous.New(t.Context(), rendezvous.Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(service)
	t.Cleanup(func() {
		_ = service.Shutdown(context.Background())
		web.Close()
	})
	p := &meetingPlace{Registry: execenv.Registry{URL: web.URL, EnvironmentID: "ci-1", Token: execenv.Secret(token)}}
	p.serve(t)
	return p
}

// serve runs an executor until the test ends or stop is called.
func (p *meetingPlace) serve(t *testing.T) {
	t.Helper()
	client, err := registry.New(registry.Options{BaseURL: p.URL, Authorizer: registry.Bearer(string(p.Token), "")})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := noise.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := execserver.New(execserver.Options{SessionTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	registered := make(chan struct{})
	executor := relay.NewExecutor(relay.ExecutorOptions{
		Identity: identity,
		Register: func(ctx context.Context) (relay.Registration, error) {
			r, err := client.Register(ctx, p.EnvironmentID, identity.PublicKey())
			return relay.Registration{URL: r.URL, EnvironmentID: p.EnvironmentID, RegistrationID: r.ID}, err
		},
		Validate: func(ctx context.Context, registration string, key noise.PublicKey, authorization string) (*registry.Grant, error) {
			p.mu.Lock()
			p.keys = append(p.keys, key)
			p.mu.Unlock()
			return client.Validate(ctx, p.EnvironmentID, registry.Claim{RegistrationID: registration, HarnessKey: key, Authorization: authorization})
		},
		Serve:     func(c websocket.Transport) { _ = srv.ServeConn(c) },
		Connected: sync.OnceFunc(func() { close(registered) }),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- executor.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, srv.Shutdown(context.Background())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	select {
	case <-registered:
	case err := <-done:
		done <- err
		t.Fatalf("the executor ends with %v", err)
	}
}

func TestNoise(t *testing.T) {
	p := newMeetingPlace(t)
	e := get(t, open(t, execenv.Options{}, execenv.Spec{ID: "remote", Kind: execenv.Noise, Registry: p.Registry}), "remote")
	info, err := e.Info(t.Context())
	if err != nil || info.Shell.Path == "" {
		t.Fatalf(`got info %+v, error %v; want no error, info.Shell.Path other than ""`, info, err)
	}
	// Another executor does not know the session: the client fails, and the next one connects
	// with the same key.
	first, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.serve(t)
	<-first.Done()
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := len(p.keys) - 1; last == 0 || p.keys[0] != p.keys[last] {
		t.Errorf("%d handshakes, not with one key", len(p.keys))
	}
}

// TestBlanksAroundAnID: both ends of the handshake ignore them.
func TestBlanksAroundAnID(t *testing.T) {
	r := newMeetingPlace(t).Registry
	r.EnvironmentID = " " + r.EnvironmentID + "\t"
	e := get(t, open(t, execenv.Options{}, execenv.Spec{ID: "remote", Kind: execenv.Noise, Registry: r}), "remote")
	if err := e.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoiseRefusals(t *testing.T) {
	p := newMeetingPlace(t)
	for _, test := range []struct {
		name   string
		change func(*execenv.Registry)
		want   string
	}{
		{"token", func(r *execenv.Registry) { r.Token += "x" }, "exec-server connection attempt failed: environment registry authentication error: environment registry authentication failed (401 Unauthorized): the token is unknown, revoked or expired"},
		{"environment", func(r *execenv.Registry) { r.EnvironmentID = "ci-2" }, "exec-server connection attempt failed: environment registry request failed (503 Service Unavailable, environment_not_registered): no executor has registered environment \"ci-2\""},
		{"URL", func(r *execenv.Registry) { r.URL = "ftp://x" }, "exec-server connection attempt failed: environment registry configuration error: environment registry base URL ftp://x: expected http://HOST or https://HOST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := p.Registry
			test.change(&r)
			e := get(t, open(t, execenv.Options{}, execenv.Spec{ID: "remote", Kind: execenv.Noise, Registry: r}), "remote")
			if err := e.WaitReady(t.Context()); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestTokensAreNotSentInTheClear(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, tt := range []struct {
		url     string
		refused bool
	}{
		{"http://192.0.2.1:1", true},
		{" http://r.invalid ", true},
		{"http://localhost.invalid", true},
		{"http://localhost:1", false},
		{"http://127.8.9.1:1", false},
		{"http://[::1]:1", false},
		{"https://127.0.0.1:1", false},
	} {
		e := get(t, open(t, execenv.Options{}, execenv.Spec{ID: "remote", Kind: execenv.Noise, Registry: execenv.Registry{URL: tt.url, EnvironmentID: "e", Token: "t"}}), "remote")
		_, err := e.Client(t.Context())
		var config *registry.ConfigError
		if err == nil || errors.As(err, &config) != tt.refused {
			t.Errorf("%s: got error %v; want an error, errors.As(err, &config) %v", tt.url, err, tt.refused)
		}
	}
}
