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
		p.Write(make([]byte, 2*maxHeldInput), nil, func(w WriteResult) { result <- w })
		select {
		case w := <-result:
			t.Fatalf("two megabytes were accepted: %+v", w)
		default:
		}
		p.Terminate()
		if w := <-result; w.Status != WriteStdinClosed {
			t.Errorf("got %+v, want w.Status %v", w, WriteStdinClosed)
		}
		await(t, "close", p.Done())
	})
}

// TestInputIsHeld writes to a program that does not read yet. Input up to the limit is accepted at
// once, and only once. Further input waits, even if it is small. The program gets all of it in the
// order in which it was sent.
func TestInputIsHeld(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := shell("cat " + gate + "; exec cat")
		spec.PipeStdin = true
		p, r := start(t, g, spec)
		var want bytes.Buffer
		write := func(id string, size int) (answered chan WriteResult) {
			data := bytes.Repeat([]byte(id), size)
			want.Write(data)
			answered = make(chan WriteResult, 2)
			for range 2 { // once only
				p.Write(data, &id, func(w WriteResult) { answered <- w })
			}
			clear(data) // the buffer belongs to the caller again
			return answered
		}
		const piece = 32 << 10
		for i := range maxHeldInput / piece {
			answered := write(string(rune('A'+i)), piece)
			for range 2 {
				select {
				case w := <-answered:
					if w.Status != WriteAccepted {
						t.Fatalf("piece %d: %+v", i, w)
					}
				default:
					t.Fatalf("piece %d waits", i)
				}
			}
		}
		large := func(id string, size int) chan WriteResult {
			data := bytes.Repeat([]byte(id), size)
			want.Write(data)
			answered := make(chan WriteResult, 1)
			p.Write(data, &id, func(w WriteResult) { answered <- w })
			return answered
		}
		waiting := []chan WriteResult{large("x", 2*maxHeldInput), large("y", 1)}
		closed := make(chan error, 1)
		p.CloseStdin(func(err error) { closed <- err })
		for i, answered := range waiting {
			select {
			case w := <-answered:
				t.Errorf("write %d, which there is no room for: %+v", i, w)
			default:
			}
		}
		if err := os.WriteFile(gate, nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, answered := range waiting {
			if w := <-answered; w.Status != WriteAccepted {
				t.Errorf("got %+v, want w.Status %v", w, WriteAccepted)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		await(t, "close", p.Done())
		if r.text(Stdout) != want.String() {
			t.Error("the program got something else")
		}
	})
}

// TestARepeatedWriteWaitsForTheFirst sends a write again while its first copy
// waits for a pipe that nobody reads.
func TestARepeatedWriteWaitsForTheFirst(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for name, tt := range map[string]struct {
			kill   bool // the event that ends the wait
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
			data := bytes.Repeat([]byte("0123456789abcdef"), 2*maxHeldInput/16)
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
					t.Errorf("%s: got %+v; want w.Status %v, w.Err nil", name, w, tt.status)
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

// TestAWriteThatFailedIsNotRemembered repeats a write after the first copy was refused.
func TestAWriteThatFailedIsNotRemembered(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("sleep 1000")
		spec.PipeStdin = true
		p, _ := start(t, g, spec)
		id := "id"
		result := make(chan WriteResult, 1)
		p.Write(make([]byte, 2*maxHeldInput), &id, func(w WriteResult) { result <- w })
		p.Terminate()
		for range 2 {
			if w := <-result; w.Status != WriteStdinClosed {
				t.Errorf("got %+v, want w.Status %v", w, WriteStdinClosed)
			}
			p.Write(make([]byte, 2*maxHeldInput), &id, func(w WriteResult) { result <- w })
		}
		await(t, "close", p.Done())
	})
}
