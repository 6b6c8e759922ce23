package noise

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// frame returns the plaintext that carries a message, in one piece.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

func TestChunks(t *testing.T) {
	for _, tt := range []struct {
		length int
		sizes  []int
	}{
		{1, []int{5}},
		{MaxChunk - 5, []int{MaxChunk - 1}},
		{MaxChunk - 4, []int{MaxChunk}},
		{MaxChunk - 3, []int{MaxChunk, 1}},
		{2*MaxChunk - 4, []int{MaxChunk, MaxChunk}},
		{2*MaxChunk - 3, []int{MaxChunk, MaxChunk, 1}},
		// Codex CLI was observed to split this message into 68 chunks and a rest.
		{4194321, append(slices.Repeat([]int{MaxChunk}, 68), 4194325-68*MaxChunk)},
	} {
		message := bytes.Repeat([]byte("0123456789abcdef"), tt.length/16+1)[:tt.length]
		chunks, err := Chunks(message)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		var all []byte
		for chunk := range chunks {
			sizes = append(sizes, len(chunk))
			all = append(all, chunk...)
		}
		if !slices.Equal(sizes, tt.sizes) || !bytes.Equal(all, frame(message)) {
			t.Errorf("%d bytes were cut into %v, want %v", tt.length, sizes, tt.sizes)
		}
	}
	_, err := Chunks(nil)
	wantError(t, "empty", err, ErrFraming, "Noise relay JSON-RPC message has invalid length")
	_, err = Chunks(make([]byte, MaxMessage+1))
	wantError(t, "long", err, ErrFraming, "Noise relay JSON-RPC message exceeds maximum length")
	for range mustChunks(t, make([]byte, 3*MaxChunk)) {
		break // no panic
	}
}

func mustChunks(t *testing.T, message []byte) func(func([]byte) bool) {
	t.Helper()
	chunks, err := Chunks(message)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// TestLongestMessage sends it both ways.
func TestLongestMessage(t *testing.T) {
	message := make([]byte, MaxMessage)
	message[MaxMessage-1] = 1
	var r MessageReader
	var got []byte
	for chunk := range mustChunks(t, message) {
		if err := r.Read(chunk, func(m []byte) error { got = m; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, message) {
		t.Errorf("%d bytes arrived", len(got))
	}
}

// TestAnyCutting splits messages at random, and adds empty records.
func TestAnyCutting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var want [][]byte
		var stream []byte
		for range rng.IntN(8) {
			message := bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN([]int{3, 100, 70000}[rng.IntN(3)]))
			want = append(want, message)
			stream = append(stream, frame(message)...)
		}
		var r MessageReader
		var got [][]byte
		most := []int{1, 7, MaxChunk}[rng.IntN(3)]
		for len(stream) > 0 {
			n := min(len(stream), rng.IntN(most+1))
			if err := r.Read(stream[:n], func(m []byte) error { got = append(got, m); return nil }); err != nil {
				t.Fatal(err)
			}
			clear(stream[:n]) // the emitted message must be a copy
			stream = stream[n:]
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%d messages arrived of %d, or others", len(got), len(want))
		}
	}
}

func TestReaderLimits(t *testing.T) {
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, tt := range []struct {
		name  string
		parts [][]byte
		text  string // "": accepted
	}{
		{"longest record", [][]byte{append(length(1<<20), make([]byte, MaxChunk-4)...)}, ""},
		{"longer record", [][]byte{append(length(1<<20), make([]byte, MaxChunk-3)...)}, "Noise relay plaintext record exceeds maximum length"},
		{"greatest length", [][]byte{length(MaxMessage)}, ""},
		{"greater length", [][]byte{length(MaxMessage + 1)}, "Noise relay JSON-RPC message has invalid length"},
		{"length in parts", [][]byte{length(1 << 31)[:1], length(1 << 31)[1:3], length(1 << 31)[3:]}, "Noise relay JSON-RPC message has invalid length"},
		{"half a length", [][]byte{length(1 << 31)[:3]}, ""},
		{"length zero", [][]byte{length(0)}, "Noise relay JSON-RPC message has invalid length"},
		{"second length zero", [][]byte{append(frame([]byte("1")), length(0)...)}, "Noise relay JSON-RPC message has invalid length"},
		{"empty", [][]byte{nil, {}}, ""},
	} {
		var r MessageReader
		var err error
		for _, part := range tt.parts {
			err = r.Read(part, func([]byte) error { return nil })
		}
		if tt.text == "" {
			if err != nil {
				t.Errorf("%s: got error %v, want no error", tt.name, err)
			}
			continue
		}
		wantError(t, tt.name, err, ErrFraming, tt.text)
		if again := r.Read(nil, nil); again != err {
			t.Errorf("%s: after it Read returned %v", tt.name, again)
		}
	}
}

