package recovery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/testutil/natstest"
)

var (
	clusterSeed   = flag.Uint64("cluster.seed", 1, "decides which nodes connections come to")
	clusterRounds = flag.Int("cluster.rounds", 1, "in each round a node of the service and a server of NATS are killed; up to three are others than before")
)

const (
	clusterNodes = 3
	// Tests with the race detector, or with -short, use fewEnvironments.
	clusterEnvironments, fewEnvironments = 50, 10
	streamsPerEnvironment                = 4

	// settled is the number of blocks of each stream that must return after a node was killed,
	// before the next one is killed.
	settled = 40
	// clusterGap is the longest gap that the service promises. clusterPatience is the longest gap
	// that is accepted on a machine with other work.
	clusterGap, clusterPatience = 5 * time.Second, 15 * time.Second
	// clusterTime bounds the whole test.
	clusterTime = 5 * time.Minute
)

// cluster is a service of several nodes behind a balancer, with its clients and executors.
type cluster struct {
	t         *testing.T
	nats      natstest.Cluster
	nodes     []*harness.Service
	balancer  *balancer
	log       harness.Tail // log of the executors
	executors []func() error
	streams   []*clusterStream
}

// TestCluster: clients and executors meet at a service of three nodes and
// exchange data, while one of its nodes and one of its NATS servers are killed.
// Every byte arrives once and in order, and the gaps are short.
func TestCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
	defer cancel()
	environments := clusterEnvironments
	if testing.Short() || raceDetector {
		environments = fewEnvironments
	}
	c := &cluster{t: t, nats: natstest.StartCluster(t, clusterNodes)}
	defer c.close()
	tokens := c.start(ctx)
	c.populate(ctx, tokens, environments)

	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for _, s := range c.streams {
		running.Go(func() {
			if err := s.run(ctx, stop); err != nil {
				fail(err)
			}
		})
	}
	c.measure(ctx, "undisturbed", func() {})
	for round := range *clusterRounds {
		n := round % clusterNodes
		node, server := c.nodes[n], c.nats[n]
		c.measure(ctx, fmt.Sprintf("node %d killed", n+1), node.Kill)
		c.must(ctx, node.Start(ctx))
		c.measure(ctx, fmt.Sprintf("NATS server %d killed", n+1), server.Kill)
		server.Restart()
	}
	close(stop)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Errorf("%v; replay: go test -run '^TestCluster$' ./cmd/codex/e2e/recovery -cluster.seed=%d -cluster.rounds=%d", err, *clusterSeed, *clusterRounds)
	}
}

// start starts the nodes and the balancer in front of them.
func (c *cluster) start(ctx context.Context) (tokens string) {
	tokens = filepath.Join(c.t.TempDir(), "tokens.json")
	var addrs []string
	for range clusterNodes {
		node := &harness.Service{Args: []string{"--tokens", tokens, "--nats", c.nats.URLs()}}
		c.nodes = append(c.nodes, node)
		c.must(ctx, node.Start(ctx))
		addrs = append(addrs, node.Addr)
	}
	var err error
	c.balancer, err = newBalancer(ctx, *clusterSeed, addrs)
	c.must(ctx, err)
	return tokens
}

// populate creates environments, each with an executor and streams. Each has its own token, as the
// users of a shared service do.
func (c *cluster) populate(ctx context.Context, tokens string, environments int) {
	execute := harness.ExecutorInProcess(executionServer(c.t))
	url := "http://" + c.balancer.addr()
	for e := range environments {
		environment := fmt.Sprintf("env-%d", e)
		token := newToken(c.t, tokens, environment)
		stop, err := c.execute(ctx, execute, harness.ExecutorOptions{URL: url, Token: token, Environment: environment, Log: &c.log})
		c.must(ctx, err)
		c.executors = append(c.executors, stop)
		for n := range streamsPerEnvironment {
			s := &clusterStream{name: fmt.Sprintf("%s-%d", environment, n), seed: *clusterSeed<<16 | uint64(len(c.streams))}
			d, err := harness.NewRelayDialer(url, token, environment, slog.New(slog.DiscardHandler))
			c.must(ctx, err)
			c.must(ctx, s.connect(ctx, d))
			c.streams = append(c.streams, s)
		}
	}
}

