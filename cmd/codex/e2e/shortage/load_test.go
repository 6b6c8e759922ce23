package shortage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// work is a request, or a group of requests, that a client makes again and again. It does not need
// a new process.
type work struct {
	name string
	do   func(ctx context.Context) error
	done atomic.Int64 // number of times it was done
}

// load is the concurrent work of clients.
type load struct {
	w      *world
	works  []*work
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// client returns a new client that is connected to the server.
func (w *world) client() *execclient.Client {
	w.t.Helper()
	c, err := execclient.DialWebSocket(w.t.Context(), w.url, execclient.Options{RecoveryTimeout: -1})
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

var lastID atomic.Int64

// params returns the parameters to start a program in the workspace.
func (w *world) params(argv ...string) execproto.StartParams {
	return execproto.StartParams{
		ProcessID: fmt.Sprint("p", lastID.Add(1)), Argv: argv, Cwd: harness.FileURI(w.workspace),
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, PipeStdin: true,
	}
}

// start starts a program.
func (w *world) start(c *execclient.Client, argv ...string) *execclient.Process {
	w.t.Helper()
	p, err := c.Start(w.t.Context(), w.params(argv...))
	harness.Must(w.t, err)
	return p
}

// The number of clients of a load, and of the concurrent file requests of each.
const clients, filesAtOnce = 4, 8

// busy makes clients send requests of all kinds until stop is called, with or without
// requests about files.
func (w *world) busy(files bool, more ...*work) *load {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &load{w: w, works: more, cancel: cancel}
	port := harness.Echo(w.t)
	for range clients {
		c := w.client()
		if files {
			l.add(filesAtOnce, "fs/readFile", w.reads(c))
		}
		l.add(1, "process/read", w.polls(c))
		l.add(1, "process/list", func(ctx context.Context) error {
			_, err := c.ListProcesses(ctx, execproto.ListParams{Usage: true})
			return err
		})
		l.add(1, "tunnel", w.tunnels(c, port))
		l.add(1, "output", w.outputs(c))
	}
	for _, work := range l.works {
		l.wg.Go(func() { l.routineWork(ctx, work) })
	}
	return l
}

// add adds work that is done n times concurrently.
func (l *load) add(n int, name string, do func(ctx context.Context) error) {
	for range n {
		l.works = append(l.works, &work{name: name, do: do})
	}
}

// routineWork does work until ctx ends. It fails the test if that takes too long.
func (l *load) routineWork(ctx context.Context, work *work) {
	for ctx.Err() == nil {
		bound, cancel := context.WithTimeout(ctx, harness.Patience)
		err := work.do(bound)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.w.t.Errorf("%s: got error %v, want ctx.Err() that is not nil", work.name, err)
			return
		}
		work.done.Add(1)
	}
}

// counts returns, for each name, how often the work that was done least often was done.
func (l *load) counts() map[string]int64 {
	least := make(map[string]int64)
	for _, work := range l.works {
		n := work.done.Load()
		if old, ok := least[work.name]; !ok || n < old {
			least[work.name] = n
		}
	}
	return least
}

// awaitProgress waits until each kind of work was done several more times.
func (l *load) awaitProgress() {
	l.w.t.Helper()
	const times = 3
	before := make([]int64, len(l.works))
	for i, work := range l.works {
		before[i] = work.done.Load()
	}
	harness.Eventually(l.w.t, "work that makes no progress", func() (stuck []string) {
		for i, work := range l.works {
			if work.done.Load() < before[i]+times {
				stuck = append(stuck, work.name)
			}
		}
		return stuck
	})
}

// stop ends the load.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// reads returns a function that reads a file.
func (w *world) reads(c *execclient.Client) func(ctx context.Context) error {
	text := bytes.Repeat([]byte("text\n"), 8<<10)
	path := filepath.Join(w.workspace, fmt.Sprint("file", lastID.Add(1)))
	harness.Must(w.t, os.WriteFile(path, text, 0o644))
	return func(ctx context.Context) error {
		got, err := c.FS().ReadFile(ctx, path)
		if err == nil && !bytes.Equal(got, text) {
			err = fmt.Errorf("%d other bytes", len(got))
		}
		return err
	}
}

// polls returns a function that reads the retained output of a process.
func (w *world) polls(c *execclient.Client) func(ctx context.Context) error {
	p := w.start(c, "/bin/sh", "-c", "echo begun; exec cat")
	if line, err := bufio.NewReader(p.Stdout(w.t.Context())).ReadString('\n'); line != "begun\n" {
		w.t.Fatalf("it has printed %q: %v", line, err)
	}
	return func(ctx context.Context) error {
		r, err := p.Read(ctx, execproto.ReadParams{})
		if err == nil && (len(r.Chunks) == 0 || r.Closed) {
			err = fmt.Errorf("the process has %d chunks of output, closed %v", len(r.Chunks), r.Closed)
		}
		return err
	}
}

// outputs returns a function that makes a process print, and reads the output.
func (w *world) outputs(c *execclient.Client) func(ctx context.Context) error {
	p := w.start(c, "/usr/bin/yes", strings.Repeat("output", 100))
	out := p.Stdout(w.t.Context())
	w.t.Cleanup(func() { _ = out.Close() })
	return func(context.Context) error {
		_, err := io.CopyN(io.Discard, out, 256<<10)
		return err
	}
}

// tunnels returns a function that sends bytes through a tunnel to a server that echoes them.
func (w *world) tunnels(c *execclient.Client, port uint16) func(ctx context.Context) error {
	conn, err := c.OpenTunnel(w.t.Context(), execclient.TunnelTarget{Host: "127.0.0.1", Port: port})
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	sent, got := bytes.Repeat([]byte("x"), 16<<10), make([]byte, 16<<10)
	return func(context.Context) error {
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.Equal(sent, got) {
			return errors.New("other bytes came back")
		}
		return nil
	}
}
