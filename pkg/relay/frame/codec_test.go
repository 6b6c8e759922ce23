package frame

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"codex.internal/pkg/testutil/relaypb"
)

// TestVectors encodes and decodes frames of a second implementation.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string][]struct{ Note, Hex string }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	wants := map[string]Frame{
		"resume, next_seq 0":                      {Kind: Resume},
		"resume, next_seq 7":                      {Kind: Resume, Seq: 7},
		"ack_frame, ack 300, ack_bits 0x80000001": {Kind: Ack, Ack: 300, AckBits: 0x80000001},
		"heartbeat":                               {Kind: Heartbeat},
		"reset":                                   {Kind: Reset, Reason: "noise_relay_protocol_error"},
		"first data frame of the initiator (seq 0)":                             {Kind: Data},
		"second data frame of the initiator (seq 1) carrying ack=0, ack_bits=5": {Kind: Data, Seq: 1, AckBits: 5},
	}
	n := 0
	for name, frames := range cases {
		for _, c := range frames {
			message, err := hex.DecodeString(c.Hex)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(message)
			if err != nil {
				t.Errorf("%s: got c.Note %s, error %v; want no error", name, c.Note, err)
				continue
			}
			again, err := got.Append([]byte("x"))
			if err != nil || string(again) != "x"+string(message) {
				t.Errorf("%s: %s is encoded as %x, %v, want %x", name, c.Note, again, err, message)
			}
			want, ok := wants[c.Note]
			if want.StreamID = got.StreamID; want.Kind == Data {
				want.Payload = got.Payload
			}
			if !ok || got.StreamID == "" || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is read as %+v, want %+v", name, c.Note, got, want)
			}
			n++
		}
	}
	if n != 21 {
		t.Errorf("%d frames were tried, want 21", n)
	}
}

// A message is a frame that is changed before it is encoded.
func message(t *testing.T, change func(m *relaypb.RelayMessageFrame)) []byte {
	t.Helper()
	m := &relaypb.RelayMessageFrame{Version: 1, StreamId: "s", Body: &relaypb.RelayMessageFrame_AckFrame{AckFrame: &relaypb.RelayAck{}}}
	change(m)
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func data(d *relaypb.RelayData) func(*relaypb.RelayMessageFrame) {
	return func(m *relaypb.RelayMessageFrame) { m.Body = &relaypb.RelayMessageFrame_Data{Data: d} }
}

func TestValidity(t *testing.T) {
	payload := []byte("x")
	for _, tt := range []struct {
		name   string
		change func(m *relaypb.RelayMessageFrame)
		want   string // "": valid
	}{
		{"valid", func(*relaypb.RelayMessageFrame) {}, ""},
		{"version 0", func(m *relaypb.RelayMessageFrame) { m.Version = 0 }, "unsupported relay message frame version 0"},
		{"version 2 comes first", func(m *relaypb.RelayMessageFrame) { *m = relaypb.RelayMessageFrame{Version: 2} }, "unsupported relay message frame version 2"},
		{"no stream", func(m *relaypb.RelayMessageFrame) { m.StreamId = "" }, "relay message frame is missing stream_id"},
		{"blank stream", func(m *relaypb.RelayMessageFrame) { m.StreamId = " \t\u00a0\u3000" }, "relay message frame is missing stream_id"},
		{"stream before body", func(m *relaypb.RelayMessageFrame) { m.StreamId, m.Body = "", nil }, "relay message frame is missing stream_id"},
		{"stream with blanks", func(m *relaypb.RelayMessageFrame) { m.StreamId = " s " }, ""},
		{"long stream", func(m *relaypb.RelayMessageFrame) { m.StreamId = strings.Repeat("s", 1000) }, ""},
		{"no body", func(m *relaypb.RelayMessageFrame) { m.Body = nil }, "relay message frame is missing body"},
		{"data", data(&relaypb.RelayData{Seq: 5, SegmentCount: 1, Payload: payload}), ""},
		{"second segment", data(&relaypb.RelayData{SegmentIndex: 1, SegmentCount: 1, Payload: payload}), "relay data message frame is missing required fields"},
		{"no segments", data(&relaypb.RelayData{Payload: payload}), "relay data message frame is missing required fields"},
		{"two segments", data(&relaypb.RelayData{SegmentCount: 2, Payload: payload}), "relay data message frame is missing required fields"},
		{"empty data", data(&relaypb.RelayData{SegmentCount: 1}), "relay data message frame is missing required fields"},
		{"stream before segments", func(m *relaypb.RelayMessageFrame) { data(&relaypb.RelayData{})(m); m.StreamId = "" }, "relay message frame is missing stream_id"},
		{"reset", func(m *relaypb.RelayMessageFrame) {
			m.Body = &relaypb.RelayMessageFrame_Reset_{Reset_: &relaypb.RelayReset{Reason: " "}}
		}, ""},
		{"no reason", func(m *relaypb.RelayMessageFrame) {
			m.Body = &relaypb.RelayMessageFrame_Reset_{Reset_: &relaypb.RelayReset{}}
		}, "relay reset message frame is missing reason"},
		{"handshake", func(m *relaypb.RelayMessageFrame) {
			m.Body = &relaypb.RelayMessageFrame_Handshake{Handshake: &relaypb.RelayHandshake{Payload: payload}}
		}, ""},
		{"empty handshake", func(m *relaypb.RelayMessageFrame) {
			m.Body = &relaypb.RelayMessageFrame_Handshake{Handshake: &relaypb.RelayHandshake{}}
		}, "relay handshake message frame is missing payload"},
	} {
		f, err := Decode(message(t, tt.change))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: got error %v, want no error", tt.name, err)
		case tt.want != "" && (!errors.Is(err, ErrInvalid) || err.Error() != tt.want):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		case tt.name == "no body" && f.StreamID != "s":
			t.Errorf("the stream of a frame without body is %q", f.StreamID)
		}
	}
}

