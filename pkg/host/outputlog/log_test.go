package outputlog

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/host/process"
)

// newLog makes a log in a directory of the test.
func newLog(t *testing.T, o Options) (*Log, *os.Root) {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	l, err := Create(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return l, root
}

// chunk returns the content that a test appends with a number. Its size depends on the number.
func chunk(seq uint64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%07d\n", seq)), 1+int(seq*7919%4000))
}

// collect reads all chunks after a number, and the ranges of missing ones.
func collect(t *testing.T, l *Log, after uint64, most int) (chunks []Chunk, dropped []Range) {
	t.Helper()
	for {
		r, err := l.Read(after, most)
		if err != nil {
			t.Fatal(err)
		}
		if r.Dropped != nil {
			dropped = append(dropped, *r.Dropped)
			after = r.Dropped.Last
		}
		if len(r.Chunks) == 0 {
			if r.Dropped == nil {
				return chunks, dropped
			}
			continue
		}
		chunks = append(chunks, r.Chunks...)
		after = r.Chunks[len(r.Chunks)-1].Seq
	}
}

// check fails unless chunks and ranges together are the events from first to last, except for exit.
func check(t *testing.T, chunks []Chunk, dropped []Range, first, last, exit uint64) {
	t.Helper()
	for seq := first; seq <= last; {
		switch {
		case seq == exit:
			seq++
		case len(dropped) > 0 && dropped[0].First == seq:
			seq = dropped[0].Last + 1
			dropped = dropped[1:]
		case len(chunks) > 0 && chunks[0].Seq == seq:
			if !bytes.Equal(chunks[0].Data, chunk(seq)) {
				t.Fatalf("chunk %d has other bytes", seq)
			}
			chunks = chunks[1:]
			seq++
		default:
			t.Fatalf("event %d is neither there nor told as dropped (chunks left: %d, ranges: %v)", seq, len(chunks), dropped)
		}
	}
	if len(chunks) > 0 || len(dropped) > 0 {
		t.Fatalf("more than was written: %d chunks, %v", len(chunks), dropped)
	}
}

func TestDropsOldestAndTellsRange(t *testing.T) {
	l, root := newLog(t, Options{Bytes: MinBytes, WhenFull: DropOldest})
	const n = 400
	exit := uint64(250)
	for seq := uint64(1); seq <= n; seq++ {
		if seq == exit {
			if err := l.Exit(seq, 7, true, ""); err != nil {
				t.Fatal(err)
			}
			continue
		}
		l.Append(t.Context(), seq, process.Stdout, chunk(seq))
		if s := l.State(); s.Bytes > MinBytes {
			t.Fatalf("after event %d the log has %d bytes", seq, s.Bytes)
		}
	}
	if err := l.Close(n+1, time.Now(), Ending{Cause: "exit", BytesIn: 1, BytesOut: 2}); err != nil {
		t.Fatal(err)
	}
	reopened, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]*Log{"of the writer": l, "opened again": reopened} {
		for _, after := range []uint64{0, 1, 200, 249, 250, 399, 400} {
			chunks, dropped := collect(t, log, after, 100_000)
			check(t, chunks, dropped, after+1, n, exit)
			if after == 0 && len(dropped) == 0 {
				t.Errorf("%s: nothing was dropped", name)
			}
		}
		if s := log.Status(); !s.Closed || s.ExitCode != 7 || !s.Denied || s.CloseSeq != n+1 || s.Ending != (Ending{"exit", 1, 2}) {
			t.Errorf("%s: status %+v", name, s)
		}
	}
}

// TestWaits: a process waits for space, which a reader frees by consuming.
func TestWaits(t *testing.T) {
	l, _ := newLog(t, Options{Bytes: MinBytes, WhenFull: Wait})
	const n = 300
	ctx := t.Context()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := uint64(1); seq <= n; seq++ {
			l.Append(ctx, seq, process.Stdout, chunk(seq))
		}
	}()
	var all []Chunk
	waited := false
	for after := uint64(0); after < n; {
		r, err := l.Read(after, 50_000)
		if err != nil {
			t.Fatal(err)
		}
		if r.Dropped != nil {
			t.Fatalf("dropped %v", *r.Dropped)
		}
		waited = waited || r.Waiting == "limit"
		if len(r.Chunks) == 0 {
			l.Consume(after)
			l.Wait(ctx, after, time.Minute)
			continue
		}
		all = append(all, r.Chunks...)
		after = r.Chunks[len(r.Chunks)-1].Seq
	}
	<-done
	check(t, all, nil, 1, n, 0)
	if !waited {
		t.Error("the process has never waited")
	}
	if s := l.State(); s.Bytes > MinBytes {
		t.Errorf("the log has %d bytes", s.Bytes)
	}
}

