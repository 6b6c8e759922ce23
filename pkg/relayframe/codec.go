package relayframe

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"codex.internal/pkg/relaypb"
)

// version is that of the frames.
const version = 1

// Decode reads one binary message of a websocket. Errors are ErrUndecodable, or
// ErrInvalid for a frame that says what no frame may say; the latter comes with
// the stream's id as far as it is known, because it is fatal for that stream
// during a handshake. The texts are for logs.
func Decode(message []byte) (Frame, error) {
	var m relaypb.RelayMessageFrame
	if err := proto.Unmarshal(message, &m); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	f := Frame{StreamID: m.StreamId, Ack: m.Ack, AckBits: m.AckBits}
	switch body := m.Body.(type) {
	case *relaypb.RelayMessageFrame_Data:
		f.Kind, f.Seq, f.Payload = Data, body.Data.Seq, body.Data.Payload
	case *relaypb.RelayMessageFrame_Handshake:
		f.Kind, f.Payload = Handshake, body.Handshake.Payload
	case *relaypb.RelayMessageFrame_Reset_:
		f.Kind, f.Reason = Reset, body.Reset_.Reason
	case *relaypb.RelayMessageFrame_AckFrame:
		f.Kind = Ack
	case *relaypb.RelayMessageFrame_Resume:
		f.Kind, f.Seq = Resume, body.Resume.NextSeq
	case *relaypb.RelayMessageFrame_Heartbeat:
		f.Kind = Heartbeat
	}
	if m.Version != version {
		return f, invalid(fmt.Sprintf("unsupported relay message frame version %d", m.Version))
	}
	if err := f.check(); err != nil {
		return f, err
	}
	// Records are not cut into segments: messages are, inside of the
	// encryption.
	if d := m.GetData(); d != nil && (d.SegmentIndex != 0 || d.SegmentCount != 1) {
		return f, errDataFields
	}
	return f, nil
}

// check says whether every frame has what it must have.
func (f *Frame) check() error {
	switch {
	case strings.TrimSpace(f.StreamID) == "":
		return errNoStreamID
	case f.Kind < Data || f.Kind > Heartbeat:
		return errNoBody
	case f.Kind == Data && len(f.Payload) == 0:
		return errDataFields
	case f.Kind == Reset && f.Reason == "":
		return errNoReason
	case f.Kind == Handshake && len(f.Payload) == 0:
		return errNoPayload
	}
	return nil
}

// Append appends the encoded frame, to be sent as one binary message. A frame
// that a peer might refuse is an ErrInvalid.
func (f *Frame) Append(b []byte) ([]byte, error) {
	if err := f.checkSent(); err != nil {
		return nil, err
	}
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
	b, err := proto.MarshalOptions{}.MarshalAppend(b, &m)
	if err != nil {
		return nil, invalid(err.Error())
	}
	return b, nil
}

// checkSent is check and the limits of the builds that have some.
func (f *Frame) checkSent() error {
	switch {
	case len(f.StreamID) > MaxStreamID || f.StreamID != strings.TrimSpace(f.StreamID):
		return invalid(fmt.Sprintf("stream_id %.*q is longer than %d bytes or has blanks around it", MaxStreamID, f.StreamID, MaxStreamID))
	case len(f.Reason) > MaxReason:
		return invalid(fmt.Sprintf("reset reason has %d bytes, more than %d", len(f.Reason), MaxReason))
	case len(f.Payload) > maxPayload:
		return invalid(fmt.Sprintf("%v payload has %d bytes, more than %d", f.Kind, len(f.Payload), maxPayload))
	}
	return f.check()
}
