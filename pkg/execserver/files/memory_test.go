package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/sandbox/runner"
)

// sharing returns shares with the given memory, and a context with an account of them.
func sharing(t *testing.T, memory int64) (*share.Shares, context.Context) {
	s := share.New(map[observe.Limit]int64{observe.LimitMemory: memory, observe.LimitFileCalls: 10})
	return s, share.With(t.Context(), s.Open("me", true))
}

func usedMemory(s *share.Shares) int64 {
	for _, u := range s.Usage() {
		if u.Limit == observe.LimitMemory {
			return u.Used
		}
	}
	return -1
}

// ask carries out a request about a path in this process.
func ask(t *testing.T, ctx context.Context, method, path string) reply.Result {
	t.Helper()
	r := Request{operation: fsops.Find(method)}
	var err error
	if r.call, err = r.operation.Decode(fmt.Appendf(nil, `{"path":%q}`, path)); err != nil {
		t.Fatal(err)
	}
	if err := r.call.Resolve(""); err != nil {
		t.Fatal(err)
	}
	srv := NewServer(Options{ReadsLarge: func(int64) {}})
	result, err := serverFiles{srv}.run(ctx, &r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// contents returns the data of a result of fs/readFile.
func contents(r reply.Result) (data []byte, err error) {
	switch r := r.(type) {
	case reply.Followed:
		defer r.Then()
		return contents(r.Result)
	case execproto.ReadFileResult:
		data = r.DataBase64
	case reply.Large:
		buf := make([]byte, reply.Chunk)
		for {
			piece, err := r.Data(buf)
			data = append(data, piece...)
			if errors.Is(err, io.EOF) {
				return data, nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

// TestFilesAreReadWithinTheShare reads files with enough memory in the share, so that they are
// held until they are sent, and with too little, so that they are read while they are sent.
func TestFilesAreReadWithinTheShare(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1000, uncounted, uncounted + 1, reply.MaxInline, reply.MaxInline + 1, 3*reply.Chunk + 5} {
		path := filepath.Join(dir, fmt.Sprint(size))
		want := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, memory := range []int64{64 << 20, 1} {
			shares, ctx := sharing(t, memory)
			r := ask(t, ctx, execproto.MethodFSReadFile, path)
			if used, want := usedMemory(shares), size > uncounted && memory > 1; (used > 0) != want {
				t.Errorf("%d bytes with %d of memory: got %d held, want some: %v", size, memory, used, want)
			}
			if got, err := contents(r); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes with %d of memory: got other contents, of %d bytes, error %v", size, memory, len(got), err)
			}
			if used := usedMemory(shares); used != 0 {
				t.Errorf("%d bytes with %d of memory: after it was sent got %d held, want none", size, memory, used)
			}
		}
	}
}

// TestAFileIsReadAheadIntoItsSize reads files ahead whose size is known. Scenario: a file of 1 MiB
// was read into two pieces of 768 KiB each, and each request took a fifth more processor time.
func TestAFileIsReadAheadIntoItsSize(t *testing.T) {
	for _, size := range []int{1, 1 << 20, 2 * reply.Chunk} {
		for _, wrong := range []int{0, -1, 1} { // how much the file grows after its size was read
			_, ctx := sharing(t, 64<<20)
			m := &memory{account: share.From(ctx)}
			want := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
			pieces, whole, err := m.readAhead(bytes.NewReader(want), int64(size-wrong))
			if got := bytes.Join(pieces, nil); err != nil || !whole || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, a size of %d: got %d bytes, whole %v, error %v", size, size-wrong, len(got), whole, err)
			}
			allocated := 0
			for i, p := range pieces {
				if allocated += cap(p); len(p) != reply.Chunk && i < len(pieces)-1 {
					t.Errorf("%d bytes, a size of %d: piece %d of %d has %d bytes", size, size-wrong, i, len(pieces), len(p))
				}
			}
			if most := size + 64<<10; wrong == 0 && allocated > most {
				t.Errorf("%d bytes: got %d bytes of memory, want at most %d", size, allocated, most)
			}
		}
	}
}

func TestListingsWaitForMemory(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		shares, ctx := sharing(t, 1)
		first := ask(t, ctx, execproto.MethodFSReadDirectory, dir)
		if used := usedMemory(shares); used != 100*entrySize {
			t.Errorf("got %d held, want %d", used, 100*entrySize)
		}
		done := make(chan reply.Result, 1)
		go func() { done <- ask(t, ctx, execproto.MethodFSReadDirectory, dir) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Error("the second listing was made, although the first one is not sent")
		}
		first.(reply.Followed).Then()
		(<-done).(reply.Followed).Then()
		if used := usedMemory(shares); used != 0 {
			t.Errorf("in the end got %d held, want none", used)
		}
	})
}

// TestWaitingForMemoryTakesNoTurn makes listings and blocks of a client wait for memory,
// because the client reads no answers. Meanwhile, requests that need no memory must be
// answered. In an earlier version, the waiting requests occupied all calls of Blocking.
func TestWaitingForMemoryTakesNoTurn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		shares, ctx := sharing(t, 1)
		account := share.From(ctx)
		if err := account.Take(observe.LimitMemory, 1); err != nil {
			t.Fatal(err)
		}
		f, err := fsops.OpenFile(path, &execproto.OpenParams{Mode: execproto.OpenRead}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Abandon()
		const turns = 10 // the limit in sharing
		done := make(chan reply.Result, 2*turns)
		for range turns {
			go func() { done <- ask(t, ctx, execproto.MethodFSReadDirectory, dir) }()
			go func() {
				r, err := serverFile{f}.readBlock(ctx, 0, 1)
				if err != nil {
					t.Error(err)
				}
				done <- r
			}()
		}
		synctest.Wait()
		ask(t, ctx, execproto.MethodFSGetMetadata, path)
		account.Give(observe.LimitMemory, 1)
		for range 2 * turns {
			(<-done).(reply.Followed).Then()
		}
		if used := usedMemory(shares); used != 0 {
			t.Errorf("in the end got %d held, want none", used)
		}
	})
}

// TestConfinedChangesDoNotWaitForMemory begins a write while the messages of other writes hold
// all memory. It must not wait for them, because they wait for nothing else.
func TestConfinedChangesDoNotWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := sharing(t, 1)
		if err := share.From(ctx).Take(observe.LimitMemory, 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		began := errors.New("it has begun")
		srv := NewServer(Options{Sandboxes: func() (*runner.Runtime, error) { return nil, began }, Events: new(observe.Events)})
		r := Request{operation: fsops.Find(execproto.MethodFSRemove)}
		var err error
		if r.call, err = r.operation.Decode([]byte(`{"path":"file:///f"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := (confinedFiles{srv, &runner.Confinement{}}).run(ctx, &r); !errors.Is(err, began) {
			t.Errorf("got error %v, want %v", err, began)
		}
	})
}
