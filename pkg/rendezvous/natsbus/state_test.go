package natsbus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/testutil/natstest"
)

// publicKey is a key that can be stored.
var publicKey = sync.OnceValue(func() noise.PublicKey {
	id, err := noise.GenerateIdentity()
	if err != nil {
		panic(err)
	}
	return id.PublicKey()
})

func registration(id, environment, token string) rendezvous.Registration {
	return rendezvous.Registration{
		ID: id, Environment: environment, Key: publicKey(), Token: token, Expires: time.Now().Add(rendezvous.ExecutorURLTime).UTC().Truncate(time.Second),
	}
}

func register(t testing.TB, n *Node, id, environment string) rendezvous.Registration {
	t.Helper()
	reg := registration(id, environment, "token")
	if err := n.State.Register(ctxOf(t), reg); err != nil {
		t.Fatal(err)
	}
	return reg
}

// connection is the connection of the executors in these tests. It ended at left.
var (
	connection = rendezvous.ExecutorConnection{Address: "192.0.2.1:4711", Since: time.Unix(1_800_000_000, 0).UTC(), Name: "box", Agent: "codex/1"}
	left       = connection.Since.Add(time.Hour)
)

func attach(t testing.TB, n *Node, id string) uint64 {
	t.Helper()
	generation, err := n.State.Attach(ctxOf(t), id, connection)
	if err != nil {
		t.Fatal(err)
	}
	return generation
}

// missing reports whether a registration does not exist.
func missing(t testing.TB, n *Node, id string) bool {
	t.Helper()
	_, err := n.State.Find(ctxOf(t), id)
	if err != nil && !errors.Is(err, rendezvous.ErrNotRegistered) {
		t.Fatal(err)
	}
	return err != nil
}

func TestNodesShareTheState(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	ctx := ctxOf(t)
	if a.State.Keys() != b.State.Keys() || a.State.Keys().URLs == a.State.Keys().Authorizations || a.State.Keys().URLs == [rendezvous.KeyBytes]byte{} {
		t.Error("the keys are not the same, or not good")
	}
	const environment = "üml [*] >"
	if _, err := b.State.Newest(ctx, environment); !errors.Is(err, rendezvous.ErrNotRegistered) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrNotRegistered)
	}
	reg := register(t, a, "r1", environment)
	if got, err := b.State.Newest(ctx, environment); err != nil || got != reg {
		t.Errorf("got %+v, error %v; want no error, %+v", got, err, reg)
	}
	if got, err := b.State.Find(ctx, "r1"); err != nil || got != reg {
		t.Errorf("got %+v, error %v; want no error, %+v", got, err, reg)
	}
	for _, id := range []string{"", "r2", "*", ">", "r1.", "r 1"} {
		if !missing(t, a, id) {
			t.Errorf("%q is there", id)
		}
	}
	listed := func(connected bool, seen *rendezvous.ExecutorConnection) {
		t.Helper()
		for _, n := range []*Node{a, b} {
			eventually(t, "it is listed", func() bool {
				list := n.State.List()
				return len(list) == 1 && list[0].Registration == reg && list[0].Connected == connected && reflect.DeepEqual(list[0].Connection, seen)
			})
		}
	}
	over := connection
	over.Until = left
	listed(false, nil)
	first := attach(t, b, "r1")
	listed(true, &connection)
	second := attach(t, a, "r1")
	if second <= first {
		t.Errorf("generation %d follows %d", second, first)
	}
	b.State.Detach(ctx, "r1", first, left) // does not exist any more
	listed(true, &connection)
	a.State.Detach(ctx, "r1", second, left)
	listed(false, &over)
	for _, n := range []*Node{a, b} {
		n.State.Sweep(ctx)
		if len(n.State.attached) != 0 {
			t.Errorf("%d are kept", len(n.State.attached))
		}
	}
}

