package frame

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// version is the version of the frames.
const version = 1

// Decode decodes one binary message of a websocket. The frame's payload is a part of message. The
// error is ErrUndecodable, or ErrInvalid for a frame with values that are not allowed. With
// ErrInvalid it also returns the stream's id if it is known, because the error ends that stream
// during a handshake. The error texts are for logs.
func Decode(message []byte) (Frame, error) {
	var e encoded
	if err := e.read(message); err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	if e.version != version {
		return e.Frame, invalid(fmt.Sprintf("unsupported relay message frame version %d", e.version))
	}
	if err := e.check(); err != nil {
		return e.Frame, err
	}
	// Records are not split into segments. Messages are split into records before they are
	// encrypted.
	if e.Kind == Data && (e.segmentIndex != 0 || e.segmentCount != 1) {
		return e.Frame, errDataFields
	}
	return e.Frame, nil
}

// Route decodes the two fields that are needed to route a message: the stream's id and the kind.
// For a valid frame it returns the same values as Decode. It returns an absent or blank id
// unchanged, and does not validate the body. The error is ErrUndecodable.
func Route(message []byte) (streamID string, kind Kind, err error) {
	for len(message) > 0 {
		f, rest, err := next(message, nil)
		if err == nil && f.tag == tagStreamID {
			streamID, err = f.text()
		}
		if err != nil {
			return "", 0, fmt.Errorf("%w: %w", ErrUndecodable, err)
		}
		if k := kindOf(f.tag); k != 0 {
			kind = k
		}
		message = rest
	}
	return streamID, kind, nil
}

// check returns an ErrInvalid if a required field is missing.
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
	b, payload, err := f.Split(slices.Grow(b, MaxHead+len(f.Payload)))
	if err != nil {
		return nil, err
	}
	return append(b, payload...), nil
}

// Split is like Append but does not copy the payload. It appends everything before
// the payload, which is at most MaxHead bytes and the reason of a reset, and returns
// the payload. The caller writes the payload after it.
func (f *Frame) Split(b []byte) (head, payload []byte, err error) {
	if err := f.checkSent(); err != nil {
		return nil, nil, err
	}
	b = appendNumber(b, tagVersion, version)
	b = append(appendLength(b, tagStreamID, len(f.StreamID)), f.StreamID...)
	b = appendNumber(b, tagAck, f.Ack)
	b = appendNumber(b, tagAckBits, f.AckBits)
	switch f.Kind {
	case Data:
		const segmentCount = 1
		b = appendLength(b, tagData, numberSize(tagDataSeq, f.Seq)+numberSize(tagDataSegmentCount, segmentCount)+delimitedSize(tagDataPayload, len(f.Payload)))
		b = appendNumber(b, tagDataSeq, f.Seq)
		b = appendNumber(b, tagDataSegmentCount, segmentCount)
		payload = f.Payload
		b = appendLength(b, tagDataPayload, len(f.Payload))
	case Handshake:
		payload = f.Payload
		b = appendLength(b, tagHandshake, delimitedSize(tagHandshakePayload, len(f.Payload)))
		b = appendLength(b, tagHandshakePayload, len(f.Payload))
	case Reset:
		b = appendLength(b, tagReset, delimitedSize(tagResetReason, len(f.Reason)))
		b = append(appendLength(b, tagResetReason, len(f.Reason)), f.Reason...)
	case Ack:
		b = appendLength(b, tagAckFrame, 0)
	case Resume:
		b = appendLength(b, tagResume, numberSize(tagResumeNextSeq, f.Seq))
		b = appendNumber(b, tagResumeNextSeq, f.Seq)
	case Heartbeat:
		b = appendLength(b, tagHeartbeat, 0)
	}
	return b, payload, nil
}

// Sendable reports whether frames of a stream can be sent: some peers refuse ids
// that are long or have blanks around them.
func Sendable(streamID string) bool {
	return streamID != "" && len(streamID) <= MaxStreamID && streamID == strings.TrimSpace(streamID)
}

// checkSent is check plus the limits that some builds of Codex CLI enforce.
func (f *Frame) checkSent() error {
	switch {
	case f.StreamID != "" && !Sendable(f.StreamID):
		return invalid(fmt.Sprintf("stream_id %.*q is longer than %d bytes or has blanks around it", MaxStreamID, f.StreamID, MaxStreamID))
	case len(f.Reason) > MaxReason:
		return invalid(fmt.Sprintf("reset reason has %d bytes, more than %d", len(f.Reason), MaxReason))
	case len(f.Payload) > maxPayload:
		return invalid(fmt.Sprintf("%v payload has %d bytes, more than %d", f.Kind, len(f.Payload), maxPayload))
	case !utf8.ValidString(f.StreamID) || !utf8.ValidString(f.Reason):
		return invalid(errUTF8.Error())
	}
	return f.check()
}
