//go:build linux

package execclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execclient/fsx"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
)

// benchServer returns the address of a new server.
func benchServer(b *testing.B) string {
	b.Helper()
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(context.Background(), l) })
	b.Cleanup(func() {
		_ = srv.Shutdown(context.Background())
		serving.Wait()
	})
	return l.Addr().String()
}

// benchClient returns a client of the server at an address.
func benchClient(b *testing.B, address string) *execclient.Client {
	b.Helper()
	client, err := execclient.DialWebSocket(b.Context(), "ws://"+address, execclient.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// ratio runs two functions in turns, so that both have the same load, and reports the median
// of each and their ratio.
func ratio(b *testing.B, ours, raw func() error) {
	b.Helper()
	var times [2][]time.Duration
	for b.Loop() {
		for i, f := range []func() error{ours, raw} {
			began := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(began))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	a, c := times[0][len(times[0])/2], times[1][len(times[1])/2]
	b.ReportMetric(float64(a)/float64(time.Microsecond), "µs/ours")
	b.ReportMetric(float64(c)/float64(time.Microsecond), "µs/raw")
	b.ReportMetric(float64(a)/float64(c), "ours/raw")
}

// BenchmarkCmd compares Cmd.Output with the requests of which it consists.
func BenchmarkCmd(b *testing.B) {
	client := benchClient(b, benchServer(b))
	n := 0
	for name, script := range map[string]string{"short": "echo hello", "1MiB": "head -c 1048576 /dev/zero"} {
		b.Run(name, func(b *testing.B) {
			ratio(b, func() error {
				_, err := client.Command("/bin/sh", "-c", script).Output()
				return err
			}, func() error {
				n++
				return rawOutput(b.Context(), client, "raw-"+strconv.Itoa(n), script)
			})
		})
	}
}

// rawOutput runs a script using only process/start and process/read.
func rawOutput(ctx context.Context, client *execclient.Client, id, script string) error {
	params := execproto.StartParams{
		ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: "file:///", Env: map[string]string{},
		EnvPolicy: &execproto.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}},
	}
	if err := client.Call(ctx, execproto.MethodProcessStart, &params, nil); err != nil {
		return err
	}
	wait := uint64(10_000)
	for after := uint64(0); ; {
		var r execproto.ReadResult
		err := client.Call(ctx, execproto.MethodProcessRead, &execproto.ReadParams{ProcessID: id, AfterSeq: &after, WaitMS: &wait}, &r)
		if err != nil || r.Closed {
			return err
		}
		after = r.NextSeq - 1
	}
}

// BenchmarkFSX compares fs.FS with the fewest requests that an operation needs.
func BenchmarkFSX(b *testing.B) {
	client := benchClient(b, benchServer(b))
	dir := b.TempDir()
	for _, size := range []int{1 << 10, 8 << 20} {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(size)), make([]byte, size), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 200 {
		at := filepath.Join(dir, "tree", strconv.Itoa(i%10))
		if err := os.MkdirAll(at, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, strconv.Itoa(i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	files, ctx := fsx.New(b.Context(), client.FS(), dir), b.Context()
	for _, size := range []int{1 << 10, 8 << 20} {
		name := strconv.Itoa(size)
		b.Run(fmt.Sprintf("ReadFile/%dKiB", size>>10), func(b *testing.B) {
			ratio(b, func() error {
				_, err := fs.ReadFile(files, name)
				return err
			}, func() error {
				var r execproto.ReadFileResult
				return client.Call(ctx, execproto.MethodFSReadFile, &execproto.LinkPathParams{Path: filepath.Join(dir, name)}, &r)
			})
		})
		b.Run(fmt.Sprintf("Open/%dKiB", size>>10), func(b *testing.B) {
			ratio(b, func() error {
				f, err := files.Open(name)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, f)
				return errors.Join(err, f.Close())
			}, func() error { return rawRead(ctx, client, filepath.Join(dir, name)) })
		})
	}
	b.Run("WalkDir", func(b *testing.B) {
		ratio(b, func() error {
			return fs.WalkDir(files, "tree", func(_ string, _ fs.DirEntry, err error) error { return err })
		}, func() error {
			for i := range 11 {
				at := filepath.Join(dir, "tree")
				if i > 0 {
					at = filepath.Join(at, strconv.Itoa(i-1))
				}
				var r execproto.ReadDirectoryResult
				if err := client.Call(ctx, execproto.MethodFSReadDirectory, &execproto.PathParams{Path: at}, &r); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// rawRead reads a file by fs/open, readBlock and close, one after the other.
func rawRead(ctx context.Context, client *execclient.Client, path string) error {
	if err := client.Call(ctx, execproto.MethodFSOpen, &execproto.OpenParams{HandleID: "raw", Path: path}, nil); err != nil {
		return err
	}
	for at := uint64(0); ; {
		var r execproto.ReadBlockResult
		params := execproto.ReadBlockParams{HandleID: "raw", Offset: at, Len: execproto.MaxBlockBytes}
		if err := client.Call(ctx, execproto.MethodFSReadBlock, &params, &r); err != nil {
			return err
		}
		at += uint64(len(r.Chunk))
		if r.EOF {
			break
		}
	}
	return client.Call(ctx, execproto.MethodFSClose, &execproto.HandleParams{HandleID: "raw"}, nil)
}

// BenchmarkEvent measures the client's work for one event of output, from the message to its
// consumer.
func BenchmarkEvent(b *testing.B) {
	script := &scripted{left: b.N, answers: make(chan []byte, 8), acked: make(chan uint64, 1), closed: make(chan struct{})}
	client, err := execclient.NewClient(b.Context(), script, execclient.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.SetBytes(int64(len(script.chunk())))
	b.ReportAllocs()
	b.ResetTimer()
	p, err := client.Start(b.Context(), execproto.StartParams{ProcessID: "p", Argv: []string{"x"}})
	if err != nil {
		b.Fatal(err)
	}
	events := 0
	for e, err := range p.Events(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Kind == execclient.Output {
			events++
		}
	}
	if events != b.N {
		b.Errorf("%d events of %d", events, b.N)
	}
}

// scripted is a transport to a server with flow control. The server starts one process, which
// writes left chunks of output and ends.
type scripted struct {
	answers chan []byte
	acked   chan uint64 // newest acknowledgement
	closed  chan struct{}
	once    sync.Once
	buf     []byte

	// Used by Read only.
	left    int
	seq     uint64
	through uint64 // newest acknowledged event
	started bool
}

// scriptedWindow is the number of chunks in the client's output window.
const scriptedWindow = 512 << 10 / (8 << 10)

func (s *scripted) chunk() []byte { return make([]byte, 8<<10) }

func (s *scripted) Write(message []byte) error {
	var m struct {
		ID     int64  `json:"id"`
		Method string `json:"method"`
		Params struct {
			Seq uint64 `json:"seq"`
		} `json:"params"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return err
	}
	switch m.Method {
	case execproto.MethodInitialize:
		s.answers <- fmt.Appendf(nil, `{"id":%d,"result":{"sessionId":"s","extensions":["process/ack"]}}`, m.ID)
	case execproto.MethodProcessStart:
		s.answers <- fmt.Appendf(nil, `{"id":%d,"result":{"processId":"p"}}`, m.ID)
		s.answers <- nil // the output begins
	case execproto.NotifyProcessAck:
		select {
		case <-s.acked:
		default:
		}
		s.acked <- m.Params.Seq
	}
	return nil
}

func (s *scripted) Read() ([]byte, error) {
	if !s.started {
		select {
		case message := <-s.answers:
			if message != nil {
				return message, nil
			}
			s.started = true
		case <-s.closed:
			return nil, io.EOF
		}
	}
	for s.left > 0 && s.seq-s.through >= scriptedWindow {
		select {
		case s.through = <-s.acked:
		case <-s.closed:
			return nil, io.EOF
		}
	}
	s.seq++
	switch {
	case s.left > 0:
		s.left--
		if s.buf == nil {
			s.buf = s.chunk()
		}
		return execproto.AppendOutput(make([]byte, 0, 12<<10), "p", s.seq, execproto.Stdout, s.buf), nil
	case s.left == 0:
		s.left--
		return execproto.Notify(&execproto.ExitedNotification{ProcessID: "p", Seq: s.seq})(nil), nil
	case s.left == -1:
		s.left--
		return execproto.Notify(&execproto.ClosedNotification{ProcessID: "p", Seq: s.seq})(nil), nil
	}
	<-s.closed
	return nil, io.EOF
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// BenchmarkRecovery measures the time from the loss of a connection to the next event on a new
// one.
func BenchmarkRecovery(b *testing.B) {
	cut := newCutter(b, benchServer(b))
	client := benchClient(b, cut.l.Addr().String())
	p, err := client.Start(b.Context(), shell("p", "exec cat"))
	if err != nil {
		b.Fatal(err)
	}
	next, stop := iter.Pull2(p.Events(b.Context()))
	defer stop()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		cut.cut()
		if _, err := p.Write(b.Context(), []byte("x")); err != nil {
			b.Fatal(err)
		}
		if _, err, ok := next(); err != nil || !ok {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/float64(time.Millisecond), "ms/median")
	if _, err := p.Terminate(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// cutter is a proxy that can close the newest connection.
type cutter struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu   sync.Mutex
	conn net.Conn
}

func newCutter(b *testing.B, target string) *cutter {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	c := &cutter{l: l, target: target}
	c.wg.Go(c.routineAccept)
	b.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) routineAccept() {
	for {
		in, err := c.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.conn = in
		c.mu.Unlock()
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		c.wg.Go(func() { pass(out, in) })
		c.wg.Go(func() { pass(in, out) })
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.Close()
}
