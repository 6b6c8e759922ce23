//go:build linux

package execclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/testutil/leakcheck"
)

// connect returns a client of a new server. Both end with the test, after which no goroutine
// may be left.
func connect(t *testing.T) (*execclient.Client, *execserver.Server) {
	t.Helper()
	return connectWith(t, execclient.Options{})
}

func connectWith(t *testing.T, o execclient.Options) (*execclient.Client, *execserver.Server) {
	t.Helper()
	noneLeft := leakcheck.Goroutines(t)
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(context.Background(), l) })
	client, err := execclient.DialWebSocket(t.Context(), "ws://"+l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = srv.Shutdown(context.Background())
		serving.Wait()
		noneLeft()
	})
	return client, srv
}

func shell(id, script string) execproto.StartParams {
	return execproto.StartParams{
		ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: "file:///",
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, PipeStdin: true,
	}
}

func TestProcesses(t *testing.T) {
	client, _ := connect(t)
	ctx := t.Context()
	p, err := client.Start(ctx, shell("p", "cat; echo err >&2; exit 7"))
	if err != nil {
		t.Fatal(err)
	}
	in := p.Stdin(ctx)
	want := strings.Repeat("0123456789", 30_000)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.WriteString(in, want)
		if err := errors.Join(err, in.Close()); err != nil {
			t.Error(err)
		}
	})
	var out, errs bytes.Buffer
	state, err := p.Stream(ctx, &out, &errs)
	wg.Wait()
	if err != nil || state.Code != 7 || out.String() != want || errs.String() != "err\n" {
		t.Errorf("%d bytes, %q, %d, %v", out.Len(), errs.String(), state.Code, err)
	}
	if status, err := p.Write(ctx, []byte("x")); err != nil || status != execproto.WriteStdinClosed {
		t.Errorf("a late write: %s, %v", status, err)
	}
	_, err = client.Start(ctx, execproto.StartParams{ProcessID: "q", Argv: []string{"/no/such"}, Cwd: "file:///"})
	var refused *execclient.ServerError
	if !errors.As(err, &refused) || refused.Code != execproto.CodeInternal || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf(`got error %v; want errors.As(err, &refused), refused.Code %v, an error with "/no/such"`, err, execproto.CodeInternal)
	}
}

// slow is a writer that lets other goroutines run between writes.
type slow struct{ n int }

func (s *slow) Write(b []byte) (int, error) {
	runtime.Gosched()
	s.n += len(b)
	return len(b), nil
}

func TestASlowConsumerGetsEverything(t *testing.T) {
	client, _ := connect(t)
	p, err := client.Start(t.Context(), shell("p", "head -c 8000000 /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	var s slow
	if state, err := p.Stream(t.Context(), &s, &s); err != nil || state.Code != 0 || s.n != 8_000_000 {
		t.Errorf("%d bytes, %+v, %v", s.n, state, err)
	}
}

func TestALostConnectionFailsEverything(t *testing.T) {
	client, srv := connectWith(t, execclient.Options{RecoveryTimeout: -1})
	p, err := client.Start(t.Context(), shell("p", "sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-client.Done()
	// The server may report the exit before it ends.
	if state, err := p.Wait(t.Context()); err == nil && state.Code != 137 {
		t.Errorf("got %+v, want state.Code 137", state)
	}
	if _, err := client.EnvironmentInfo(t.Context()); err == nil || !strings.Contains(err.Error(), "disconnected") {
		t.Errorf(`got error %v, want an error with "disconnected"`, err)
	}
	if client.State() != execclient.Failed {
		t.Error("it has not failed")
	}
}
