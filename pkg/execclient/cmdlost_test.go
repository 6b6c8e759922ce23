package execclient

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
)

// TestWaitEndsWithoutAReportOfTheEnd: if a server has killed a command and does not report its
// end, Wait returns after killTime.
func TestWaitEndsWithoutAReportOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newHost(t).join(Options{})
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cmd := c.CommandContext(ctx, "x")
		cmd.Dir, cmd.Stdout = "/", io.Discard
		var serving sync.WaitGroup
		serving.Go(func() {
			p.answer(p.expectLater("process/start"), execproto.StartResult{})
			p.answer(p.expectLater("process/terminate"), execproto.TerminateResult{Running: true})
		})
		must(t, cmd.Start())
		cancel()
		began := time.Now()
		err := cmd.Wait()
		serving.Wait()
		if took := time.Since(began); took != killTime || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "unknown how the command ended") {
			t.Errorf("Wait: got %v after %v, want an unknown end after %v", err, took, killTime)
		}
	})
}
