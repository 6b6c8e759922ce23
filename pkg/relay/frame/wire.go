package frame

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// These are the tags of the fields in proto/relay.proto: a tag is the field's number and its wire
// type. Fields with other numbers are unknown and skipped.
const (
	varint    = uint64(protowire.VarintType)
	delimited = uint64(protowire.BytesType)

	tagVersion   = 1<<3 | varint
	tagStreamID  = 2<<3 | delimited
	tagAck       = 3<<3 | varint
	tagAckBits   = 4<<3 | varint
	tagData      = 5<<3 | delimited
	tagAckFrame  = 6<<3 | delimited
	tagResume    = 7<<3 | delimited
	tagReset     = 8<<3 | delimited
	tagHeartbeat = 9<<3 | delimited
	tagHandshake = 10<<3 | delimited

	tagDataSeq          = 1<<3 | varint
	tagDataSegmentIndex = 2<<3 | varint
	tagDataSegmentCount = 3<<3 | varint
	tagDataPayload      = 4<<3 | delimited
	tagResumeNextSeq    = 1<<3 | varint
	tagResetReason      = 1<<3 | delimited
	tagHandshakePayload = 1<<3 | delimited
)

// These are the tags of a frame and of each body, sorted by number. If a field with one of these
// numbers has another wire type, the message is not a frame, as in Codex CLI. Most other decoders
// would skip the field.
var (
	frameTags = []uint64{
		tagVersion, tagStreamID, tagAck, tagAckBits, tagData, tagAckFrame, tagResume, tagReset, tagHeartbeat, tagHandshake,
	}
	bodyTags = [...][]uint64{
		Data:      {tagDataSeq, tagDataSegmentIndex, tagDataSegmentCount, tagDataPayload},
		Handshake: {tagHandshakePayload},
		Reset:     {tagResetReason},
		Resume:    {tagResumeNextSeq},
		Heartbeat: nil,
	}
)

// kindOf returns the kind of the body with a tag, 0 for any other tag.
func kindOf(tag uint64) Kind {
	switch tag {
	case tagData:
		return Data
	case tagAckFrame:
		return Ack
	case tagResume:
		return Resume
	case tagReset:
		return Reset
	case tagHeartbeat:
		return Heartbeat
	case tagHandshake:
		return Handshake
	default:
		return 0
	}
}

var (
	errUTF8        = errors.New("string field contains invalid UTF-8")
	errFieldNumber = errors.New("field number out of range")
	errWireType    = errors.New("invalid wire type")
)

// field is one field of an encoded message.
type field struct {
	tag   uint64
	n     uint64 // of a varint
	bytes []byte // of delimited fields: part of the message
}

// text returns the value of a string.
func (f *field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errUTF8
	}
	return string(f.bytes), nil
}

// next reads the first field of a message, which may have the given tags. It returns the rest of
// the message.
func next(b []byte, tags []uint64) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	switch {
	case n < 0:
		return field{}, nil, protowire.ParseError(n)
	case number > protowire.MaxValidNumber:
		return field{}, nil, errFieldNumber
	}
	b = b[n:]
	f.tag = protowire.EncodeTag(number, kind)
	if int(number) <= len(tags) && tags[number-1] != f.tag {
		return field{}, nil, errWireType
	}
	switch kind {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return field{}, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// encoded is an encoded frame, valid or not.
type encoded struct {
	Frame
	version                    uint32
	segmentIndex, segmentCount uint32
}

// read reads a message.
func (e *encoded) read(message []byte) error {
	for len(message) > 0 {
		f, rest, err := next(message, frameTags)
		if err != nil {
			return err
		}
		switch f.tag {
		case tagVersion:
			e.version = uint32(f.n)
		case tagStreamID:
			e.StreamID, err = f.text()
		case tagAck:
			e.Ack = uint32(f.n)
		case tagAckBits:
			e.AckBits = uint32(f.n)
		default:
			if kind := kindOf(f.tag); kind != 0 {
				err = e.readBody(kind, f.bytes)
			}
		}
		if err != nil {
			return err
		}
		message = rest
	}
	return nil
}

// readBody reads a body. It replaces an earlier body of another kind, and merges with an earlier
// body of the same kind.
func (e *encoded) readBody(kind Kind, body []byte) error {
	if e.Kind != kind {
		e.Kind, e.Seq, e.Payload, e.Reason = kind, 0, nil, ""
		e.segmentIndex, e.segmentCount = 0, 0
	}
	for len(body) > 0 {
		f, rest, err := next(body, bodyTags[kind])
		if err != nil {
			return err
		}
		switch kind {
		case Data:
			e.setData(&f)
		case Handshake:
			if f.tag == tagHandshakePayload {
				e.Payload = f.bytes
			}
		case Resume:
			if f.tag == tagResumeNextSeq {
				e.Seq = uint32(f.n)
			}
		case Reset:
			if f.tag == tagResetReason {
				e.Reason, err = f.text()
			}
		}
		if err != nil {
			return err
		}
		body = rest
	}
	return nil
}

func (e *encoded) setData(f *field) {
	switch f.tag {
	case tagDataSeq:
		e.Seq = uint32(f.n)
	case tagDataSegmentIndex:
		e.segmentIndex = uint32(f.n)
	case tagDataSegmentCount:
		e.segmentCount = uint32(f.n)
	case tagDataPayload:
		e.Payload = f.bytes
	}
}

// appendNumber appends a field; 0 is left out.
func appendNumber(b []byte, tag uint64, n uint32) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendVarint(b, tag), uint64(n))
}

// numberSize is how much appendNumber appends.
func numberSize(tag uint64, n uint32) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeVarint(tag) + protowire.SizeVarint(uint64(n))
}

// appendLength appends the beginning of a delimited field of n bytes, which the
// caller appends.
func appendLength(b []byte, tag uint64, n int) []byte {
	return protowire.AppendVarint(protowire.AppendVarint(b, tag), uint64(n))
}

// delimitedSize is the size of a delimited field of n bytes.
func delimitedSize(tag uint64, n int) int {
	return protowire.SizeVarint(tag) + protowire.SizeBytes(n)
}