// TestEndOfWaiting tests the events that end a wait for space when no reader consumes.
func TestEndOfWaiting(t *testing.T) {
	for name, end := range map[string]func(*Log, context.CancelFunc){
		"the context":           func(_ *Log, cancel context.CancelFunc) { cancel() },
		"the process is killed": func(l *Log, _ context.CancelFunc) { l.Release() },
		"a signal":              func(l *Log, _ context.CancelFunc) { l.Overshoot() },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLog(t, Options{Bytes: MinBytes, WhenFull: Wait})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seq := uint64(0)
			for l.State().Bytes+int64(len(chunk(seq+1)))+recordHead+int64(len(mark)) <= MinBytes {
				seq++
				l.Append(ctx, seq, process.PTY, chunk(seq))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.Append(ctx, seq+1, process.PTY, chunk(seq+1))
			}()
			changed := l.changedNow()
			for l.State().Waiting == "" {
				<-changed
				changed = l.changedNow()
			}
			end(l, cancel)
			<-done
			chunks, dropped := collect(t, l, 0, MinBytes)
			check(t, chunks, dropped, 1, seq+1, 0)
			if lost := len(dropped) > 0; lost != (name != "a signal") {
				t.Errorf("dropped %v", dropped)
			}
		})
	}
}

// changedNow returns the channel that is closed at the next change.
func (l *Log) changedNow() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting != "" {
		c := make(chan struct{})
		close(c)
		return c
	}
	return l.changed
}

// TestDiskFull simulates a disk that accepts some bytes, and later only as many bytes as were
// freed. A failing write may have written a part.
func TestDiskFull(t *testing.T) {
	const size = 600_000
	for _, policy := range []WhenFull{DropOldest, Wait} {
		t.Run(string(policy), func(t *testing.T) {
			dir := ""
			full := 0
			l, root := newLog(t, Options{Bytes: 64 << 20, WhenFull: policy, write: func(f *os.File, b []byte) (int, error) {
				room := size - used(t, dir)
				if room >= len(b) {
					return f.Write(b)
				}
				full++
				n, err := f.Write(b[:max(room, 0)])
				if err == nil {
					err = syscall.ENOSPC
				}
				return n, err
			}})
			dir = root.Name()
			l.opts.Bytes = MinBytes // small segments
			ctx := t.Context()
			const n = 200
			done := make(chan struct{})
			go func() {
				defer close(done)
				for seq := uint64(1); seq <= n; seq++ {
					l.Append(ctx, seq, process.Stderr, chunk(seq))
				}
			}()
			var chunks []Chunk
			var dropped []Range
			for after := uint64(0); after < n; {
				r, err := l.Read(after, 50_000)
				if err != nil {
					t.Fatal(err)
				}
				if r.Dropped != nil {
					dropped = append(dropped, *r.Dropped)
					after = r.Dropped.Last
				}
				for _, c := range r.Chunks {
					chunks = append(chunks, c)
					after = c.Seq
				}
				if policy == Wait {
					l.Consume(after)
				}
				if len(r.Chunks) == 0 {
					l.Wait(ctx, after, time.Minute)
				}
			}
			<-done
			check(t, chunks, dropped, 1, n, 0)
			if full == 0 {
				t.Error("the disk was never full")
			}
			if policy == Wait && len(dropped) > 0 {
				t.Errorf("dropped %v", dropped)
			}
		})
	}
}

// used returns how many bytes the segments of a directory have.
func used(t *testing.T, dir string) int {
	names, err := filepath.Glob(dir + "/*.out")
	if err != nil {
		t.Error(err)
	}
	sum := 0
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			sum += int(info.Size())
		}
	}
	return sum
}

// TestKilledWriter truncates the last segment anywhere, as if the writer was killed. All complete
// records can still be read.
func TestKilledWriter(t *testing.T) {
	l, root := newLog(t, Options{Bytes: 64 << 20, WhenFull: DropOldest})
	sizes := []int64{int64(len(mark))}
	for seq := uint64(1); seq <= 5; seq++ {
		l.Append(t.Context(), seq, process.Stdout, chunk(seq))
		sizes = append(sizes, l.State().Bytes)
	}
	name := l.segments[0].name()
	whole, err := root.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 3, len(mark), len(mark) + 5, len(whole) / 2, len(whole) - 1, len(whole)} {
		if err := root.WriteFile(name, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		cut, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		chunks, dropped := collect(t, cut, 0, 1<<20)
		kept := 0
		for _, s := range sizes[1:] {
			if int64(size) >= s {
				kept++
			}
		}
		if len(chunks) != kept || len(dropped) > 0 {
			t.Errorf("of %d bytes: %d chunks, dropped %v, want %d chunks", size, len(chunks), dropped, kept)
		}
	}
}