// TestEncodings decodes the output of other encoders: unknown fields, several
// bodies, an unknown body, and messages that are not frames.
func TestEncodings(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		kind      Kind
		err       error
	}{
		{"unknown field", "08011201733a00" + "a2060178", Resume, nil},
		{"the last body counts", "08011201733a004a00", Heartbeat, nil},
		{"any order", "3a00" + "120173" + "0801", Resume, nil},
		{"an unknown body", "0801120173" + "5a00", 0, ErrInvalid},
		{"nothing", "", 0, ErrInvalid},
		{"no UTF-8", "08011201ff3a00", 0, ErrUndecodable},
		{"a number for the stream", "0801" + "1001" + "120173" + "3a00", 0, ErrUndecodable},
		{"bytes for an ack", "0801" + "120173" + "1a00" + "3a00", 0, ErrUndecodable},
		{"32 bits for a seq", "0801" + "120173" + "3a05" + "0d00000000", 0, ErrUndecodable},
		{"a group for a body", "0801" + "120173" + "3a00" + "4b4c", 0, ErrUndecodable},
		{"a field that no heartbeat has", "0801" + "120173" + "4a05" + "0d00000000", Heartbeat, nil},
		{"text", hex.EncodeToString([]byte(`{"id":1}`)), 0, ErrUndecodable},
		{"cut body", "08011201733a05", 0, ErrUndecodable},
	} {
		b, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Decode(b)
		if !errors.Is(err, tt.err) || err == nil && f.Kind != tt.kind {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, f.Kind, err, tt.kind, tt.err)
		}
		if tt.err == ErrUndecodable && !strings.HasPrefix(err.Error(), "invalid relay message frame: ") {
			t.Errorf(`%s: got error %v, want an error beginning with "invalid relay message frame: "`, tt.name, err)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame Frame
		good  bool
	}{
		{"longest stream", Frame{StreamID: strings.Repeat("s", MaxStreamID), Kind: Ack}, true},
		{"longer stream", Frame{StreamID: strings.Repeat("s", MaxStreamID+1), Kind: Ack}, false},
		{"blank before", Frame{StreamID: " s", Kind: Ack}, false},
		{"no stream", Frame{Kind: Ack}, false},
		{"no UTF-8", Frame{StreamID: "\xff", Kind: Ack}, false},
		{"no kind", Frame{StreamID: "s"}, false},
		{"other kind", Frame{StreamID: "s", Kind: Heartbeat + 1}, false},
		{"empty data", Frame{StreamID: "s", Kind: Data}, false},
		{"largest data", Frame{StreamID: strings.Repeat("s", MaxStreamID), Kind: Data, Payload: make([]byte, maxPayload)}, true},
		{"larger data", Frame{StreamID: "s", Kind: Data, Payload: make([]byte, maxPayload+1)}, false},
		{"empty handshake", Frame{StreamID: "s", Kind: Handshake}, false},
		{"longest reason", Frame{StreamID: "s", Kind: Reset, Reason: strings.Repeat("r", MaxReason)}, true},
		{"longer reason", Frame{StreamID: "s", Kind: Reset, Reason: strings.Repeat("r", MaxReason+1)}, false},
		{"no reason", Frame{StreamID: "s", Kind: Reset}, false},
	} {
		b, err := tt.frame.Append(nil)
		if tt.good {
			if err != nil || len(b) > MaxFrame {
				t.Errorf("%s: %d bytes, %v", tt.name, len(b), err)
			}
			continue
		}
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got error %v, want %v", tt.name, err, ErrInvalid)
		}
	}
}

// FuzzDecode checks that valid frames are unchanged after encoding and
// decoding, unless they are larger than may be sent.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x08\x01\x12\x01s\x3a\x00"))
	f.Add([]byte("\x08\x01\x12\x01s\x18\xac\x02\x20\x81\x80\x80\x80\x08\x32\x00"))
	f.Add([]byte("\x08\x01\x12\x01s\x2a\x05\x18\x01\x22\x01x"))
	f.Fuzz(func(t *testing.T, message []byte) {
		frame, err := Decode(message)
		if err != nil {
			if !errors.Is(err, ErrUndecodable) && !errors.Is(err, ErrInvalid) {
				t.Fatalf("the error is none of ours: %v", err)
			}
			return
		}
		again, err := frame.Append(nil)
		if frame.checkSent() != nil {
			return
		}
		if err != nil {
			t.Fatalf("%+v is not encoded: %v", frame, err)
		}
		if got, err := Decode(again); err != nil || !reflect.DeepEqual(got, frame) {
			t.Fatalf("%+v came back as %+v, %v", frame, got, err)
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	f := Frame{StreamID: "3e2f9c1a-7f64-4d0c-9a43-0b6f0e8c51d2", Kind: Data, Seq: 70000, Ack: 70000, Payload: bytes.Repeat([]byte("x"), 61456)}
	var buf []byte
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(f.Payload)))
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if buf, err = f.Append(buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	buf, err := f.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(f.Payload)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
