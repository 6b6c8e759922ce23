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
	"codex.internal/pkg/testutil"
)

// TestForkBomb: a command without a sandbox takes all processes of the server's user or cgroup. The server
// refuses starts and says why, answers all that needs no process, keeps sessions and detached processes, ends the command when
// its client asks for that, and starts processes again then.
func TestForkBomb(t *testing.T) {
	for _, s := range shortages {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(s.limit)
			w.survive(w.detachedWorks(w.client()))
		})
	}
}

// TestForkBombWithSandboxes: the server says so, too, if a program gets no thread that makes a sandbox or reads a file
// in one.
func TestForkBombWithSandboxes(t *testing.T) {
	harness.NeedSandbox(t)
	for _, s := range shortages {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(s.limit)
			x := w.confined(w.client())
			w.survive([]*work{{name: "sandboxed start", do: x.start}, {name: "sandboxed fs/readFile", do: x.readFile}})
			x.told()
		})
	}
}

// survive has clients at work, those of more among them, while a fork bomb takes all processes.
func (w *world) survive(more []*work) {
	w.t.Helper()
	l := w.busy(true, more...)
	defer l.stop()
	c := w.client()
	kept := w.start(c, "/bin/cat")
	w.bombed(l, c)
	w.awaitStart(c)
	w.answers(kept)
	l.awaitProgress()
	l.stop()
	w.lives()
	w.t.Logf("the server has %s, and did %v", w.threads(), l.counts())
}

// bombed starts a fork bomb, and ends it when clients have been refused for a while.
func (w *world) bombed(l *load, c *execclient.Client) {
	w.t.Helper()
	params := w.params(w.Self())
	params.Env[bombVariable] = "1"
	p, err := c.Start(w.t.Context(), params)
	harness.Must(w.t, err)
	began := time.Now()
	w.awaitRefusals(c)
	full := time.Now()
	for range testutil.Rounds(1, 5, 20) {
		l.awaitProgress()
		w.awaitRefusals(c)
	}
	w.t.Logf("all processes were taken after %v; the clients went on for %v", full.Sub(began), time.Since(full))
	ended := time.Now()
	_, err = p.Terminate(w.t.Context())
	harness.Must(w.t, err)
	_, err = p.WaitClosed(w.t.Context())
	harness.Must(w.t, err)
	w.t.Logf("it was ended in %v", time.Since(ended))
}

// enoughRefusals is how many starts in a row must be refused until the bomb has taken everything.
const enoughRefusals = 10

// awaitRefusals starts programs until enoughRefusals in a row are refused. Each must either run, or be refused
// with an error that says what is lacking.
func (w *world) awaitRefusals(c *execclient.Client) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*harness.Patience)
	defer cancel()
	for refused := 0; refused < enoughRefusals; {
		p, err := c.Start(ctx, w.params("/bin/true"))
		switch {
		case err == nil:
			refused = 0
			p.Release()
		case isTooMany(err):
			refused++
		default:
			w.t.Fatalf("a start is refused with: %v", err)
		}
	}
}

// awaitStart waits until a program runs.
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

// answers checks that a process that was started before runs on, with its input and output.
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

// threads returns how many threads the server has.
func (w *world) threads() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.server.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "Threads:"); ok {
			return strings.TrimSpace(n) + " threads"
		}
	}
	return "ended"
}
