package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/rendezvous"
)

// relayed measures our server behind a relay, beside the same server that is
// reached directly, each with our client: in the table raw is the direct way.
type relayed struct {
	b       *bench
	service *service
	direct  *server
	ways    []*way
}

// way is a way to a server: a client, and many.
type way struct {
	column string
	one    *execclient.Client
	many   []*execclient.Client
}

// relay starts what is measured.
func (b *bench) relay(ctx context.Context) (*relayed, error) {
	q := &relayed{b: b}
	var ours *server
	for _, s := range b.servers {
		if s.name == "ours" {
			ours = s
		}
	}
	wanted := false
	for _, r := range relayRows(b.z) {
		wanted = wanted || b.wants(r.name)
	}
	if ours == nil || !wanted {
		return q, nil
	}
	q.direct = &server{name: ours.name, path: ours.path, home: ours.home, dir: ours.dir}
	err := q.start(ctx, ours)
	if err != nil {
		q.close()
	}
	return q, err
}

func (q *relayed) start(ctx context.Context, ours *server) (err error) {
	if q.service, err = startService(ours); err != nil {
		return err
	}
	e, err := q.service.environment(ctx)
	if err != nil {
		return err
	}
	if err := e.start(); err != nil {
		return err
	}
	if err := q.direct.start(); err != nil {
		return err
	}
	dialers, err := e.dialers(ctx, q.b.z.streams+1)
	if err != nil {
		return err
	}
	ways := []struct {
		column string
		dial   func(ctx context.Context, stream int) (*execclient.Client, error)
	}{
		{"ours", func(ctx context.Context, stream int) (*execclient.Client, error) {
			return execclient.Dial(ctx, dialers[stream/streamsOfToken], execclient.Options{})
		}},
		{"raw", func(ctx context.Context, _ int) (*execclient.Client, error) {
			return execclient.DialWebSocket(ctx, q.direct.url, execclient.Options{})
		}},
	}
	for _, w := range ways {
		to := &way{column: w.column}
		q.ways = append(q.ways, to)
		if to.one, err = w.dial(ctx, 0); err != nil {
			return fmt.Errorf("%s: %w", w.column, err)
		}
		for i := range q.b.z.streams {
			c, err := w.dial(ctx, i+1)
			if err != nil {
				return fmt.Errorf("%s, stream %d: %w", w.column, len(to.many), err)
			}
			to.many = append(to.many, c)
			// The registry allows a token so many questions in a second.
			if err := sleep(ctx, callPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// callPause keeps below what the registry allows.
const callPause = 25 * time.Millisecond

func (q *relayed) close() {
	for _, w := range q.ways {
		for _, c := range append(w.many, w.one) {
			if c != nil {
				_ = c.Close()
			}
		}
	}
	if q.direct != nil {
		q.direct.stop()
	}
	if q.service != nil {
		q.service.stop()
	}
}

// service is a running rendezvous service.
type service struct {
	codex, home  string
	cmd          *exec.Cmd
	url          string
	tokens       *rendezvous.TokenFile
	environments []*environment
}

// environment is one of the service, and the tokens of its ends.
type environment struct {
	s                 *service
	id                string
	executor, harness string
	cmd               *exec.Cmd
	log               sync.WaitGroup // reads what cmd says, until its end
}

// startService starts a service with the program of a server.
func startService(like *server) (*service, error) {
	s := &service{codex: like.path, home: like.home, tokens: rendezvous.OpenTokens(filepath.Join(like.home, "tokens.json"))}
	s.cmd = exec.Command(s.codex, "rendezvous", "--listen", "127.0.0.1:0", "--tokens", s.tokens.Path(), "--log-level", "error")
	s.cmd.Env = s.environ()
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := launch(s.cmd); err != nil {
		return nil, err
	}
	if s.url, err = lineOf(s.cmd, bufio.NewReader(out), ""); err != nil {
		s.stop()
		return nil, fmt.Errorf("codex rendezvous does not say where it listens: %w", err)
	}
	return s, nil
}

func (s *service) environ(more ...string) []string {
	return append(append(os.Environ(), "HOME="+s.home, "CODEX_HOME="+s.home), more...)
}

func (s *service) stop() {
	for _, e := range s.environments {
		e.stop()
	}
	finish(s.cmd)
}

// environment makes one with tokens of its own, because what the service allows
// it allows per token.
func (s *service) environment(ctx context.Context) (*environment, error) {
	e := &environment{s: s, id: fmt.Sprintf("bench-%d", len(s.environments))}
	for secret, role := range map[*string]rendezvous.Role{&e.executor: rendezvous.RoleExecutor, &e.harness: rendezvous.RoleHarness} {
		var err error
		if *secret, _, err = s.tokens.Create(ctx, rendezvous.TokenSpec{Role: role, Environments: []string{"*"}}); err != nil {
			return nil, err
		}
	}
	s.environments = append(s.environments, e)
	return e, nil
}

// start starts the environment's server and waits until it is connected.
func (e *environment) start() error {
	cmd := exec.Command(e.s.codex, "exec-server", "--remote", e.s.url, "--environment-id", e.id, "--log-level", "info")
	cmd.Env = e.s.environ("CODEX_API_KEY=" + e.executor)
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := launch(cmd); err != nil {
		return err
	}
	e.cmd = cmd
	said := bufio.NewReader(out)
	if _, err := lineOf(cmd, said, "connected to the relay"); err != nil {
		return fmt.Errorf("codex exec-server --remote is not connected: %w", err)
	}
	e.log.Go(func() { _, _ = io.Copy(io.Discard, said) })
	return nil
}

// stop ends the environment's server, if it has been started.
func (e *environment) stop() {
	if e.cmd != nil {
		finish(e.cmd)
		e.log.Wait()
		e.cmd = nil
	}
}

// streamsOfToken is how many streams each harness of dialers makes. A token may not have
// more of an environment's 128 streams than are left: one alone gets 64, and the next
// would be reset.
const streamsOfToken = 16

// dialers makes as many harnesses as so many streams need, each with a token of its own.
func (e *environment) dialers(ctx context.Context, n int) ([]execclient.Dialer, error) {
	var list []execclient.Dialer
	for len(list)*streamsOfToken < n {
		token, _, err := e.s.tokens.Create(ctx, rendezvous.TokenSpec{Role: rendezvous.RoleHarness, Environments: []string{"*"}})
		if err != nil {
			return nil, err
		}
		to, err := e.dialer(token)
		if err != nil {
			return nil, err
		}
		list = append(list, to)
	}
	return list, nil
}

// dialer makes streams to the environment, as one harness with a token.
func (e *environment) dialer(token string) (execclient.Dialer, error) {
	identity, client, err := e.s.registry(token)
	if err != nil {
		return nil, err
	}
	return execclient.DialerOf(relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: func(ctx context.Context) (relay.Bundle, error) {
		c, err := client.Connect(ctx, e.id, identity.PublicKey())
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: e.id, RegistrationID: c.RegistrationID},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}})), nil
}

// registry returns a new identity and a client of the service.
func (s *service) registry(token string) (*noise.Identity, *registry.Client, error) {
	client, err := registry.New(registry.Options{BaseURL: s.url, Authorizer: registry.Bearer(token, "")})
	if err != nil {
		return nil, nil, err
	}
	identity, err := noise.GenerateIdentity()
	return identity, client, err
}
