//go:build linux

package relay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/wire/websocket"
)

// dialer makes streams for a client.
type dialer struct{ *relay.Harness }

func (d dialer) Dial(ctx context.Context) (execclient.Transport, error) {
	c, err := d.Harness.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// serve runs an exec-server behind a relay until the test ends.
func serve(t *testing.T, plain bool) *relay.Double {
	t.Helper()
	d := relay.NewDouble(t)
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d.Run(t, relay.ExecutorOptions{Plain: plain, Serve: func(c websocket.Transport) { _ = srv.ServeConn(c) }})
	return d
}

func client(t *testing.T, h *relay.Harness, o execclient.Options) *execclient.Client {
	t.Helper()
	c, err := execclient.Dial(t.Context(), dialer{h}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestCommandThroughCuts runs a command that echoes its input while the relay
// breaks all connections. If both ends acknowledge, the client does not notice;
// otherwise it resumes its session on another stream.
func TestCommandThroughCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			d := serve(t, plain)
			var recoveries atomic.Int64
			c := client(t, d.Harness(relay.HarnessOptions{Plain: plain}), execclient.Options{OnStateChange: func(s execclient.StateChange) {
				if s.State == execclient.Recovering {
					recoveries.Add(1)
				}
			}})
			// Exchange some messages, so that each end knows whether the other
			// acknowledges.
			for range 5 {
				if out, err := c.Command("echo", "hello").Output(); err != nil || string(out) != "hello\n" {
					t.Fatalf("got out %q, error %v; want no error, out %q", out, err, "hello\n")
				}
			}
			cmd := c.CommandContext(t.Context(), "sh", "-c", "for i in 1 2 3; do read x; seq 20000; echo got $x; done")
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewScanner(stdout)
			for i := range 3 {
				if _, err := fmt.Fprintf(stdin, "%d\n", i); err != nil {
					t.Fatal(err)
				}
				d.Cut(1)
				for n := range 20000 {
					expectLine(t, out, fmt.Sprint(n+1))
				}
				expectLine(t, out, fmt.Sprintf("got %d", i))
			}
			if out.Scan() {
				t.Errorf("%q in the end", out.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if n := recoveries.Load(); plain != (n > 0) {
				t.Errorf("the session was resumed %d times", n)
			}
		})
	}
}

func expectLine(t *testing.T, out *bufio.Scanner, want string) {
	t.Helper()
	if !out.Scan() || out.Text() != want {
		t.Fatalf("got %q, want %q: %v", out.Text(), want, out.Err())
	}
}

// TestSessionOfALostHarness: another harness resumes the session, although the executor still has
// the stream of the lost harness.
func TestSessionOfALostHarness(t *testing.T) {
	d := serve(t, false)
	var asked atomic.Int64
	gone := d.Harness(relay.HarnessOptions{Connect: func(ctx context.Context) (relay.Bundle, error) {
		if asked.Add(1) == 1 {
			return d.Bundle(), nil
		}
		return relay.Bundle{}, errors.New("gone")
	}})
	first := client(t, gone, execclient.Options{RecoveryTimeout: -1})
	for range 5 {
		if _, err := first.Command("true").Output(); err != nil {
			t.Fatal(err)
		}
	}
	d.Cut(1)
	<-first.Done()
	d.AwaitExecutor(t) // which the harness might be quicker than
	second := client(t, d.Harness(relay.HarnessOptions{}), execclient.Options{ResumeSessionID: first.SessionID()})
	if out, err := second.Command("echo", "hello").Output(); err != nil || string(out) != "hello\n" {
		t.Errorf("got out %q, error %v; want no error, out %q", out, err, "hello\n")
	}
}

// TestOnLink: OnLink is called for a websocket that is not replaced at once,
// and for its later replacement.
func TestOnLink(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d := serve(t, false)
	var asked atomic.Int64
	told := make(chan error, 4)
	busy := &websocket.DialError{Status: 503}
	c := client(t, d.Harness(relay.HarnessOptions{
		OnLink: func(lost error) { told <- lost },
		Connect: func(ctx context.Context) (relay.Bundle, error) {
			if n := asked.Add(1); n == 2 || n == 3 {
				return relay.Bundle{}, busy
			}
			return d.Bundle(), nil
		},
	}), execclient.Options{})
	for range 5 {
		if _, err := c.Command("true").Output(); err != nil {
			t.Fatal(err)
		}
	}
	d.Cut(1)
	if err := <-told; !errors.Is(err, busy) {
		t.Errorf("the loss: %v", err)
	}
	if err := <-told; err != nil {
		t.Errorf("the return: %v", err)
	}
	if _, err := c.Command("true").Output(); err != nil {
		t.Error(err)
	}
}
