//go:build linux

package execclient_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

func TestCmdContext(t *testing.T) {
	client, _ := connect(t)
	for _, tt := range []struct {
		name   string
		script string
		set    func(c *execclient.Cmd)
		code   int   // 0: no *ExitError
		is     error // what the error must be, too
		isNot  error
	}{
		{"it is killed", "echo ready; sleep 1000", nil, 137, context.Canceled, nil},
		{"with its descendants", "echo ready; sleep 1000 & wait", nil, 137, context.Canceled, nil},
		{"a mild Cancel", "trap 'exit 0' INT; echo ready; while :; do sleep 0.01; done", func(c *execclient.Cmd) {
			c.Cancel = func() error { return c.Process.Signal(context.Background(), execproto.SignalInterrupt) }
		}, 0, context.Canceled, nil},
		{"a Cancel that is ignored", "trap '' INT; echo ready; while :; do sleep 0.01; done", func(c *execclient.Cmd) {
			c.Cancel = func() error { return c.Process.Signal(context.Background(), execproto.SignalInterrupt) }
			c.WaitDelay = 50 * time.Millisecond
		}, 137, context.Canceled, nil},
		{"no Cancel", "echo ready; sleep 1000", func(c *execclient.Cmd) {
			c.Cancel, c.WaitDelay = nil, 50*time.Millisecond
		}, 137, nil, context.Canceled},
		{"a Cancel that fails", "echo ready; sleep 1000", func(c *execclient.Cmd) {
			c.Cancel = func() error { return errCancel }
			c.WaitDelay = 50 * time.Millisecond
		}, 137, errCancel, nil},
		{"a Cancel that found it done", "echo ready; sleep 0.1", func(c *execclient.Cmd) {
			c.Cancel = func() error { return os.ErrProcessDone }
			c.WaitDelay = -1
		}, 0, nil, context.Canceled},
		{
			// One of them waits until the shell has ended.
			"descendants that hold the output", "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo ready; sleep 1000) &",
			nil, 0, context.Canceled, nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := shContext(ctx, client, tt.script)
			if tt.set != nil {
				tt.set(c)
			}
			// The output is what tells that the trap is set.
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
			if code != tt.code || tt.is != nil && !errors.Is(err, tt.is) || tt.isNot != nil && errors.Is(err, tt.isNot) {
				t.Errorf("%d, %v; want %d, %v", code, err, tt.code, tt.is)
			}
		})
	}
}

var errCancel = errors.New("it cannot be canceled")

func TestWaitDelay(t *testing.T) {
	client, _ := connect(t)
	t.Run("output that is held open", func(t *testing.T) {
		c := sh(client, "sleep 1000 & echo started")
		c.WaitDelay = 50 * time.Millisecond
		out, err := c.Output()
		if !errors.Is(err, execclient.ErrWaitDelay) || string(out) != "started\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("output that nobody wants", func(t *testing.T) {
		if err := sh(client, "sleep 1000 & echo started").Run(); err != nil {
			t.Error(err)
		}
	})
	t.Run("an exit code comes first", func(t *testing.T) {
		c := sh(client, "sleep 1000 & exit 3")
		c.WaitDelay = 50 * time.Millisecond
		_, err := c.Output()
		var exit *execclient.ExitError
		if !errors.As(err, &exit) || exit.Code != 3 {
			t.Errorf("%v", err)
		}
	})
	release := make(chan struct{})
	defer close(release)
	t.Run("a writer that is stuck", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := shContext(ctx, client, "echo x; sleep 1000")
		c.WaitDelay = 50 * time.Millisecond
		c.Stdout = writerFunc(func(p []byte) (int, error) {
			cancel()
			<-release
			return len(p), nil
		})
		if err := c.Run(); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a reader that is stuck", func(t *testing.T) {
		c := sh(client, "exit 0")
		c.WaitDelay = 50 * time.Millisecond
		c.Stdin = readerFunc(func([]byte) (int, error) {
			<-release
			return 0, io.EOF
		})
		if err := c.Run(); !errors.Is(err, execclient.ErrWaitDelay) {
			t.Errorf("%v", err)
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
			t.Errorf("%v", err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
