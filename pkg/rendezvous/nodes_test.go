package rendezvous_test

import (
	"context"
	"testing"

	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/rendezvous/natsbus"
	"codex.internal/pkg/testutil/natstest"
)

func init() {
	rendezvous.JoinNodes = func(t testing.TB) func() (rendezvous.State, rendezvous.Bus) {
		t.Helper()
		servers := natstest.Start(t).URL()
		return func() (rendezvous.State, rendezvous.Bus) { return join(t, servers) }
	}
	rendezvous.JoinCluster = func(t testing.TB) (func() (rendezvous.State, rendezvous.Bus), func()) {
		t.Helper()
		cluster := natstest.StartCluster(t, 3)
		next := 0
		return func() (rendezvous.State, rendezvous.Bus) {
			next++
			return join(t, cluster[next-1].URL()) // the others are found
		}, func() { cluster[next-1].Kill() }
	}
}

// join connects a node. The node ends with the test.
func join(t testing.TB, servers string) (rendezvous.State, rendezvous.Bus) {
	t.Helper()
	node, err := natsbus.Connect(context.Background(), natsbus.Options{Servers: servers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	return node.State, node.Bus
}