// TestFollowers has several readers of a growing log. They read with different sizes.
func TestFollowers(t *testing.T) {
	l, _ := newLog(t, Options{Bytes: 64 << 20, WhenFull: DropOldest})
	const n = 500
	ctx := t.Context()
	results := make(chan []Chunk)
	for i := range 4 {
		go func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			var got []Chunk
			for after := uint64(0); after < n; {
				l.Wait(ctx, after, time.Minute)
				r, err := l.Read(after, 1+random.IntN(200_000))
				if err != nil || r.Dropped != nil {
					t.Errorf("follower %d after %d: %v, dropped %v", i, after, err, r.Dropped)
					break
				}
				if len(r.Chunks) > 0 {
					got = append(got, r.Chunks...)
					after = got[len(got)-1].Seq
				}
			}
			results <- got
		}()
	}
	for seq := uint64(1); seq <= n; seq++ {
		l.Append(ctx, seq, process.Stdout, chunk(seq))
	}
	for range 4 {
		check(t, <-results, nil, 1, n, 0)
	}
}

// TestForeignFiles: links, and files that are not segments, are ignored.
func TestForeignFiles(t *testing.T) {
	l, root := newLog(t, Options{Bytes: MinBytes, WhenFull: DropOldest})
	l.Append(t.Context(), 1, process.Stdout, []byte("x"))
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, appendRecord([]byte(mark), Chunk{9, process.Stdout, 0, []byte("y")}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000009.out", "9.out"} {
		if err := root.Symlink(other, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Mkdir("00000000000000000008.out", 0o700); err != nil {
		t.Fatal(err)
	}
	opened, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	chunks, dropped := collect(t, opened, 0, 100)
	if len(chunks) != 1 || chunks[0].Seq != 1 || dropped != nil {
		t.Errorf("chunks %v, dropped %v", chunks, dropped)
	}
}

// FuzzSegment reads any bytes as a segment. The chunks must have increasing numbers, and
// must be unchanged when written and read again.
func FuzzSegment(f *testing.F) {
	good := []byte(mark)
	for seq := uint64(1); seq <= 3; seq++ {
		good = appendRecord(good, Chunk{seq * 3, process.Stderr, time.Duration(seq) * time.Hour, []byte("some output\n")})
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(mark))
	f.Add(appendRecord([]byte(mark), Chunk{0, process.Stdout, 0, []byte("x")}))
	f.Add(append([]byte(mark), bytes.Repeat([]byte{0xff}, 64)...))
	f.Add(slices.Concat(good, good[len(mark):]))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := root.WriteFile("00000000000000000001.out", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(statusName, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		chunks, _ := collect(t, l, 0, 1<<20)
		again := []byte(mark)
		last := uint64(0)
		for _, c := range chunks {
			if c.Seq <= last || len(c.Data) == 0 || len(c.Data) > MaxChunk {
				t.Fatalf("chunk %d of %d bytes after %d", c.Seq, len(c.Data), last)
			}
			last = c.Seq
			again = appendRecord(again, c)
		}
		if !bytes.HasPrefix(text, again) && len(chunks) > 0 {
			t.Fatalf("%d chunks are not what the segment begins with", len(chunks))
		}
	})
}

// FuzzStatus reads any bytes as the file status.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"exited":true,"exitSeq":4,"exitCode":-1,"closed":true,"closeSeq":5,"refusal":"x"}   `))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"exitCode":1e99}`))
	f.Add(bytes.Repeat([]byte(" "), statusBytes+1))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStatus(text)
		if err != nil && s != (Status{}) {
			t.Fatalf("%v, and %+v", err, s)
		}
	})
}

// TestRecordsHaveTimes: a record has the whole seconds since the creation of the log, up to a limit.
func TestRecordsHaveTimes(t *testing.T) {
	for elapsed, want := range map[time.Duration]time.Duration{
		0: 0, -time.Second: 0, 1999 * time.Millisecond: time.Second, 100 * 24 * time.Hour: 100 * 24 * time.Hour, 1000 * 24 * time.Hour: maxSeconds * time.Second,
	} {
		c, err := parseRecord(appendRecord(nil, Chunk{7, process.Stdout, elapsed, []byte("x")}))
		if err != nil || c.Elapsed != want || c.Seq != 7 {
			t.Errorf("%v: got %+v, %v; want %v", elapsed, c, err, want)
		}
	}
}
