package frame

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"codex.internal/pkg/testutil/relaypb"
)

// The generated protobuf code is the oracle for the codec.

// generated reads a message with the generated code.
func generated(message []byte) (encoded, error) {
	var m relaypb.RelayMessageFrame
	if err := proto.Unmarshal(message, &m); err != nil {
		return encoded{}, err
	}
	if mistyped(message, m.ProtoReflect().Descriptor()) {
		return encoded{}, errWireType
	}
	e := encoded{Frame: Frame{StreamID: m.StreamId, Ack: m.Ack, AckBits: m.AckBits}, version: m.Version}
	switch body := m.Body.(type) {
	case *relaypb.RelayMessageFrame_Data:
		e.Kind, e.Seq, e.Payload = Data, body.Data.Seq, body.Data.Payload
		e.segmentIndex, e.segmentCount = body.Data.SegmentIndex, body.Data.SegmentCount
	case *relaypb.RelayMessageFrame_Handshake:
		e.Kind, e.Payload = Handshake, body.Handshake.Payload
	case *relaypb.RelayMessageFrame_Reset_:
		e.Kind, e.Reason = Reset, body.Reset_.Reason
	case *relaypb.RelayMessageFrame_AckFrame:
		e.Kind = Ack
	case *relaypb.RelayMessageFrame_Resume:
		e.Kind, e.Seq = Resume, body.Resume.NextSeq
	case *relaypb.RelayMessageFrame_Heartbeat:
		e.Kind = Heartbeat
	}
	return e, nil
}

// mistyped reports whether a message that the generated code can read has a known field number with
// a different wire type. The generated code skips such a field.
func mistyped(message []byte, of protoreflect.MessageDescriptor) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		message = message[n:]
		n = protowire.ConsumeFieldValue(number, kind, message)
		value := message[:n]
		message = message[n:]
		field := of.Fields().ByNumber(number)
		switch {
		case field == nil:
		case field.Kind() == protoreflect.Uint32Kind && kind != protowire.VarintType,
			field.Kind() != protoreflect.Uint32Kind && kind != protowire.BytesType:
			return true
		case field.Message() != nil:
			if body, _ := protowire.ConsumeBytes(value); mistyped(body, field.Message()) {
				return true
			}
		}
	}
	return false
}

// marshal writes a frame with the generated code.
func marshal(t testing.TB, f *Frame) []byte {
	t.Helper()
	m := relaypb.RelayMessageFrame{Version: version, StreamId: f.StreamID, Ack: f.Ack, AckBits: f.AckBits}
	switch f.Kind {
	case Data:
		m.Body = &relaypb.RelayMessageFrame_Data{Data: &relaypb.RelayData{Seq: f.Seq, SegmentCount: 1, Payload: f.Payload}}
	case Handshake:
		m.Body = &relaypb.RelayMessageFrame_Handshake{Handshake: &relaypb.RelayHandshake{Payload: f.Payload}}
	case Reset:
		m.Body = &relaypb.RelayMessageFrame_Reset_{Reset_: &relaypb.RelayReset{Reason: f.Reason}}
	case Ack:
		m.Body = &relaypb.RelayMessageFrame_AckFrame{AckFrame: &relaypb.RelayAck{}}
	case Resume:
		m.Body = &relaypb.RelayMessageFrame_Resume{Resume: &relaypb.RelayResume{NextSeq: f.Seq}}
	case Heartbeat:
		m.Body = &relaypb.RelayMessageFrame_Heartbeat{Heartbeat: &relaypb.RelayHeartbeat{}}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err != nil {
		t.Fatalf("%+v: got error %v, want no error", f, err)
	}
	return b
}

func same(a, b *encoded) bool {
	return a.version == b.version && a.segmentIndex == b.segmentIndex && a.segmentCount == b.segmentCount &&
		a.StreamID == b.StreamID && a.Ack == b.Ack && a.AckBits == b.AckBits && a.Kind == b.Kind &&
		a.Seq == b.Seq && bytes.Equal(a.Payload, b.Payload) && a.Reason == b.Reason
}

// compare decodes a message with both decoders, and encodes the results. It
// reports whether the message could be decoded.
func compare(t testing.TB, message []byte) bool {
	t.Helper()
	var got encoded
	err := got.read(message)
	want, wantErr := generated(message)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%x is read as %+v, %v, want %+v, %v", message, got, err, want, wantErr)
	}
	if err != nil {
		return false
	}
	if !same(&got, &want) {
		t.Fatalf("%x is read as %+v, want %+v", message, got, want)
	}
	if id, kind, err := Route(message); err != nil || id != want.StreamID || kind != want.Kind {
		t.Fatalf("%x is routed by %q, %v, %v, want %q, %v", message, id, kind, err, want.StreamID, want.Kind)
	}
	if got.checkSent() == nil {
		compareAppend(t, &got.Frame)
	}
	return true
}

