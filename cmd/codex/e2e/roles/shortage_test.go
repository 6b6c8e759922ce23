package roles

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil"
)

// fewDescriptors is the number of descriptors that the server of TestDescriptorsRunOut may have:
// enough to start some tens of processes.
const fewDescriptors = 100

// TestDescriptorsRunOut: a server without free descriptors refuses starts with an error that names
// the shortage. It answers file requests and continues to run. It accepts new starts when processes
// have ended. Several starts arrive at a time.
func TestDescriptorsRunOut(t *testing.T) {
	eachWorld(t, func(w *world) {
		token := w.token("--role", "run")
		w.descriptors = fewDescriptors
		server := w.serve()
		w.exhaust(token, nil)
		w.exhaust(token, managed())
		if stat, gone := testutil.Gone(server.Process.Pid); gone {
			w.t.Errorf("the server has ended: %s", stat)
		}
	})
}

// exhaust starts processes until the server has no free descriptors, ends them, and starts another
// one.
func (w *world) exhaust(token string, sandbox object) {
	w.t.Helper()
	ctx, c := w.t.Context(), w.client(token)
	kept, refusals := w.startUntilRefused(c, sandbox)
	for _, err := range refusals {
		if !strings.Contains(err.Error(), "too many open files") {
			w.t.Errorf("a start is refused with %v", err)
		}
	}
	w.t.Logf("sandboxed %v: %d processes run, %d were refused", sandbox != nil, len(kept), len(refusals))
	w.requestAllKinds(c, sandbox)
	for _, p := range kept {
		_, err := p.Terminate(ctx)
		harness.Must(w.t, err)
		_, err = p.WaitClosed(ctx)
		harness.Must(w.t, err)
		p.Release()
	}
	// The server closes the last descriptors of a process after it has sent process/closed.
	harness.Eventually(w.t, "a refusal after all were ended", func() []string {
		if out, code, err := run(ctx, c, w.params(newID(), sandbox, "echo ran")); err != nil || out != "ran\n" {
			return []string{fmt.Sprint(out, code, err)}
		}
		return nil
	})
}

var lastID atomic.Int64

// newID returns an id that no other process has.
func newID() string { return fmt.Sprint("p", lastID.Add(1)) }

// startsAtOnce is the number of concurrent starts of startUntilRefused. It stops after
// enoughRefusals, or after mostRounds, which start more processes than fewDescriptors permit.
const startsAtOnce, enoughRefusals, mostRounds = 8, 5, 20

// startUntilRefused starts processes, several at a time, until some are refused.
func (w *world) startUntilRefused(c *execclient.Client, sandbox object) (kept []*execclient.Process, refusals []error) {
	var mu sync.Mutex
	for range mostRounds {
		var wg sync.WaitGroup
		for range startsAtOnce {
			wg.Go(func() {
				p, err := c.Start(w.t.Context(), w.params(newID(), sandbox, "exec sleep 1000"))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refusals = append(refusals, err)
				} else {
					kept = append(kept, p)
				}
			})
		}
		wg.Wait()
		if len(refusals) >= enoughRefusals {
			return kept, refusals
		}
	}
	w.t.Fatalf("%d processes run, and none was refused", len(kept))
	return nil, nil
}

// requestAllKinds makes file requests of all kinds. They may fail but must be answered.
func (w *world) requestAllKinds(c *execclient.Client, sandbox object) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Patience)
	defer cancel()
	f := c.FS()
	if sandbox != nil {
		f = f.WithSandbox(raw(w.t, sandbox))
	}
	for _, a := range readAttacks {
		if _, err := a.try(ctx, f, w.ws+"/f"); ctx.Err() != nil {
			w.t.Errorf("%s is not answered: %v", a.name, err)
		}
	}
	if _, err := c.EnvironmentInfo(ctx); err != nil {
		w.t.Errorf("the server does not answer: %v", err)
	}
}
