//go:build linux

package execclient_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"golang.org/x/sys/unix"
)

func TestFilesInBlocks(t *testing.T) {
	client, _ := connect(t)
	files := client.FS()
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, n := range []int{0, 1, 1 << 20, 1<<20 + 1, 2<<20 + 5} {
		data := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
		for _, o := range []execclient.WriteOptions{{}, {Atomic: true}} {
			if err := files.WriteStream(t.Context(), name, bytes.NewReader(data), o); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			r, err := files.OpenStream(t.Context(), name)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			back, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%d bytes came back as %d, %v", n, len(back), err)
			}
		}
		// The sizes of the pieces do not divide the block size.
		w, err := files.Create(t.Context(), name, execclient.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(data)}, make([]byte, 99_999)); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if back, err := os.ReadFile(name); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%d bytes were written as %d, %v", n, len(back), err)
		}
	}
}

// TestAnAbortedWriteLeavesTheTarget: an aborted write leaves the target unchanged, and no
// temporary file beside it.
func TestAnAbortedWriteLeavesTheTarget(t *testing.T) {
	client, _ := connect(t)
	files := client.FS()
	atomic := execclient.WriteOptions{Atomic: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, tt := range []struct {
		name string
		run  func(name string) error
		want string
	}{
		{"a reader that fails", func(name string) error {
			return files.WriteStream(t.Context(), name, io.MultiReader(strings.NewReader(strings.Repeat("x", 3<<20)), failing{}), atomic)
		}, "no more"},
		{"Abort", func(name string) error {
			w, err := files.Create(t.Context(), name, atomic)
			if err != nil {
				return err
			}
			_, err = w.Write(make([]byte, 3<<20))
			w.Abort()
			return errors.Join(err, w.Close())
		}, "file already closed"},
		{"the end of the context", func(name string) error {
			w, err := files.Create(ctx, name, atomic)
			if err != nil {
				return err
			}
			_, err = w.Write(make([]byte, 3<<20))
			cancel()
			return errors.Join(err, w.Close())
		}, "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.run(name); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want an error with %q", err, tt.want)
			}
			// The server gets the request in the background.
			for {
				names, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				if len(names) == 1 {
					break
				}
				if _, err := files.Stat(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			if data, err := os.ReadFile(name); err != nil || string(data) != "old" {
				t.Errorf(`got data %q, error %v; want no error, data "old"`, data, err)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("no more") }

func TestFilesAtOffsets(t *testing.T) {
	client, _ := connect(t)
	data := make([]byte, 1<<20+77)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := client.FS().Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 10 {
		at, n := rng.IntN(len(data)+100), rng.IntN(2<<20)
		b := make([]byte, n)
		got, err := f.ReadAt(b, int64(at))
		want := data[min(at, len(data)):min(at+n, len(data))]
		if !bytes.Equal(b[:got], want) || (err != nil) != (at+n > len(data) && n > 0) || err != nil && err != io.EOF {
			t.Fatalf("ReadAt(%d bytes, %d) = %d bytes, %v", n, at, got, err)
		}
		if at, err := f.Seek(int64(at), io.SeekStart); err != nil {
			t.Fatalf("got at %d, error %v; want no error", at, err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data[min(at, len(data)):]) {
			t.Fatalf("%d bytes at %d, %v", len(got), at, err)
		}
	}
	if at, err := f.Seek(-5, io.SeekEnd); err != nil || at != int64(len(data)-5) {
		t.Errorf("got at %d, error %v; want no error, at %d", at, err, int64(len(data)-5))
	}
	if at, err := f.Seek(2, io.SeekCurrent); err != nil || at != int64(len(data)-3) {
		t.Errorf("got at %d, error %v; want no error, at %d", at, err, int64(len(data)-3))
	}
	for offset, whence := range map[int64]int{-1: io.SeekStart, 1: 17} {
		if _, err := f.Seek(offset, whence); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Seek(%d, %d): %v", offset, whence, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

func TestASmallFileAsAReader(t *testing.T) {
	client, _ := connect(t)
	for _, text := range []string{"", "a file of a few bytes"} {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := client.FS().Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(f, []byte(text)); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHandlesAreGivenBack: every way to end a read or write releases its handle. A connection
// has 128 handles.
func TestHandlesAreGivenBack(t *testing.T) {
	client, _ := connect(t)
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := client.FS().OpenStream(ctx, name)
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		switch i % 3 {
		case 0: // read a part
			_, err = r.Read(make([]byte, 10))
		case 1: // its context ends it
			cancel()
			if _, err = io.ReadAll(r); errors.Is(err, context.Canceled) {
				err = nil
			}
		case 2: // not read at all
		}
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		if i%3 != 1 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
}

func TestFileOperations(t *testing.T) {
	client, _ := connect(t)
	files, ctx := client.FS(), t.Context()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(files.Mkdir(ctx, at("a")))
	must(files.MkdirAll(ctx, at("a/b/c")))
	must(files.MkdirAll(ctx, at("a/b/c")))
	must(files.WriteFile(ctx, at("a/b/f"), []byte("data")))
	must(os.Symlink(at("a/b/f"), at("link")))
	data, err := files.ReadFile(ctx, "file://"+at("link"))
	if err != nil || string(data) != "data" {
		t.Errorf(`got data %q, error %v; want no error, data "data"`, data, err)
	}
	m, err := files.Stat(ctx, at("link"))
	if err != nil || !m.IsFile || !m.IsSymlink || m.Size != 4 {
		t.Errorf("got m %+v, error %v; want no error, m.IsFile true, m.IsSymlink true, m.Size 4", m, err)
	}
	if real, err := files.Canonicalize(ctx, at("link")); err != nil || real != "file://"+at("a/b/f") {
		t.Errorf(`got real %q, error %v; want no error, real "file://"+at("a/b/f")`, real, err)
	}
	must(files.Copy(ctx, at("a"), at("a2"), true))
	must(unix.Mkfifo(at("a/pipe"), 0o600))
	err = files.Copy(ctx, at("a"), at("a2"), true)
	left, ok := errors.AsType[*execclient.LeftOutError](err)
	if !ok || left.Count != 1 || !slices.Equal(left.URIs, []string{"file://" + at("a/pipe")}) {
		t.Errorf("a directory with a pipe: %v", err)
	}
	entries, err := files.ReadDir(ctx, at("a2/b"))
	if want := []execproto.DirectoryEntry{{FileName: "c", IsDirectory: true}, {FileName: "f", IsFile: true}}; err != nil || !reflect.DeepEqual(entries, want) {
		t.Errorf("got entries %+v, error %v; want no error, entries %+v", entries, err, want)
	}
	must(files.Rename(ctx, at("a2/b/f"), at("a2/b/g"), execclient.RenameOptions{}))
	if err := files.Rename(ctx, at("a2/b/g"), at("a2/b/c"), execclient.RenameOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	must(files.Rename(ctx, at("a2/b/g"), at("link"), execclient.RenameOptions{Overwrite: true}))
	if data, err := os.ReadFile(at("a/b/f")); string(data) != "data" || err != nil {
		t.Errorf("the link was followed: %q, %v", data, err)
	}
	must(files.Remove(ctx, at("a2/b/c")))
	must(files.RemoveAll(ctx, at("a2")))
	must(files.RemoveAll(ctx, at("a2")))
}

func TestFileErrors(t *testing.T) {
	client, _ := connect(t)
	files, ctx := client.FS(), t.Context()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var server *execclient.ServerError
	for _, tt := range []struct {
		name string
		run  func() error
		is   error
		as   any // nil: the error is not one of the server
	}{
		{"ReadFile of nothing", func() error { _, err := files.ReadFile(ctx, dir+"/no"); return err }, fs.ErrNotExist, &server},
		{"OpenStream of nothing", func() error { _, err := files.OpenStream(ctx, dir+"/no"); return err }, fs.ErrNotExist, &server},
		{"Stat of nothing", func() error { _, err := files.Stat(ctx, dir+"/no"); return err }, fs.ErrNotExist, &server},
		{"ReadDir of nothing", func() error { _, err := files.ReadDir(ctx, dir+"/no"); return err }, fs.ErrNotExist, &server},
		{"Walk of nothing", func() error {
			_, err := files.Walk(ctx, dir+"/no", execproto.WalkOptions{MaxDirectories: 1, MaxEntries: 1})
			return err
		}, fs.ErrNotExist, &server},
		{"Remove of nothing", func() error { return files.Remove(ctx, dir+"/no") }, fs.ErrNotExist, &server},
		{"Create in nothing", func() error { _, err := files.Create(ctx, dir+"/no/f", execclient.WriteOptions{}); return err }, fs.ErrNotExist, &server},
		{"Mkdir in nothing", func() error { return files.Mkdir(ctx, dir+"/no/d") }, fs.ErrNotExist, &server},
		{"Mkdir of what is there", func() error { return files.Mkdir(ctx, dir+"/f") }, fs.ErrExist, &server},
		{"ReadFile of a directory", func() error { _, err := files.ReadFile(ctx, dir); return err }, fs.ErrInvalid, &server},
		{"a path that is none", func() error { _, err := files.ReadFile(ctx, "relative"); return err }, nil, &server},
		{"a context that has ended", func() error { _, err := files.ReadFile(ended, dir); return err }, context.Canceled, nil},
		{"Open with one", func() error { _, err := files.Open(ended, dir+"/f"); return err }, context.Canceled, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.run()
			var path *fs.PathError
			if !errors.As(err, &path) || strings.HasPrefix(path.Path, "file:") || tt.is != nil && !errors.Is(err, tt.is) || tt.as != nil && !errors.As(err, tt.as) {
				t.Errorf("%v is %T", err, errors.Unwrap(err))
			}
		})
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := files.ReadFile(ctx, dir); !errors.Is(err, syscall.EPIPE) || !errors.Is(err, execclient.ErrClosed) {
		t.Errorf("got error %v; want %v, %v", err, syscall.EPIPE, execclient.ErrClosed)
	}
}

// TestAFileIsGoneWithItsConnection: a reader gets the error of the lost connection, and not
// fs.ErrNotExist.
func TestAFileIsGoneWithItsConnection(t *testing.T) {
	client, srv := connectWith(t, execclient.Options{RecoveryTimeout: -1})
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 9<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := client.FS().OpenStream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := client.FS().Create(t.Context(), name+"2", execclient.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v; want %v, not %v", err, syscall.EPIPE, fs.ErrNotExist)
	}
	_, err = w.Write(make([]byte, 9<<20))
	if err = errors.Join(err, w.Close()); !errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v; want %v, not %v", err, syscall.EPIPE, fs.ErrNotExist)
	}
}

// cutConn resets its connection after a number of written bytes.
type cutConn struct {
	net.Conn
	left int
	sent *atomic.Int64
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// TestWritesOutlastTheirConnection: after the connection is lost, an atomic write sends only the blocks
// again that were on the way. Its file is complete, and no temporary file is left.
func TestWritesOutlastTheirConnection(t *testing.T) {
	cuts := []int{9 << 20, 1 << 20, 14<<20 + 4321} // bytes until each connection is lost
	var sent atomic.Int64
	var dialed atomic.Int32
	client, _ := connectWith(t, execclient.Options{
		Connect: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			left := math.MaxInt
			if n := int(dialed.Add(1)) - 1; n < len(cuts) {
				left = cuts[n]
			}
			return &cutConn{conn, left, &sent}, err
		},
	})
	data := make([]byte, 24<<20+5)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	dir := t.TempDir()
	err := client.FS().WriteStream(t.Context(), filepath.Join(dir, "f"), bytes.NewReader(data), execclient.WriteOptions{Atomic: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, error %v; want the %d bytes that were written", len(got), err, len(data))
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("got files %v, error %v; want only f", names, err)
	}
	// With each connection at most the four blocks on the way are lost.
	text := func(n int) int64 { return int64(base64.StdEncoding.EncodedLen(n)) }
	most := text(len(data)) + int64(len(cuts))*4*text(1<<20) + 1<<20
	if n := dialed.Load(); n != 4 || sent.Load() > most {
		t.Errorf("got %d connections and %d bytes; want 4, and at most %d bytes", n, sent.Load(), most)
	}
}

// TestNoWriteSucceedsAfterItsConnection: the server ends a write that is not atomic when its connection
// is lost. Closing the file on the next connection, where its handle is unknown, does not
// succeed. An atomic write whose connection is lost before its fs/close does not succeed either.
func TestNoWriteSucceedsAfterItsConnection(t *testing.T) {
	conns, resumed := make(chan net.Conn, 8), make(chan struct{}, 8)
	client, _ := connectWith(t, execclient.Options{
		Connect: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			conns <- conn
			return conn, err
		},
		OnStateChange: func(s execclient.StateChange) {
			if s.State == execclient.Connected {
				resumed <- struct{}{}
			}
		},
	})
	for _, atomic := range []bool{true, false} {
		name := filepath.Join(t.TempDir(), "f")
		w, err := client.FS().Create(t.Context(), name, execclient.WriteOptions{Atomic: atomic})
		if err != nil {
			t.Fatal(err)
		}
		_ = (<-conns).Close()
		<-resumed
		if err := w.Close(); !errors.Is(err, execclient.ErrClosed) {
			_, missing := os.Stat(name)
			t.Errorf("atomic: %v: Close returns %v; the file: %v", atomic, err, missing)
		}
	}
}

// TestBothWalksAgree compares fs/walk with the walk for servers without it.
func TestBothWalksAgree(t *testing.T) {
	client, _ := connect(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/b/c", "a/.hidden/deep", "z", "odd name%"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"a/up": root, "a/b/side": "../../z", "z/file2": "file", "z/nowhere": "no", "link": "a"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	roots := []string{root, "file://" + root, filepath.Join(root, "link"), filepath.Join(root, "z/file"), filepath.Join(root, "no")}
	for i := range 100 {
		o := execproto.WalkOptions{
			MaxDepth: uint64(rng.IntN(5)), MaxDirectories: uint64(rng.IntN(12)), MaxEntries: uint64(rng.IntN(40)),
			FollowDirectorySymlinks: rng.IntN(2) == 0, PruneHiddenDirectories: rng.IntN(2) == 0,
		}
		at := roots[i%len(roots)]
		want, wantErr := client.FS().Walk(t.Context(), at, o)
		got, err := client.FS().WalkByReadDir(t.Context(), at, o)
		if len(want.Entries)+len(got.Entries) > 0 && !reflect.DeepEqual(got.Entries, want.Entries) ||
			got.Truncated != want.Truncated || len(got.Errors) != len(want.Errors) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) ||
			errors.Is(err, fs.ErrInvalid) != errors.Is(wantErr, fs.ErrInvalid) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%s %+v:\n%+v, %v\nwant\n%+v, %v", at, o, got, err, want, wantErr)
		}
	}
}

func TestJoinPath(t *testing.T) {
	for _, tt := range [][3]string{
		{"/", "a", "/a"}, {"/a", "b/c", "/a/b/c"}, {"file:///", "a", "file:///a"}, {"file:///a/", "b c%", "file:///a/b%20c%25"},
		{"file:///a", "..", "file:///a"}, {"/a", "..", "/a"}, {"/a", ".", "/a"}, {"file:///a", ".", "file:///a"},
	} {
		if got := execclient.JoinPath(tt[0], tt[1]); got != tt[2] {
			t.Errorf("JoinPath(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

func TestSandboxesWithoutTheirDirectories(t *testing.T) {
	const dirs = `"cwd":"file:///w","workspaceRoots":["file:///w"],`
	profile := func(entries string) string {
		return `{` + dirs + `"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]},"network":"restricted"}}`
	}
	root := `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	for _, tt := range []struct {
		name, sandbox  string
		dirs, confines bool
	}{
		{"only absolute", profile(root), false, true},
		{"project roots", profile(root + `,{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`), true, true},
		{"a relative pattern", profile(root + `,{"path":{"type":"glob_pattern","pattern":"**/*.key"},"access":"deny"}`), true, true},
		{"an absolute pattern", profile(root + `,{"path":{"type":"glob_pattern","pattern":"/w/**/*.key"},"access":"deny"}`), false, true},
		{"everything", `{` + dirs + `"permissions":{"type":"disabled"}}`, false, false},
		{"not understood", `{` + dirs + `"permissions":7}`, true, true},
		{"our own, read-only", string(execclient.ReadOnlySandbox()), false, true},
		{"our own, workspace", string(execclient.WorkspaceSandbox("/w")), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, confines := execclient.FileSandbox(json.RawMessage(tt.sandbox))
			var members map[string]json.RawMessage
			if err := json.Unmarshal(raw, &members); err != nil {
				t.Fatal(err)
			}
			if _, ok := members["workspaceRoots"]; ok != tt.dirs || confines != tt.confines || members["permissions"] == nil {
				t.Errorf("got raw %s, confines %v; want ok %v, confines %v", raw, confines, tt.dirs, tt.confines)
			}
		})
	}
}
