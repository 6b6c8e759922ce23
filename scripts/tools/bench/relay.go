package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
)

// relayed measures our server through our rendezvous service, and compares it with a direct
// connection to the same program (raw), both with our client.
type relayed struct {
	b         *bench
	processes []*exec.Cmd
	logs      sync.WaitGroup // reads the output of the processes, until they end
	direct    *server
	ways      []way // nil: no row of the relay is requested
}

// way is a connection to a server, and its column of the table.
type way struct {
	column string
	client *execclient.Client
}

// relayMetric is work that is measured over both ways.
type relayMetric struct {
	row   row
	times int
	run   func(ctx context.Context, c *execclient.Client) error
}

func relayMetrics(z sizes, dir string) []relayMetric {
	return []relayMetric{
		{row{"relay: getMetadata", "ms", aim{}}, 200, func(ctx context.Context, c *execclient.Client) error {
			_, err := c.FS().Stat(ctx, filepath.Join(dir, "small"))
			return err
		}},
		{row{fmt.Sprintf("relay: output of a pipe, %d MiB", z.stream>>20), "ms", aim{}}, 1, func(ctx context.Context, c *execclient.Client) error {
			return produce(ctx, c, z.stream)
		}},
		{row{fmt.Sprintf("relay: readFile %d MiB", z.file>>20), "ms", aim{}}, 1, func(ctx context.Context, c *execclient.Client) error {
			data, err := c.FS().ReadFile(ctx, filepath.Join(dir, "large"))
			if err == nil && len(data) != z.file {
				err = fmt.Errorf("got %d bytes, want %d", len(data), z.file)
			}
			return err
		}},
	}
}

// produce runs a command that writes n bytes and counts them.
func produce(ctx context.Context, c *execclient.Client, n int) error {
	cmd := c.CommandContext(ctx, "head", "-c", strconv.Itoa(n), "/dev/zero")
	var got counter
	cmd.Stdout = &got
	if err := cmd.Run(); err != nil {
		return err
	}
	if int(got) != n {
		return fmt.Errorf("got %d bytes, want %d", int(got), n)
	}
	return nil
}

// counter counts the bytes written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// relay starts the service and an executor of ours, and connects both ways.
func (b *bench) relay(ctx context.Context) (*relayed, error) {
	q := &relayed{b: b}
	if !slices.ContainsFunc(relayMetrics(b.z, ""), func(m relayMetric) bool { return b.wants(m.row.name) }) {
		return q, nil
	}
	ours := b.servers[0]
	q.direct = &server{name: ours.name, path: ours.path, home: ours.home, dir: ours.dir}
	err := q.start(ctx, ours)
	if err != nil {
		q.close()
	}
	return q, err
}

func (q *relayed) start(ctx context.Context, ours *server) error {
	tokens := filepath.Join(ours.home, "tokens.json")
	secrets := map[string]string{}
	for _, role := range []string{"executor", "harness"} {
		out, err := exec.CommandContext(ctx, ours.path, "rendezvous", "token", "create", "--tokens", tokens, "--role", role, "--environment", "*").Output()
		if err != nil {
			return fmt.Errorf("create a token for the %s: %w", role, err)
		}
		secrets[role] = strings.TrimSpace(string(out))
	}
	service := exec.Command(ours.path, "rendezvous", "--listen", "127.0.0.1:0", "--tokens", tokens, "--log-level", "error")
	url, err := q.launch(ours, service, &service.Stdout, "")
	if err != nil {
		return fmt.Errorf("codex rendezvous does not say where it listens: %w", err)
	}
	const id = "bench"
	executor := exec.Command(ours.path, "exec-server", "--remote", url, "--environment-id", id, "--log-level", "info")
	executor.Env = []string{"CODEX_API_KEY=" + secrets["executor"]}
	if _, err := q.launch(ours, executor, &executor.Stderr, "connected to the relay"); err != nil {
		return fmt.Errorf("codex exec-server --remote is not connected: %w", err)
	}
	if err := q.direct.start(); err != nil {
		return err
	}
	client, err := registry.New(registry.Options{BaseURL: url, Authorizer: registry.Bearer(secrets["harness"], "")})
	if err != nil {
		return err
	}
	identity, err := noise.GenerateIdentity()
	if err != nil {
		return err
	}
	through, err := execclient.Dial(ctx, execclient.DialerOf(relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: func(ctx context.Context) (relay.Bundle, error) {
		c, err := client.Connect(ctx, id, identity.PublicKey())
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: id, RegistrationID: c.RegistrationID},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}})), execclient.Options{})
	if err != nil {
		return err
	}
	q.ways = append(q.ways, way{oursColumn, through})
	direct, err := execclient.DialWebSocket(ctx, q.direct.url, execclient.Options{})
	if err != nil {
		return err
	}
	q.ways = append(q.ways, way{rawColumn, direct})
	return nil
}

// launch starts a program and returns the first line that contains text. The program writes the
// line to output, one of its streams. The rest of that stream is read and dropped.
func (q *relayed) launch(ours *server, cmd *exec.Cmd, output *io.Writer, text string) (string, error) {
	cmd.Env = append(append(os.Environ(), "HOME="+ours.home, "CODEX_HOME="+ours.home), cmd.Env...)
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	*output = w
	err = launch(cmd)
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return "", err
	}
	q.processes = append(q.processes, cmd)
	said := bufio.NewReader(r)
	line, err := lineOf(cmd, said, text)
	q.logs.Go(func() {
		_, _ = io.Copy(io.Discard, said)
		_ = r.Close()
	})
	return line, err
}

func (q *relayed) close() {
	for _, w := range q.ways {
		_ = w.client.Close()
	}
	if q.direct != nil {
		q.direct.stop()
	}
	for _, cmd := range slices.Backward(q.processes) {
		finish(cmd)
	}
	q.logs.Wait()
}

// round measures everything once, alternating between the ways.
func (q *relayed) round(ctx context.Context, round int) error {
	for _, m := range relayMetrics(q.b.z, q.b.servers[0].dir) {
		if len(q.ways) == 0 || !q.b.wants(m.row.name) {
			continue
		}
		for i := range m.times {
			for j := range q.ways {
				w := q.ways[(i+j+round)%len(q.ways)]
				took, err := timed(func() error { return m.run(ctx, w.client) })
				if err != nil {
					return fmt.Errorf("%s, %s: %w", m.row.name, w.column, err)
				}
				q.b.add(m.row, w.column, took)
			}
		}
	}
	return nil
}
