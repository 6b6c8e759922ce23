package shortage

import (
	"context"
	"errors"
	"fmt"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// detachedWorks returns two kinds of work: requests about a running detached process, whose keeper must continue,
// and starts of further ones, which may be refused.
func (w *world) detachedWorks(c *execclient.Client) []*work {
	w.t.Helper()
	d, err := c.StartDetached(w.t.Context(), w.params("/bin/cat"))
	harness.Must(w.t, err)
	return []*work{
		{name: "detached process", do: func(ctx context.Context) error {
			if err := d.Write(ctx, []byte("text\n")); err != nil {
				return err
			}
			r, err := d.State(ctx)
			if err == nil && r.Exited {
				err = errors.New("the process has ended")
			}
			return err
		}},
		{name: "detached start", do: func(ctx context.Context) error { return w.detach(ctx, c) }},
	}
}

// detach starts a detached process and ends it. It returns nil if the start is refused with an error that names the
// shortage.
func (w *world) detach(ctx context.Context, c *execclient.Client) error {
	d, err := c.StartDetached(ctx, w.params("/bin/cat"))
	if isTooMany(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if _, err := d.Terminate(ctx); err != nil {
		return fmt.Errorf("terminate: %w", err)
	}
	if _, err := d.Wait(ctx); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return c.Call(ctx, execproto.MethodProcessForget, &execproto.ProcessParams{ProcessID: execproto.DetachedPrefix + d.Handle()}, nil)
}