// execute starts an executor in the same way as a supervisor. It restarts the executor while the
// service reports that its state is unavailable because JetStream elects a leader.
func (c *cluster) execute(ctx context.Context, execute harness.NewExecutor, o harness.ExecutorOptions) (stop func() error, err error) {
	for began := time.Now(); ; {
		stop, err = execute(ctx, o)
		if err == nil || !strings.Contains(err.Error(), "state_unavailable") || time.Since(began) > clusterPatience {
			return stop, err
		}
		c.t.Log(err)
	}
}

// close ends all clients, executors and nodes.
func (c *cluster) close() {
	var closing sync.WaitGroup
	for _, s := range c.streams {
		closing.Go(func() { _ = s.client.Close() })
	}
	closing.Wait()
	for _, stop := range c.executors {
		if err := stop(); err != nil {
			c.t.Errorf("executor: %v", err)
		}
	}
	if c.balancer != nil {
		c.balancer.close()
	}
	for _, n := range c.nodes {
		n.Kill()
	}
}

func (c *cluster) must(ctx context.Context, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(errors.Join(err, context.Cause(ctx)))
	}
}

// measure calls do, which disturbs the cluster, and prints the longest time without data for each
// stream from then on.
func (c *cluster) measure(ctx context.Context, what string, do func()) {
	c.t.Helper()
	recovered := c.recovered()
	for _, s := range c.streams {
		s.mark()
	}
	do()
	gaps := c.await(ctx, what)
	slices.Sort(gaps)
	at := func(percent int) time.Duration {
		return gaps[(len(gaps)-1)*percent/100].Round(time.Millisecond)
	}
	c.t.Logf("%s: longest time without data, of %d streams: median %v, 90%% %v, 99%% %v, all %v; %d sessions resumed, connections by node %v",
		what, len(gaps), at(50), at(90), at(99), at(100), c.recovered()-recovered, c.balancer.connections())
	switch longest := at(100); {
	case longest > clusterPatience:
		c.t.Errorf("%s: a stream got nothing for %v", what, longest)
	case longest > clusterGap:
		c.t.Logf("%s: that is more than the %v that the service promises", what, clusterGap)
	}
}

func (c *cluster) recovered() (n int64) {
	for _, s := range c.streams {
		n += s.recovered.Load()
	}
	return n
}

// await waits until every stream has received settled blocks. It returns the longest times without
// a block.
func (c *cluster) await(ctx context.Context, what string) []time.Duration {
	c.t.Helper()
	deadline := time.Now().Add(clusterPatience + 2*settled*blockPause)
	for {
		var gaps []time.Duration
		var waiting []string
		for _, s := range c.streams {
			back, gap := s.measured()
			gaps = append(gaps, gap)
			if back < settled {
				waiting = append(waiting, fmt.Sprintf("%s: %d blocks in all, none for %v, %v", s.name, back, gap, s.client.State()))
			}
		}
		switch {
		case len(waiting) == 0:
			return gaps
		case ctx.Err() != nil:
			c.t.Fatalf("%s: got %v, want ctx.Err() nil", what, context.Cause(ctx))
		case time.Now().After(deadline):
			c.t.Fatalf("%s: %d streams do not go on:\n%s\n%s", what, len(waiting), strings.Join(waiting[:min(len(waiting), 20)], "\n"), &c.log)
		}
		harness.Pause(ctx, blockPause)
	}
}

// newToken creates a token for both ends of an environment.
func newToken(t testing.TB, tokens, environment string) string {
	t.Helper()
	create := exec.Command(harness.Codex, "rendezvous", "token", "create", "--tokens", tokens, "--role", "both", "--environment", environment)
	token, err := create.Output()
	if err != nil {
		t.Fatalf("%v: got error %v, want no error", create, err)
	}
	return strings.TrimSpace(string(token))
}

// executionServer returns a server that ends with the test. The caller connects it.
func executionServer(t testing.TB) *execserver.Server {
	t.Helper()
	srv, err := execserver.New(execserver.Options{Process: process.Options{Cgroups: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return srv
}