// TestReassemblyLimit: the end of the longest message arrives alone, or together with one byte of
// the next message.
func TestReassemblyLimit(t *testing.T) {
	const tail = 100
	for _, extra := range []int{0, 1} {
		r := MessageReader{got: headerSize, length: MaxMessage, message: make([]byte, MaxMessage-tail, MaxMessage)}
		emitted := 0
		err := r.Read(make([]byte, tail+extra), func([]byte) error { emitted++; return nil })
		if extra == 0 {
			if err != nil || emitted != 1 {
				t.Errorf("the longest message: %d messages, %v", emitted, err)
			}
			continue
		}
		wantError(t, "one byte more", err, ErrFraming, "Noise relay JSON-RPC reassembly buffer exceeds maximum length")
	}
}

// TestMemoryFollowsWhatArrives announces a message of the maximum length and
// sends only little of it: memory must not be allocated for the rest.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	var r MessageReader
	part := binary.BigEndian.AppendUint32(nil, MaxMessage)
	for sent := 0; sent < 4<<20; {
		if err := r.Read(part, nil); err != nil {
			t.Fatal(err)
		}
		if sent += len(part); cap(r.message) > 2*sent+MaxChunk {
			t.Fatalf("%d bytes are held after %d", cap(r.message), sent)
		}
		part = make([]byte, MaxChunk)
	}
}

func TestEmitFails(t *testing.T) {
	var r MessageReader
	no := errors.New("no")
	calls := 0
	emit := func([]byte) error { calls++; return no }
	two := append(frame([]byte("1")), frame([]byte("2"))...)
	if err := r.Read(two, emit); err != no {
		t.Errorf("Read returned %v", err)
	}
	if err := r.Read(two, emit); err != no || calls != 1 {
		t.Errorf("Read returned %v after %d calls", err, calls)
	}
}

// FuzzMessages compares the reader with a simple one that gets the whole stream.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00\x00\x01"), uint16(1))
	f.Add([]byte("\x00\x00\x00\x00"), uint16(3))
	f.Add([]byte("\x04\x00\x00\x00abc"), uint16(9))
	f.Fuzz(func(t *testing.T, stream []byte, size uint16) {
		if size == 0 || size > MaxChunk {
			return
		}
		want, wantErr := whole(stream)
		var got [][]byte
		var err error
		var r MessageReader
		for part := range slices.Chunk(stream, int(size)) {
			if err = r.Read(part, func(m []byte) error { got = append(got, m); return nil }); err != nil {
				break
			}
		}
		if (err != nil) != wantErr || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%q, %v, want %q, error %v", got, err, want, wantErr)
		}
	})
}

// whole returns the messages of a stream, and whether it has a wrong length.
func whole(stream []byte) (messages [][]byte, wrong bool) {
	for len(stream) >= 4 {
		n := binary.BigEndian.Uint32(stream)
		if n == 0 || n > 64<<20 {
			return messages, true
		}
		if uint64(len(stream)-4) < uint64(n) {
			break
		}
		messages = append(messages, stream[4:4+n])
		stream = stream[4+n:]
	}
	return messages, false
}

func BenchmarkMessage(b *testing.B) {
	harness, executor := sessions(b)
	message := make([]byte, 1<<20)
	var r MessageReader
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	for b.Loop() {
		chunks, err := Chunks(message)
		if err != nil {
			b.Fatal(err)
		}
		got := 0
		for chunk := range chunks {
			record, err := harness.Seal(nil, chunk)
			if err != nil {
				b.Fatal(err)
			}
			plaintext, err := executor.Open(record[:0], record)
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Read(plaintext, func(m []byte) error { got += len(m); return nil }); err != nil {
				b.Fatal(err)
			}
		}
		if got != len(message) {
			b.Fatalf("%d bytes arrived", got)
		}
	}
}
