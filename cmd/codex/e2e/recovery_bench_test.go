//go:build linux

package e2e

import (
	"iter"
	"slices"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/faultproxy"
)

// calm is a little more than what a connection must have lasted for the client
// to try at once to come back.
const calm = 1100 * time.Millisecond

// BenchmarkRecovery measures the time from the cut of a connection to the next
// event of a process, which answers what it is sent after the cut. Each takes
// more than a second, so -benchtime=20x is enough.
func BenchmarkRecovery(b *testing.B) {
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := b.Context()
	proxy, err := faultproxy.New(ctx, inProcess(b), faultproxy.Plan{})
	ok(err)
	defer proxy.Close()
	client, err := execclient.DialWebSocket(ctx, "ws://"+proxy.Addr(), execclient.Options{})
	ok(err)
	defer client.Close()
	p, err := client.Start(ctx, execproto.StartParams{
		ProcessID: "p", Argv: []string{"cat"}, Cwd: "file:///", PipeStdin: true,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	})
	ok(err)
	next, stop := iter.Pull2(p.Events(ctx))
	defer stop()
	var took []time.Duration
	for range b.N {
		b.StopTimer()
		time.Sleep(calm)
		b.StartTimer()
		began := time.Now()
		proxy.Cut()
		_, err := p.Write(ctx, []byte("x"))
		ok(err)
		_, err, _ = next()
		ok(err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/slowest")
	b.ReportMetric(0, "ns/op")
}