func TestReplacedRegistration(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	ctx := ctxOf(t)
	register(t, a, "idle", "env")
	register(t, b, "connected", "env")
	if !missing(t, a, "idle") {
		t.Error("one that nobody is connected to is kept")
	}
	generation := attach(t, a, "connected")
	register(t, b, "newest", "env")
	if missing(t, b, "connected") {
		t.Error("one that is connected is forgotten")
	}
	if reg, err := a.State.Newest(ctx, "env"); err != nil || reg.ID != "newest" {
		t.Errorf(`got reg %+v, error %v; want no error, reg.ID "newest"`, reg, err)
	}
	a.State.Detach(ctx, "connected", generation, left)
	if !missing(t, b, "connected") {
		t.Error("it is kept after its end")
	}
	if _, err := a.State.Attach(ctx, "connected", connection); !errors.Is(err, rendezvous.ErrNotRegistered) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrNotRegistered)
	}
}

func TestSpentOnceAmongNodes(t *testing.T) {
	url := natstest.Start(t).URL()
	nodes := []*Node{join(t, url), join(t, url)}
	for i := range 20 {
		nonce := nodes[i%2].State.Nonce()
		var accepted atomic.Int32
		var asking sync.WaitGroup
		for _, n := range append(nodes, nodes...) {
			asking.Go(func() {
				ok, err := n.State.Spend(ctxOf(t), nonce, time.Now().Add(time.Minute))
				if err != nil {
					t.Error(err)
				}
				if ok {
					accepted.Add(1)
				}
			})
		}
		asking.Wait()
		if n := accepted.Load(); n != 1 {
			t.Errorf("accepted %d times", n)
		}
	}
}

// TestSpentByASlowClock: a nonce has expired by the clock of the node that remembers it, but may
// still be valid by the clock of the node that asks.
func TestSpentByASlowClock(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	nonce, until := a.State.Nonce(), time.Now()
	if ok, err := b.State.Spend(ctxOf(t), nonce, until); !ok || err != nil {
		t.Fatalf("got ok %v, error %v; want ok true, no error", ok, err)
	}
	for _, tt := range []struct {
		late time.Duration
		ok   bool
	}{{clockSkew - time.Second, false}, {clockSkew + time.Second, true}} {
		a.State.spent.Sweep(until.Add(tt.late))
		if ok, err := b.State.Spend(ctxOf(t), nonce, until); ok != tt.ok || err != nil {
			t.Errorf("after %v: %v, %v", tt.late, ok, err)
		}
	}
}

func TestNonceEndsWithItsNode(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	nonces := []string{b.State.Nonce(), "", "-", "*-x", "> -x", "unknown-x"}
	crash(b)
	for _, nonce := range nonces {
		eventually(t, "it is known that there is no such node", func() bool {
			ok, err := a.State.Spend(ctxOf(t), nonce, time.Now().Add(time.Minute))
			if ok {
				t.Errorf("%q: accepted", nonce)
			}
			return err == nil
		})
	}
}

// TestRace: nodes register and attach the same executor at the same time. At the end, one
// registration is the newest, and the last attachment has the highest generation.
func TestRace(t *testing.T) {
	url := natstest.Start(t).URL()
	nodes := []*Node{join(t, url), join(t, url)}
	var registering sync.WaitGroup
	for i, n := range nodes {
		for j := range 4 {
			registering.Go(func() { register(t, n, fmt.Sprintf("r%d-%d", i, j), "env") })
		}
	}
	registering.Wait()
	reg, err := nodes[0].State.Newest(ctxOf(t), "env")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := nodes[1].State.Newest(ctxOf(t), "env"); err != nil || again != reg {
		t.Errorf("got again %+v, error %v; want no error, again %+v", again, err, reg)
	}
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var attaching sync.WaitGroup
	for _, n := range append(nodes, nodes...) {
		attaching.Go(func() {
			generation, err := n.State.Attach(ctxOf(t), reg.ID, connection)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[generation] {
				t.Errorf("generation %d twice", generation)
			}
			seen[generation] = true
		})
	}
	attaching.Wait()
}

