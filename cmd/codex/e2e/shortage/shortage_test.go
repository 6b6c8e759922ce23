package shortage

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
)

// TestForkBomb: a command without a sandbox raises its limit as far as it can, and then uses all processes that
// commands may have. The server continues. It starts commands, which cannot fork, and answers all requests that
// need no process. It retains sessions and detached processes, and ends the command when its client requests that.
func TestForkBomb(t *testing.T) {
	for _, s := range shortages {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(s.limit)
			bomb := w.params(w.Self())
			w.survive(bomb, w.detachedWorks(w.client()))
		})
	}
}

// TestForkBombInASandbox is TestForkBomb for a command in a sandbox. Meanwhile sandboxed commands run, or are refused
// with an error that names the shortage. Sandboxed requests are answered.
func TestForkBombInASandbox(t *testing.T) {
	harness.NeedSandbox(t)
	for _, s := range shortages {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(s.limit)
			x := w.confined(w.client())
			bomb := w.params(w.Self())
			bomb.Sandbox = execclient.ReadOnlySandbox()
			w.survive(bomb, []*work{{name: "sandboxed start", do: x.start}, {name: "sandboxed fs/readFile", do: x.readFile}})
			x.told()
		})
	}
}

// survive runs clients while a fork bomb uses all processes. more is further work for the clients.
func (w *world) survive(bomb execproto.StartParams, more []*work) {
	w.t.Helper()
	l := w.busy(true, more...)
	defer l.stop()
	c := w.client()
	kept := w.start(c, "/bin/cat")
	w.bombed(bomb, l, c)
	w.awaitStart(c)
	w.answers(kept)
	l.awaitProgress()
	l.stop()
	w.lives()
	w.t.Logf("the server has %s, and did %v", w.threads(), l.counts())
}

// bombed starts a fork bomb. It ends the bomb when no command could fork for a while.
func (w *world) bombed(bomb execproto.StartParams, l *load, c *execclient.Client) {
	w.t.Helper()
	bomb.Env[bombVariable] = "1"
	p, err := c.Start(w.t.Context(), bomb)
	harness.Must(w.t, err)
	began := time.Now()
	w.awaitFull(c)
	full := time.Now()
	for range testutil.Rounds(1, 5, 8) {
		l.awaitProgress()
		w.awaitFull(c)
	}
	w.t.Logf("all processes were taken after %v; the clients went on for %v", full.Sub(began), time.Since(full))
	ended := time.Now()
	_, err = p.Terminate(w.t.Context())
	harness.Must(w.t, err)
	_, err = p.WaitClosed(w.t.Context())
	harness.Must(w.t, err)
	w.t.Logf("it was ended in %v", time.Since(ended))
}

// enoughFailures is the number of commands in a row that must fail to fork. Then the bomb has taken all processes.
const enoughFailures = 10

// awaitFull starts commands that fork until enoughFailures in a row have failed to. Each command must run, or be
// refused with an error that names the shortage.
func (w *world) awaitFull(c *execclient.Client) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*harness.Patience)
	defer cancel()
	for failed := 0; failed < enoughFailures; {
		params := w.params(w.Self())
		params.Env[forkVariable] = "1"
		p, err := c.Start(ctx, params)
		if isTooMany(err) {
			failed++
			continue
		}
		harness.Must(w.t, err)
		end, err := p.Stream(ctx, io.Discard, io.Discard)
		harness.Must(w.t, err)
		p.Release()
		if failed++; end.Code == 0 {
			failed = 0
		}
	}
}

// awaitStart waits until the server can start a program.
func (w *world) awaitStart(c *execclient.Client) {
	w.t.Helper()
	harness.Eventually(w.t, "refusal after the bomb was ended", func() []string {
		p, err := c.Start(w.t.Context(), w.params("/bin/echo", "ran"))
		if err != nil {
			return []string{err.Error()}
		}
		defer p.Release()
		var out strings.Builder
		if end, err := p.Stream(w.t.Context(), &out, io.Discard); err != nil || end.Code != 0 || out.String() != "ran\n" {
			return []string{fmt.Sprint(out.String(), end.Code, err)}
		}
		return nil
	})
}

// answers checks that a process that was started earlier still runs, with its input and output.
func (w *world) answers(p *execclient.Process) {
	w.t.Helper()
	if _, err := p.Write(w.t.Context(), []byte("still here\n")); err != nil {
		w.t.Fatalf("a process from before takes no input: %v", err)
	}
	harness.Must(w.t, p.CloseStdin(w.t.Context()))
	var out strings.Builder
	if _, err := p.Stream(w.t.Context(), &out, io.Discard); err != nil || out.String() != "still here\n" {
		w.t.Errorf("a process from before has printed %q: %v", out.String(), err)
	}
}

// lives checks that the server is still the process that was started.
func (w *world) lives() {
	w.t.Helper()
	if stat, gone := testutil.Gone(w.server.Process.Pid); gone {
		w.t.Errorf("the server has ended: %s", stat)
	}
	if log := w.log.String(); strings.Contains(log, "runtime:") || strings.Contains(log, "goroutine ") {
		w.t.Errorf("the server's log has errors of the Go runtime")
	}
}

// threads returns the number of the server's threads.
func (w *world) threads() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "Threads:"); ok {
			return strings.TrimSpace(n) + " threads"
		}
	}
	return "ended"
}
