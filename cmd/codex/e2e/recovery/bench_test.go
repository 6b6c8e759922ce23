package recovery

import (
	"iter"
	"slices"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/faultproxy"
)

// calm is slightly longer than the minimal lifetime of a connection after which the client
// reconnects at once.
const calm = 1100 * time.Millisecond

// BenchmarkRecovery measures the time from the cut of a connection to the next event of a process,
// which echoes input that is sent after the cut. Each iteration takes more than a second, so
// -benchtime=20x is enough.
func BenchmarkRecovery(b *testing.B) {
	ctx := b.Context()
	proxy, err := faultproxy.New(ctx, inProcess(b), faultproxy.Plan{})
	benchOK(b, err)
	defer proxy.Close()
	client, err := execclient.DialWebSocket(ctx, "ws://"+proxy.Addr(), execclient.Options{})
	benchOK(b, err)
	defer client.Close()
	measureCuts(b, client, func() error { proxy.Cut(); return nil })
}

func benchOK(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// measureCuts measures the time from the beginning of a cut until the process has answered the
// input that is sent after the cut.
func measureCuts(b *testing.B, client *execclient.Client, cut func() error) {
	ctx := b.Context()
	p, err := client.Start(ctx, execproto.StartParams{
		ProcessID: "p", Argv: []string{"cat"}, Cwd: "file:///", PipeStdin: true,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	})
	benchOK(b, err)
	next, stop := iter.Pull2(p.Events(ctx))
	defer stop()
	ask := func() {
		_, err := p.Write(ctx, []byte("x"))
		benchOK(b, err)
		_, err, _ = next()
		benchOK(b, err)
	}
	ask() // after this, each end knows that the other acknowledges
	var took []time.Duration
	for range b.N {
		b.StopTimer()
		time.Sleep(calm) // otherwise the client's reconnection pause would be part of the measurement
		b.StartTimer()
		began := time.Now()
		benchOK(b, cut())
		ask()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/slowest")
	b.ReportMetric(0, "ns/op")
}