func TestLimits(t *testing.T) {
	n := join(t, natstest.Start(t).URL())
	for i := range rendezvous.TokenEnvironments {
		reg := registration(fmt.Sprint("r", i), fmt.Sprint("env", i), "one")
		if err := n.State.Register(ctxOf(t), reg); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are known", func() bool { return len(n.State.List()) == rendezvous.TokenEnvironments })
	try := func(id, environment, token string) error {
		return n.State.Register(ctxOf(t), registration(id, environment, token))
	}
	if err := try("x", "more", "one"); !errors.Is(err, rendezvous.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := try("y", "env0", "one"); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := try("z", "more", "two"); err != nil {
		t.Errorf("of another token: %v", err)
	}
	eventually(t, "that is known too", func() bool { return len(n.State.List()) == rendezvous.TokenEnvironments+1 })
	if err := try("w", "more", "one"); !errors.Is(err, rendezvous.ErrTooMany) {
		t.Errorf("taken from another token: %v", err)
	}
}

// TestLongNames uses names so long that NATS would end the connection because of the length of the
// line.
func TestLongNames(t *testing.T) {
	n := join(t, natstest.Start(t).URL())
	for _, size := range []int{maxAddress + 1, 5000, 60_000} {
		name := strings.Repeat("n", size)
		if _, err := n.State.Find(ctxOf(t), name); !errors.Is(err, rendezvous.ErrNotRegistered) {
			t.Errorf("find %d bytes: %v", size, err)
		}
		if ok, err := n.State.Spend(ctxOf(t), name, time.Now()); ok || err != nil {
			t.Errorf("spend %d bytes: %v, %v", size, ok, err)
		}
		if bound, err := n.Bus.Bound(ctxOf(t), name); bound || err != nil {
			t.Errorf("look for %d bytes: %v, %v", size, bound, err)
		}
		if _, err := n.Bus.Bind(ctxOf(t), name, 1, rendezvous.NewMailbox(1)); err == nil {
			t.Errorf("bind %d bytes", size)
		}
	}
	if err := n.State.Check(ctxOf(t)); err != nil {
		t.Error(err)
	}
}

// TestRenewal renews a registration that would expire, and removes the copies of an expired
// one.
func TestRenewal(t *testing.T) {
	url := natstest.Start(t).URL()
	a, b := join(t, url), join(t, url)
	ctx := ctxOf(t)
	register(t, a, "r1", "env")
	generation := attach(t, a, "r1")
	a.State.mu.Lock()
	a.State.attached["r1"].renewed = time.Now().Add(-2 * renewInterval)
	a.State.mu.Unlock()
	a.State.Sweep(ctx)
	if _, revision, err := b.State.read(ctx, "r1", leader); err != nil || revision <= generation {
		t.Errorf("revision %d, %v", revision, err)
	}
	// The generation still belongs to the connection.
	a.State.Detach(ctx, "r1", generation, left)
	rec, _, err := b.State.read(ctx, "r1", leader)
	if err != nil || rec.Node != "" {
		t.Errorf(`got rec %+v, error %v; want no error, rec.Node ""`, rec, err)
	}
	// A copy from the time before the connection is not connected either.
	eventually(t, "b knows it", func() bool {
		b.State.mu.Lock()
		defer b.State.mu.Unlock()
		c := b.State.copied["r1"]
		return c != nil && c.Node == "" && c.Expires.Equal(rec.Expires)
	})
	b.State.mu.Lock()
	b.State.forgetCopies(rec.Expires.Add(-time.Second))
	kept := len(b.State.copied)
	b.State.forgetCopies(rec.Expires)
	left := len(b.State.copied) + len(b.State.newest)
	b.State.mu.Unlock()
	if kept != 1 || left != 0 {
		t.Errorf("%d before it has expired, %d after", kept, left)
	}
}

// TestDetachDuringRenewal: a connection ends just after its registration has
// been renewed.
func TestDetachDuringRenewal(t *testing.T) {
	n := join(t, natstest.Start(t).URL())
	ctx := ctxOf(t)
	register(t, n, "r1", "env")
	generation := attach(t, n, "r1")
	a := n.State.attached["r1"]
	rec, revision, err := n.State.read(ctx, "r1", leader)
	if err != nil {
		t.Fatal(err)
	}
	if revision, err = n.State.write(ctx, rec, revision); err != nil {
		t.Fatal(err)
	}
	n.State.Detach(ctx, "r1", generation, left)
	n.State.noteRenewed(ctx, "r1", a, revision, time.Now())
	if rec, _, err := n.State.read(ctx, "r1", leader); err != nil || rec.Node != "" {
		t.Errorf("it counts as connected to %q, %v", rec.Node, err)
	}
}

// TestAttachedAtOnce: two connections of an executor begin at the same time, and the newer one is
// recorded first. The end of the newer one must be recorded.
func TestAttachedAtOnce(t *testing.T) {
	n := join(t, natstest.Start(t).URL())
	n.State.noteAttached("id", 2)
	n.State.noteAttached("id", 1)
	if a := n.State.attached["id"]; a.generation != 2 {
		t.Errorf("generation %d", a.generation)
	}
}

// TestDetachWithoutNATS: the end of a connection is recorded when NATS is available again.
func TestDetachWithoutNATS(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	n := join(t, s.URL())
	register(t, n, "r1", "env")
	generation := attach(t, n, "r1")
	s.Kill()
	began := time.Now()
	n.State.Detach(ctxOf(t), "r1", generation, left)
	if _, err := n.State.Newest(ctxOf(t), "env"); !errors.Is(err, rendezvous.ErrUnavailable) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrUnavailable)
	}
	if err := n.State.Register(ctxOf(t), registration("r2", "env", "token")); !errors.Is(err, rendezvous.ErrUnavailable) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrUnavailable)
	}
	if err := n.State.Check(ctxOf(t)); !errors.Is(err, rendezvous.ErrUnavailable) {
		t.Errorf("got error %v, want %v", err, rendezvous.ErrUnavailable)
	}
	if took := time.Since(began); took > 5*callTime {
		t.Errorf("it took %v", took)
	}
	s.Restart()
	eventually(t, "it is noted", func() bool {
		n.State.Sweep(ctxOf(t))
		rec, _, err := n.State.read(ctxOf(t), "r1", leader)
		return err == nil && rec.Node == ""
	})
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	n := join(t, c[0].URL()) // the others are found
	for _, name := range []string{bucketService, bucketRegistrations} {
		info, err := n.State.registrations.js.StreamInfo("KV_" + name)
		if err != nil || info.Config.Replicas != defaultReplicas {
			t.Errorf("%s: got info %+v, error %v; want no error, info.Config.Replicas %v", name, info, err, defaultReplicas)
		}
	}
	// The state survives the loss of any server.
	register(t, n, "r1", "env")
	c[0].Kill()
	began := time.Now()
	eventually(t, "it can be read", func() bool { _, err := n.State.Find(ctxOf(t), "r1"); return err == nil })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it could not be read for %v", took)
	}
	// An election takes the servers several seconds.
	eventually(t, "it can be changed", func() bool { return n.State.Check(ctxOf(t)) == nil })
	t.Logf("it could be changed after %v", time.Since(began))
	register(t, n, "r2", "env")
}

