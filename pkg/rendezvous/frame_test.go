package rendezvous

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"codex.internal/pkg/relay/relayframe"
)

// encode returns a frame as an end sends it.
func encode(t testing.TB, f relayframe.Frame) []byte {
	t.Helper()
	b, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPeek(t *testing.T) {
	frame := func(kind relayframe.Kind) []byte {
		return encode(t, relayframe.Frame{StreamID: "s-1", Kind: kind, Seq: 7, Payload: []byte("p"), Reason: "r", Ack: 3})
	}
	const streamID = 2 // the number of the field
	stream := func(id string) []byte {
		b := protowire.AppendString(protowire.AppendTag([]byte{8, 1}, streamID, protowire.BytesType), id)
		return protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), nil)
	}
	for _, tt := range []struct {
		name  string
		frame []byte
		want  header // zero: refused
	}{
		{"data", frame(relayframe.Data), header{"s-1", relayframe.Data}},
		{"handshake", frame(relayframe.Handshake), header{"s-1", relayframe.Handshake}},
		{"reset", frame(relayframe.Reset), header{"s-1", relayframe.Reset}},
		{"ack", frame(relayframe.Ack), header{"s-1", relayframe.Ack}},
		{"resume", frame(relayframe.Resume), header{"s-1", relayframe.Resume}},
		{"heartbeat", frame(relayframe.Heartbeat), header{"s-1", relayframe.Heartbeat}},
		{"the last body counts", append(frame(relayframe.Data), frame(relayframe.Reset)...), header{"s-1", relayframe.Reset}},
		{"the last id counts", append(frame(relayframe.Data), stream("s-2")...), header{"s-2", relayframe.Ack}},
		{"unknown fields are skipped", protowire.AppendVarint(protowire.AppendTag(frame(relayframe.Data), 99, protowire.VarintType), 1), header{"s-1", relayframe.Data}},
		{"longest id", stream(strings.Repeat("x", relayframe.MaxStreamID)), header{strings.Repeat("x", relayframe.MaxStreamID), relayframe.Ack}},
		{"id too long", stream(strings.Repeat("x", relayframe.MaxStreamID+1)), header{}},
		{"blank id", stream(" "), header{}},
		{"blanks around the id", stream("s "), header{}},
		{"no UTF-8", stream("\xff"), header{}},
		{"no id", stream(""), header{}},
		{"no body", protowire.AppendString(protowire.AppendTag(nil, streamID, protowire.BytesType), "s"), header{}},
		{"cut off", frame(relayframe.Data)[:9], header{}},
		{"empty", nil, header{}},
		{"another version", append(frame(relayframe.Reset), 8, 2), header{}},
		{"reset without a reason", append(stream("s"), 0x42, 0), header{}},
		{"reset with too long a reason", append(append(stream("s"), 0x42, 132, 2, 10, 129, 2), strings.Repeat("r", relayframe.MaxReason+1)...), header{}},
		{"handshake without a payload", append(stream("s"), 0x52, 0), header{}},
		{"data that the ends drop", append(stream("s"), 0x2a, 0), header{"s", relayframe.Data}},
	} {
		got, err := peek(tt.frame)
		if got != tt.want || (err == nil) != (tt.want != header{}) || err != nil && !errors.Is(err, errFrame) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

func TestResetFrame(t *testing.T) {
	f, err := relayframe.Decode(resetFrame("s", resetHarnessGone))
	if err != nil || f.StreamID != "s" || f.Kind != relayframe.Reset || f.Reason != resetHarnessGone {
		t.Errorf("%+v, %v", f, err)
	}
}

// FuzzPeek compares with the decoder of the ends: what they accept is routed as
// they read it, and what is routed can be reset.
func FuzzPeek(f *testing.F) {
	for kind := relayframe.Data; kind <= relayframe.Heartbeat; kind++ {
		f.Add(encode(f, relayframe.Frame{StreamID: "stream-1", Kind: kind, Seq: 1, Payload: []byte("p"), Reason: "r"}))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := peek(frame)
		if err == nil {
			resetFrame(h.stream, resetUnknownStream)
		}
		full, decodeErr := relayframe.Decode(frame)
		if decodeErr != nil || len(full.StreamID) > relayframe.MaxStreamID || strings.TrimSpace(full.StreamID) != full.StreamID || len(full.Reason) > relayframe.MaxReason {
			return
		}
		if err != nil || h.stream != full.StreamID || h.kind != full.Kind {
			t.Fatalf("%+v, %v; the ends read %q %v", h, err, full.StreamID, full.Kind)
		}
	})
}
