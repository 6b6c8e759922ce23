//go:build linux

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestStdin(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("cat")
		spec.PipeStdin = true
		p, r := start(t, g, spec)
		var want bytes.Buffer
		results := make(chan WriteResult, 200)
		for i := range 100 {
			data := bytes.Repeat([]byte{byte('a' + i%26)}, 10_000)
			want.Write(data)
			id := strconv.Itoa(i)
			p.Write(data, &id, func(w WriteResult) { results <- w })
			p.Write(data, &id, func(w WriteResult) { results <- w }) // once only
		}
		closed := make(chan error, 1)
		p.CloseStdin(func(err error) { closed <- err })
		for range 200 {
			if w := <-results; w.Status != WriteAccepted {
				t.Fatalf("write: %+v", w)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		p.Write([]byte("x"), nil, func(w WriteResult) {
			if w.Status != WriteStdinClosed {
				t.Errorf("write after the end: %+v", w)
			}
		})
		await(t, "close", p.Done())
		if r.text(Stdout) != want.String() {
			t.Error("cat gave back something else")
		}
	})
}

func TestBlockedWritesEndWithTheProcess(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("sleep 1000")
		spec.PipeStdin = true
		p, _ := start(t, g, spec)
		result := make(chan WriteResult, 1)
		p.Write(make([]byte, 1<<20), nil, func(w WriteResult) { result <- w })
		select {
		case w := <-result:
			t.Fatalf("the pipe took a megabyte: %+v", w)
		default:
		}
		p.Terminate()
		if w := <-result; w.Status != WriteStdinClosed {
			t.Errorf("%+v", w)
		}
		await(t, "close", p.Done())
	})
}

// TestARepeatedWriteWaitsForTheFirst sends a write again while its first copy
// waits for a pipe that nobody reads.
func TestARepeatedWriteWaitsForTheFirst(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for name, tt := range map[string]struct {
			kill   bool // what ends the wait
			status WriteStatus
			copies int
		}{
			"and is accepted with it": {false, WriteAccepted, 2},
			"and fails with it":       {true, WriteStdinClosed, 0},
		} {
			gate := filepath.Join(t.TempDir(), "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			spec := shell("cat " + gate + "; exec cat")
			spec.PipeStdin = true
			p, r := start(t, g, spec)
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			results := make(chan WriteResult, 3)
			for _, id := range []string{"first", "second", "first"} {
				p.Write(data, &id, func(w WriteResult) { results <- w })
			}
			select {
			case w := <-results:
				t.Fatalf("%s: answered while it waits: %+v", name, w)
			default:
			}
			closed := make(chan error, 2)
			p.CloseStdin(func(err error) { closed <- err })
			p.CloseStdin(func(err error) { closed <- err })
			if tt.kill {
				p.Terminate()
			} else if err := os.WriteFile(gate, nil, 0); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if w := <-results; w.Status != tt.status || w.Err != nil {
					t.Errorf("%s: %+v", name, w)
				}
			}
			for range 2 {
				if err := <-closed; err != nil {
					t.Errorf("%s: close: %v", name, err)
				}
			}
			await(t, "close", p.Done())
			if r.text(Stdout) != string(bytes.Repeat(data, tt.copies)) {
				t.Errorf("%s: %d bytes came back, want %d of %d", name, len(r.text(Stdout)), tt.copies, len(data))
			}
		}
	})
}

// TestAWriteThatFailedIsNotRemembered sends a write again after the first copy
// was refused.
func TestAWriteThatFailedIsNotRemembered(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("sleep 1000")
		spec.PipeStdin = true
		p, _ := start(t, g, spec)
		id := "id"
		result := make(chan WriteResult, 1)
		p.Write(make([]byte, 1<<20), &id, func(w WriteResult) { result <- w })
		p.Terminate()
		for range 2 {
			if w := <-result; w.Status != WriteStdinClosed {
				t.Errorf("%+v", w)
			}
			p.Write(make([]byte, 1<<20), &id, func(w WriteResult) { result <- w })
		}
		await(t, "close", p.Done())
	})
}
