//go:build linux

package roles

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// shortUser is a user of which no other test has processes: RLIMIT_NPROC counts all of a user.
const shortUser = 61234

// TestShortages: a server that has no more descriptors refuses starts and file requests
// with what is lacking, goes on, and takes new work when some was ended. Many ask at once.
func TestShortages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as a user who has no other processes, and may have few")
	}
	harness.NeedSandbox(t)
	for name, tt := range map[string]struct{ limit, want string }{
		"descriptors": {"ulimit -n 100", "too many open files"},
	} {
		for kind, sandbox := range map[string]object{"free": nil, "sandboxed": managed()} {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newWorld(t, "auto", &syscall.Credential{Uid: shortUser, Gid: shortUser})
				token := w.token("--role", "run")
				w.limit = tt.limit
				server := w.serve()
				c := w.client(token)
				kept, refusals := w.startUntilRefused(c, sandbox)
				for _, err := range refusals {
					if !strings.Contains(err.Error(), tt.want) {
						t.Errorf("a start is refused with %v, want %q", err, tt.want)
					}
				}
				t.Logf("%d processes run, %d were refused", len(kept), len(refusals))
				if err := server.Process.Signal(syscall.Signal(0)); err != nil {
					t.Fatalf("the server has ended: %v", err)
				}
				w.requestAllKinds(c, sandbox)
				for _, p := range kept {
					_, err := p.Terminate(t.Context())
					harness.Must(t, err)
					_, err = p.WaitClosed(t.Context())
					harness.Must(t, err)
					p.Release()
				}
				// What was ended may take a moment to leave the kernel's count.
				harness.Eventually(t, "a refusal after some were ended", func() []string {
					if out, code, err := run(t.Context(), w.client(token), w.params(fmt.Sprint("after", nextID()), sandbox, "echo ran")); err != nil || out != "ran\n" {
						return []string{fmt.Sprint(out, code, err)}
					}
					return nil
				})
			})
		}
	}
}

var ids sync.Mutex
var lastID int

// nextID returns a number that no process has.
func nextID() int {
	ids.Lock()
	defer ids.Unlock()
	lastID++
	return lastID
}

// startUntilRefused starts processes, several at a time, until some are refused.
func (w *world) startUntilRefused(c *execclient.Client, sandbox object) (kept []*execclient.Process, refusals []error) {
	var mu sync.Mutex
	for range 20 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				p, err := c.Start(w.t.Context(), w.params(fmt.Sprint("p", nextID()), sandbox, "exec sleep 1000"))
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
		if len(refusals) > 4 {
			return kept, refusals
		}
	}
	w.t.Fatalf("%d processes run, and none was refused", len(kept))
	return nil, nil
}

// requestAllKinds makes file requests, which may fail, and must be answered.
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
