package shortage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// tooMany is a part of each error of an operation that needs a process when no process can be started.
const tooMany = "too many processes"

// confined starts sandboxed commands and makes sandboxed file requests. Each succeeds, is refused with an
// error about too many processes, or ends with a refusal of the sandbox.
type confined struct {
	w               *world
	c               *execclient.Client
	path            string // path of a file to read
	refused, notRun atomic.Int64

	mu   sync.Mutex
	ends []string // reported ends of the commands that have not run
}

func (w *world) confined(c *execclient.Client) *confined {
	path := filepath.Join(w.workspace, "confined")
	harness.Must(w.t, os.WriteFile(path, []byte("text"), 0o644))
	return &confined{w: w, c: c, path: path}
}

// start starts a sandboxed command.
func (x *confined) start(ctx context.Context) error {
	params := x.w.params("/bin/echo", "ran")
	params.Sandbox = execclient.ReadOnlySandbox()
	p, err := x.c.Start(ctx, params)
	if err != nil {
		return x.refusal(err)
	}
	defer p.Release()
	var out, errs strings.Builder
	end, err := p.Stream(ctx, &out, &errs)
	switch {
	case err != nil:
		return err
	case end.Code == 0 && out.String() == "ran\n":
	case end.Code != 0 && out.String() == "":
		x.notRun.Add(1)
		x.mu.Lock()
		x.ends = append(x.ends, fmt.Sprintf("%d: %.300s", end.Code, errs.String()))
		x.mu.Unlock()
	default:
		return fmt.Errorf("a sandboxed command has printed %q and %.300q, and ended with %d", out.String(), errs.String(), end.Code)
	}
	return nil
}

// readFile makes a sandboxed file request.
func (x *confined) readFile(ctx context.Context) error {
	text, err := x.c.FS().WithSandbox(execclient.ReadOnlySandbox()).ReadFile(ctx, x.path)
	if err != nil {
		return x.refusal(err)
	}
	if string(text) != "text" {
		return fmt.Errorf("a sandboxed request has read %q", text)
	}
	return nil
}

// isTooMany reports whether an error is about too many processes.
func isTooMany(err error) bool { return err != nil && strings.Contains(err.Error(), tooMany) }

// refusal returns nil for an error that names the shortage.
func (x *confined) refusal(err error) error {
	if isTooMany(err) {
		x.refused.Add(1)
		return nil
	}
	return err
}

// told checks that the server has reported each sandboxed command that did not run, and has counted
// all refusals.
func (x *confined) told() {
	x.w.t.Helper()
	metrics, err := harness.Metrics(x.w.url)
	harness.Must(x.w.t, err)
	if n, told := x.notRun.Load(), metrics["exec_server_sandbox_refusals_total"]; told != float64(n) {
		x.w.t.Errorf("%d sandboxed commands have not run, and the server has told of %v: they have ended with %q", n, told, x.ends)
	}
	if n, counted := x.refused.Load(), metrics[`exec_server_limit_reached_total{limit="machine"}`]; n > 0 && counted == 0 {
		x.w.t.Errorf("%d sandboxed requests were refused, and the server counts none", n)
	}
}