// compareAppend writes a frame that both implementations can send.
func compareAppend(t testing.TB, f *Frame) {
	t.Helper()
	got, err := f.Append([]byte("x"))
	if want := marshal(t, f); err != nil || string(got) != "x"+string(want) {
		t.Fatalf("%+v is written as %x, %v, want %x", f, got, err, want)
	}
}

// randomField appends a field of a frame or of a body, or an unknown field. Occasionally the
// encoding is invalid.
func randomField(r *rand.Rand, b []byte, depth int) []byte {
	number := protowire.Number(1 + r.IntN(12))
	if r.IntN(50) == 0 {
		number = []protowire.Number{0, 1 << 20, protowire.MaxValidNumber, protowire.MaxValidNumber + 1}[r.IntN(4)]
	}
	kind := protowire.VarintType
	if number >= 5 || number == 2 {
		kind = protowire.BytesType
	}
	if r.IntN(10) == 0 {
		kind = protowire.Type(r.IntN(8))
	}
	b = protowire.AppendVarint(b, uint64(number)<<3|uint64(kind))
	switch kind {
	case protowire.VarintType:
		return protowire.AppendVarint(b, r.Uint64()>>r.IntN(64))
	case protowire.BytesType:
		value := []byte([]string{"", "s", " stream ", "\u00e9", "\xff"}[min(r.IntN(40), 4)%5])
		if number >= 5 && depth < 2 {
			value = randomMessage(r, depth+1)
		}
		return protowire.AppendBytes(b, value)
	case protowire.StartGroupType:
		if depth < 3 {
			b = append(b, randomMessage(r, depth+1)...)
		}
		return protowire.AppendTag(b, number, protowire.EndGroupType)
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(b, r.Uint32())
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(b, r.Uint64())
	}
	return b
}

func randomMessage(r *rand.Rand, depth int) []byte {
	var b []byte
	for range r.IntN(6) {
		if depth == 1 {
			// Append a field of a body, mostly one that the body has.
			switch r.IntN(4) {
			case 0:
				b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(1+r.IntN(3)), protowire.VarintType), uint64(r.IntN(3)))
				continue
			case 1:
				b = protowire.AppendString(protowire.AppendTag(b, []protowire.Number{1, 4}[r.IntN(2)], protowire.BytesType), []string{"", "p", "\xfe"}[r.IntN(3)])
				continue
			}
		}
		b = randomField(r, b, depth)
	}
	return b
}

func TestOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	read, refused := 0, 0
	for range 100_000 {
		message := randomMessage(r, 0)
		if r.IntN(20) == 0 && len(message) > 0 {
			message = message[:r.IntN(len(message))]
		}
		if compare(t, message) {
			read++
		} else {
			refused++
		}
	}
	if read < 10_000 || refused < 10_000 {
		t.Errorf("%d messages were read and %d refused: that says little", read, refused)
	}
}

// TestOracleFrames writes frames of each kind with numbers of every length.
func TestOracleFrames(t *testing.T) {
	numbers := []uint32{0, 1, 127, 128, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 21, 1<<28 - 1, 1 << 28, 1<<32 - 1}
	for kind := Data; kind <= Heartbeat; kind++ {
		for _, n := range numbers {
			for _, size := range []int{1, 119, 120, 121, 127, 128, 16370, 16384, maxPayload} {
				f := Frame{StreamID: "stream", Kind: kind, Ack: n, AckBits: n ^ 5}
				switch kind {
				case Data, Handshake:
					f.Payload = bytes.Repeat([]byte("p"), size)
				case Reset:
					f.Reason = string(bytes.Repeat([]byte("r"), min(size, MaxReason)))
				}
				if kind == Data || kind == Resume {
					f.Seq = n
				}
				compareAppend(t, &f)
			}
		}
	}
}

// FuzzOracle decodes arbitrary messages.
func FuzzOracle(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(randomMessage(r, 0))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		was := slices.Clone(message)
		compare(t, message)
		if !bytes.Equal(message, was) {
			t.Fatal("reading changes the message")
		}
	})
}

// FuzzOracleAppend encodes every frame that may be sent.
func FuzzOracleAppend(f *testing.F) {
	f.Add("s", uint32(3), uint32(5), uint8(Data), uint32(300), []byte("payload"))
	f.Add("stream-1", uint32(0), uint32(0), uint8(Reset), uint32(0), []byte("reason"))
	f.Add("stream-1", uint32(0), uint32(0), uint8(Resume), uint32(0), []byte(nil))
	f.Fuzz(func(t *testing.T, id string, ack, ackBits uint32, kind uint8, seq uint32, content []byte) {
		frame := Frame{StreamID: id, Ack: ack, AckBits: ackBits, Kind: Kind(kind)}
		switch frame.Kind {
		case Data, Handshake:
			frame.Payload = content
		case Reset:
			frame.Reason = string(content)
		}
		if frame.Kind == Data || frame.Kind == Resume {
			frame.Seq = seq
		}
		if frame.checkSent() == nil {
			compareAppend(t, &frame)
			return
		}
		if b, err := frame.Append(nil); err == nil {
			t.Fatalf("%+v must not be sent but is written as %x", frame, b)
		}
	})
}
