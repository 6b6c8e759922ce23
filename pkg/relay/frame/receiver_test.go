package frame

import (
	"bytes"
	"errors"
	"testing"
)

func TestReorderWindow(t *testing.T) {
	for _, tt := range []struct {
		name     string
		seqs     []uint32
		released string // the seqs, one per character, counted from
		want     error
	}{
		{"in order", []uint32{0, 1, 2}, "012", nil},
		{"reversed", []uint32{2, 1, 0}, "012", nil},
		{"a hole", []uint32{1, 2, 4, 0}, "012", nil},
		{"a hole is filled", []uint32{1, 2, 4, 0, 3}, "01234", nil},
		{"old", []uint32{0, 0, 1, 0, 1}, "01", nil},
		{"pending twice", []uint32{2, 2, 2, 0, 1, 2}, "012", nil},
		{"farthest", []uint32{64}, "", nil},
		{"farther", []uint32{65}, "", errReorderWindow},
		{"farthest, later", []uint32{0, 1, 66}, "01", nil},
		{"farther, later", []uint32{0, 1, 67}, "01", errReorderWindow},
		{"never wraps", []uint32{0, maxSeq}, "0", errReorderWindow},
	} {
		var r receiver
		var released [][]byte
		var err error
		for _, seq := range tt.seqs {
			if released, err = r.accept(seq, []byte{'0' + byte(seq)}, released); err != nil {
				break
			}
		}
		if got := string(bytes.Join(released, nil)); got != tt.released || err != tt.want {
			t.Errorf("%s: released %q, %v, want %q, %v", tt.name, got, err, tt.released, tt.want)
		}
		if err != nil && !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v is no ErrProtocol", tt.name, err)
		}
	}
}

func TestFirstCopyWins(t *testing.T) {
	var r receiver
	for _, record := range []string{"first", "second"} {
		if _, err := r.accept(1, []byte(record), nil); err != nil {
			t.Fatal(err)
		}
	}
	released, err := r.accept(0, []byte("zero"), nil)
	if err != nil || len(released) != 2 || string(released[1]) != "first" {
		t.Errorf("released %q, %v", released, err)
	}
}

func TestPendingBytes(t *testing.T) {
	var r receiver
	for seq := range uint32(16) {
		if _, err := r.accept(1+seq, make([]byte, pendingBytes/16), nil); err != nil {
			t.Fatal(err)
		}
	}
	if r.bytes != pendingBytes {
		t.Fatalf("%d bytes are pending", r.bytes)
	}
	if _, err := r.accept(17, make([]byte, 1), nil); err != errPendingFull {
		t.Errorf("one byte more: %v", err)
	}
	// A record that has arrived already is dropped and not counted.
	if _, err := r.accept(16, make([]byte, 100), nil); err != nil {
		t.Errorf("a second copy: %v", err)
	}
	released, err := r.accept(0, make([]byte, maxPayload), nil)
	if err != nil || len(released) != 17 || r.bytes != 0 || len(r.pending) != 0 {
		t.Errorf("%d were released, %d bytes are left, %v", len(released), r.bytes, err)
	}
}

func TestLastSeq(t *testing.T) {
	r := receiver{next: maxSeq - 1}
	if _, err := r.accept(maxSeq, []byte("b"), nil); err != nil {
		t.Fatal(err)
	}
	released, err := r.accept(maxSeq-1, []byte("a"), nil)
	if err != nil || string(bytes.Join(released, nil)) != "ab" {
		t.Fatalf("released %q, %v", released, err)
	}
	if ack, bits := r.acks(); ack != maxSeq || bits != 0 {
		t.Errorf("the fields are %d and %#x", ack, bits)
	}
	for _, seq := range []uint32{0, maxSeq} {
		if released, err := r.accept(seq, []byte("c"), nil); err != nil || len(released) > 0 {
			t.Errorf("after the last record %d was accepted: %v", seq, err)
		}
	}
}

func TestAckFields(t *testing.T) {
	for _, tt := range []struct {
		seqs      []uint32
		ack, bits uint32
	}{
		{nil, 0, 0},
		{[]uint32{0}, 0, 0},
		{[]uint32{1, 2, 3}, 0, 0}, // without record 0 nothing may be acknowledged
		{[]uint32{0, 1}, 1, 0},
		{[]uint32{0, 2}, 0, 1 << 1},
		{[]uint32{0, 1, 3, 4}, 1, 1<<1 | 1<<2},
		{[]uint32{0, 32}, 0, 1 << 31},
		{[]uint32{0, 33}, 0, 0},
	} {
		var r receiver
		for _, seq := range tt.seqs {
			if _, err := r.accept(seq, []byte("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if ack, bits := r.acks(); ack != tt.ack || bits != tt.bits {
			t.Errorf("after %v the fields are %d and %#x, want %d and %#x", tt.seqs, ack, bits, tt.ack, tt.bits)
		}
	}
}

// TestReceiverCopies reuses the buffer of a record that arrived early.
func TestReceiverCopies(t *testing.T) {
	var r receiver
	buffer := []byte("late")
	if _, err := r.accept(1, buffer, nil); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "soon")
	released, err := r.accept(0, buffer, nil)
	if err != nil || len(released) != 2 || string(released[0]) != "soon" || string(released[1]) != "late" {
		t.Errorf(`got released %q, error %v; want no error, len(released) 2, released[0] "soon", released[1] "late"`, released, err)
	}
}
