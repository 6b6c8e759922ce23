package rendezvous

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"codex.internal/pkg/relay/frame"
)

// encode returns a frame as an end sends it.
func encode(t testing.TB, f frame.Frame) []byte {
	t.Helper()
	b, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPeek(t *testing.T) {
	message := func(kind frame.Kind) []byte {
		return encode(t, frame.Frame{StreamID: "s-1", Kind: kind, Seq: 7, Payload: []byte("p"), Reason: "r", Ack: 3})
	}
	const streamID = 2 // the number of the field
	stream := func(id string) []byte {
		b := protowire.AppendString(protowire.AppendTag([]byte{8, 1}, streamID, protowire.BytesType), id)
		return protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), nil)
	}
	for _, tt := range []struct {
		name    string
		message []byte
		want    header // zero: refused
	}{
		{"data", message(frame.Data), header{"s-1", frame.Data}},
		{"handshake", message(frame.Handshake), header{"s-1", frame.Handshake}},
		{"reset", message(frame.Reset), header{"s-1", frame.Reset}},
		{"ack", message(frame.Ack), header{"s-1", frame.Ack}},
		{"resume", message(frame.Resume), header{"s-1", frame.Resume}},
		{"heartbeat", message(frame.Heartbeat), header{"s-1", frame.Heartbeat}},
		{"the last body counts", append(message(frame.Data), message(frame.Reset)...), header{"s-1", frame.Reset}},
		{"the last id counts", append(message(frame.Data), stream("s-2")...), header{"s-2", frame.Ack}},
		{"unknown fields are skipped", protowire.AppendVarint(protowire.AppendTag(message(frame.Data), 99, protowire.VarintType), 1), header{"s-1", frame.Data}},
		{"longest id", stream(strings.Repeat("x", frame.MaxStreamID)), header{strings.Repeat("x", frame.MaxStreamID), frame.Ack}},
		{"id too long", stream(strings.Repeat("x", frame.MaxStreamID+1)), header{}},
		{"blank id", stream(" "), header{}},
		{"blanks around the id", stream("s "), header{}},
		{"no UTF-8", stream("\xff"), header{}},
		{"no id", stream(""), header{}},
		{"no body", protowire.AppendString(protowire.AppendTag(nil, streamID, protowire.BytesType), "s"), header{}},
		{"cut off", message(frame.Data)[:9], header{}},
		{"empty", nil, header{}},
		{"another version", append(message(frame.Reset), 8, 2), header{}},
		{"reset without a reason", append(stream("s"), 0x42, 0), header{}},
		{"reset with too long a reason", append(append(stream("s"), 0x42, 132, 2, 10, 129, 2), strings.Repeat("r", frame.MaxReason+1)...), header{}},
		{"handshake without a payload", append(stream("s"), 0x52, 0), header{}},
		{"data that the ends drop", append(stream("s"), 0x2a, 0), header{"s", frame.Data}},
	} {
		got, err := peek(tt.message)
		if got != tt.want || (err == nil) != (tt.want != header{}) || err != nil && !errors.Is(err, errFrame) {
			t.Errorf("%s: got %+v, error %v; want %+v, error %v", tt.name, got, err, tt.want, errFrame)
		}
	}
}

func TestResetFrame(t *testing.T) {
	f, err := frame.Decode(resetFrame("s", resetHarnessGone))
	if err != nil || f.StreamID != "s" || f.Kind != frame.Reset || f.Reason != resetHarnessGone {
		t.Errorf(`got f %+v, error %v; want no error, f.StreamID "s", f.Kind %v, f.Reason %v`, f, err, frame.Reset, resetHarnessGone)
	}
}

// FuzzPeek compares peek with the decoder of the ends: frames that they accept
// are routed by the same fields, and every routed stream can be reset.
func FuzzPeek(f *testing.F) {
	for kind := frame.Data; kind <= frame.Heartbeat; kind++ {
		f.Add(encode(f, frame.Frame{StreamID: "stream-1", Kind: kind, Seq: 1, Payload: []byte("p"), Reason: "r"}))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		h, err := peek(message)
		if err == nil {
			resetFrame(h.stream, resetUnknownStream)
		}
		full, decodeErr := frame.Decode(message)
		if decodeErr != nil || len(full.StreamID) > frame.MaxStreamID || strings.TrimSpace(full.StreamID) != full.StreamID || len(full.Reason) > frame.MaxReason {
			return
		}
		if err != nil || h.stream != full.StreamID || h.kind != full.Kind {
			t.Fatalf("%+v, %v; the ends read %q %v", h, err, full.StreamID, full.Kind)
		}
	})
}