func TestConnectRefusals(t *testing.T) {
	for _, servers := range []string{"", "http://h", "nats://", "nats://user:secret@[", ":"} {
		_, err := Connect(ctxOf(t), Options{Servers: servers})
		if err == nil {
			t.Errorf("%q is accepted", servers)
		} else if text := err.Error(); len(text) == 0 || containsSecret(text) {
			t.Errorf("%q: got error %v; want len(text) other than 0, not containsSecret(text)", servers, err)
		}
	}
}

// The files are not used for a connection, and errors do not contain their content.
func TestFilesOfNoUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(file, []byte("-----BEGIN USER NKEY SEED-----\nSUsecret\n------END USER NKEY SEED------\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{Credentials: file}, "credentials: "},
		{Options{Credentials: missing}, "credentials: "},
		{Options{CA: file}, "has no PEM certificate"},
		{Options{CA: missing}, "certificates: "},
	} {
		tt.opts.Servers = "nats://127.0.0.1:1"
		ctx, cancel := context.WithTimeout(t.Context(), startTime/3)
		defer cancel()
		_, err := Connect(ctx, tt.opts)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "SUsecret") {
			t.Errorf(`%s: got error %v; want ctx.Err() nil, an error with %q, an error without "SUsecret"`, tt.want, err, tt.want)
		}
	}
}
