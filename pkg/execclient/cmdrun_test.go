//go:build linux

package execclient_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"codex.internal/pkg/execclient"
)

// TestCmdContext: a command whose context ends is killed with its descendants, and the error
// is that of the context.
func TestCmdContext(t *testing.T) {
	client, _ := connect(t)
	for _, tt := range []struct {
		name   string
		script string
		code   int // 0: the error is not an *ExitError
	}{
		{"a command", "echo ready; sleep 1000", 137},
		{"its descendants", "echo ready; sleep 1000 & wait", 137},
		// A descendant waits until the shell has ended.
		{"descendants that hold the output", "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo ready; sleep 1000) &", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := shContext(ctx, client, tt.script)
			c.Stdout = writerFunc(func(p []byte) (int, error) {
				cancel()
				return len(p), nil
			})
			err := c.Run()
			var exit *execclient.ExitError
			code := 0
			if errors.As(err, &exit) {
				code = exit.Code
			}
			if code != tt.code || !errors.Is(err, context.Canceled) {
				t.Errorf("got exit code %d and %v, want %d and %v", code, err, tt.code, context.Canceled)
			}
		})
	}
	// A context that ends after the command changes nothing.
	ctx, cancel := context.WithCancel(t.Context())
	c := shContext(ctx, client, "exit 3")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Process.WaitClosed(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	var exit *execclient.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Code != 3 || errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended after the command: got %v, want exit status 3", err)
	}
}

// TestWaitWaitsForCopies: Wait waits for descendants that hold the output open only if the
// output is copied. It never waits for reads of an input that is a file.
func TestWaitWaitsForCopies(t *testing.T) {
	client, _ := connect(t)
	t.Run("output of a descendant", func(t *testing.T) {
		var out bytes.Buffer
		c := sh(client, "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo late) & echo first")
		c.Stdout = &out
		if err := c.Run(); err != nil || out.String() != "first\nlate\n" {
			t.Errorf("got %q and %v, want both lines", out.String(), err)
		}
	})
	t.Run("output that nobody wants", func(t *testing.T) {
		if err := sh(client, "sleep 1000 & echo started").Run(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Run("a file is not waited for", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		c := sh(client, "exit 0")
		c.Stdin = r
		if err := c.Run(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
}
