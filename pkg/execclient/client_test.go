//go:build linux || darwin

package execclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
)

// connect returns a client of a new server. Both end with the test, after
// which no goroutine may be left.
func connect(t *testing.T) (*execclient.Client, *execserver.Server) {
	t.Helper()
	return connectWith(t, execclient.Options{})
}

func connectWith(t *testing.T, o execclient.Options) (*execclient.Client, *execserver.Server) {
	t.Helper()
	before := runtime.NumGoroutine()
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
		for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines before, %d left", before, runtime.NumGoroutine())
				return
			}
		}
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
		t.Errorf("%v", err)
	}
}

// slow is a writer that lets others run between writes.
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
	// The server told the exit before it went.
	if state, err := p.Wait(t.Context()); err == nil && state.Code != 137 {
		t.Errorf("%+v", state)
	}
	if _, err := client.EnvironmentInfo(t.Context()); err == nil || !strings.Contains(err.Error(), "disconnected") {
		t.Errorf("%v", err)
	}
	if client.State() != execclient.Failed {
		t.Error("it has not failed")
	}
}

func TestFilesInBlocks(t *testing.T) {
	client, _ := connect(t)
	dir := t.TempDir()
	uri := func(name string) string { return "file://" + filepath.Join(dir, name) }
	for _, n := range []int{0, 1, 1 << 20, 1<<20 + 1, 5 << 20, 9<<20 + 5} {
		data := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
		told := 0
		var mu sync.Mutex
		count := func(k int) {
			mu.Lock()
			told += k
			mu.Unlock()
		}
		if err := client.FS().Upload(t.Context(), uri("f"), bytes.NewReader(data), count); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		var back bytes.Buffer
		if err := client.FS().Download(t.Context(), uri("f"), &back, count); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if !bytes.Equal(back.Bytes(), data) || told != 2*n {
			t.Errorf("%d bytes came back as %d, told of %d", n, back.Len(), told)
		}
	}
	// What breaks off leaves the target as it was, and nothing beside it.
	broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 3<<20)), failing{})
	if err := client.FS().Upload(t.Context(), uri("f"), broken, nil); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("%v", err)
	}
	names, err := os.ReadDir(dir)
	if st, e := os.Stat(filepath.Join(dir, "f")); e != nil || st.Size() != 9<<20+5 || err != nil || len(names) != 1 {
		t.Errorf("%v %v %v", st, names, err)
	}
	if err := client.FS().Download(t.Context(), uri("none"), io.Discard, nil); !execclient.IsCode(err, execproto.CodeNotFound) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("no more") }
