package execclient

import (
	"errors"
	"io"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
)

// TestBodyStreams delivers deltas to a stream and checks the body that is read.
func TestBodyStreams(t *testing.T) {
	text := "broke"
	piece := func(seq uint64, data string) execproto.HTTPBodyDelta {
		return execproto.HTTPBodyDelta{RequestID: "http-1", Seq: seq, Delta: []byte(data)}
	}
	done := func(d execproto.HTTPBodyDelta) execproto.HTTPBodyDelta {
		d.Done = true
		return d
	}
	failed := done(piece(2, ""))
	failed.Error = &text
	other := done(piece(1, "other"))
	other.RequestID = "http-9"
	for _, tt := range []struct {
		name   string
		pieces []execproto.HTTPBodyDelta
		lost   error
		want   string
		err    string // the expected error; "": io.EOF
	}{
		{"in order", []execproto.HTTPBodyDelta{piece(1, "a"), other, piece(2, "bc"), done(piece(3, ""))}, nil, "abc", ""},
		{"the end with data", []execproto.HTTPBodyDelta{piece(1, "a"), done(piece(2, "b")), piece(3, "late")}, nil, "ab", ""},
		{"nothing at all", []execproto.HTTPBodyDelta{done(piece(1, ""))}, nil, "", ""},
		{"an empty piece", []execproto.HTTPBodyDelta{piece(1, ""), done(piece(2, "b"))}, nil, "b", ""},
		{
			"a gap", []execproto.HTTPBodyDelta{piece(1, "a"), piece(3, "c")}, nil, "a",
			"exec-server protocol error: http response stream `http-1` received seq 3, expected 2",
		},
		{"twice the same", []execproto.HTTPBodyDelta{piece(1, "a"), piece(1, "a")}, nil, "a", "received seq 1, expected 2"},
		{"an error", []execproto.HTTPBodyDelta{piece(1, "a"), failed}, nil, "a", "http response stream `http-1` failed: broke"},
		{"a lost connection", []execproto.HTTPBodyDelta{piece(1, "a")}, &DisconnectedError{Message: "gone"}, "a", "gone"},
		{"lost after the end", []execproto.HTTPBodyDelta{done(piece(1, "a"))}, &DisconnectedError{Message: "gone"}, "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{}
			s := c.bodies.open(t.Context(), c)
			for _, d := range tt.pieces {
				c.bodies.deliver(d)
			}
			if tt.lost != nil {
				c.bodies.fail(tt.lost)
			}
			got, err := io.ReadAll(s)
			if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, error %v; want %q, success: %v, error with %q", got, err, tt.want, tt.err == "", tt.err)
			}
			if c.bodies.remove(s.id) {
				t.Error("the route is left")
			}
		})
	}
}

// TestTheQueueOfABodyIsBounded: if one delta too many arrives, only its stream ends.
func TestTheQueueOfABodyIsBounded(t *testing.T) {
	const overflow = "body delta channel filled before delivery"
	for _, tt := range []struct {
		pieces, size int
		err          string
	}{
		{maxDeltas, 64 << 10, ""},
		{maxDeltas + 1, 64 << 10, overflow},
		{maxDeltas, 65 << 10, ""},
		{maxDeltas + 1, 65 << 10, overflow},
		{4 * maxDeltas, 16 << 10, ""},
		{4*maxDeltas + 1, 16 << 10, overflow},
		{1, 2*maxDeltaBytes + 1, ""}, // one is always accepted
		{2, maxDeltaBytes, ""},
		{3, maxDeltaBytes, overflow},
	} {
		c := &Client{}
		full, idle := c.bodies.open(t.Context(), c), c.bodies.open(t.Context(), c)
		for i := range tt.pieces {
			c.bodies.deliver(execproto.HTTPBodyDelta{RequestID: full.id, Seq: uint64(i + 1), Delta: make([]byte, tt.size)})
		}
		c.bodies.deliver(execproto.HTTPBodyDelta{RequestID: full.id, Seq: uint64(tt.pieces + 1), Done: true})
		got, err := io.ReadAll(full)
		want := tt.pieces * tt.size
		if tt.err != "" {
			want -= tt.size
		}
		if len(got) != want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%d pieces of %d bytes: %d bytes, %v", tt.pieces, tt.size, len(got), err)
		}
		c.bodies.deliver(execproto.HTTPBodyDelta{RequestID: idle.id, Seq: 1, Delta: []byte("y"), Done: true})
		if got, err := io.ReadAll(idle); err != nil || string(got) != "y" {
			t.Errorf(`got %q, error %v; want no error, "y"`, got, err)
		}
	}
}

// Waiting deltas of a byte take one byte each.
func TestSmallPiecesOfABodyAreKeptTogether(t *testing.T) {
	c := &Client{}
	s := c.bodies.open(t.Context(), c)
	const pieces = 4 * mergeDelta
	for i := range pieces {
		c.bodies.deliver(execproto.HTTPBodyDelta{RequestID: s.id, Seq: uint64(i + 1), Delta: []byte{byte(i)}, Done: i == pieces-1})
	}
	if len(s.queue) != 4 || s.size != pieces {
		t.Errorf("%d pieces wait in %d places, %d bytes", pieces, len(s.queue), s.size)
	}
	got, err := io.ReadAll(s)
	for i := range got {
		if got[i] != byte(i) {
			t.Fatalf("byte %d is %d", i, got[i])
		}
	}
	if len(got) != pieces || err != nil || s.size != 0 {
		t.Errorf("%d bytes, %v, %d left", len(got), err, s.size)
	}
}

func TestAStreamOfAClosedBodyIsDropped(t *testing.T) {
	c := &Client{}
	s := c.bodies.open(t.Context(), c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.bodies.deliver(execproto.HTTPBodyDelta{RequestID: s.id, Seq: 1, Delta: []byte("x")})
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || len(s.queue) > 0 {
		t.Errorf("%v, %d in the queue", err, len(s.queue))
	}
}
