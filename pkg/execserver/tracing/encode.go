package tracing

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields of OpenTelemetry's protobuf, version 1
// (opentelemetry/proto/trace/v1/trace.proto and those it imports).
const (
	requestResourceSpans = 1

	resourceSpansResource, resourceSpansScopeSpans = 1, 2
	resourceAttributes                             = 1
	scopeSpansScope, scopeSpansSpans               = 1, 2
	scopeName, scopeVersion                        = 1, 2

	spanTrace, spanID, spanState, spanParent = 1, 2, 3, 4
	spanName, spanKind, spanStart, spanEnd   = 5, 6, 7, 8
	spanAttributes, spanStatus, spanFlags    = 9, 15, 16
	statusCode, statusError                  = 3, 2

	pairKey, pairValue             = 1, 2
	valueText, valueBool, valueInt = 1, 2, 3

	answerPartial, partialRejected = 1, 1
)

// flagSampled is the sampled bit of the flags of a span.
const flagSampled = 1

// appendMessage appends a field with an embedded message, which f appends.
func appendMessage(b []byte, field protowire.Number, f func(b []byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, f(nil))
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendBytes(b []byte, field protowire.Number, bytes []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), bytes)
}

func appendVarint(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendAttribute(b []byte, field protowire.Number, a attribute) []byte {
	return appendMessage(b, field, func(b []byte) []byte {
		b = appendText(b, pairKey, a.name)
		return appendMessage(b, pairValue, func(b []byte) []byte {
			switch value := a.value.(type) {
			case bool:
				return appendVarint(b, valueBool, protowire.EncodeBool(value))
			case int64:
				return appendVarint(b, valueInt, uint64(value))
			default:
				// An empty text must be encoded too.
				return appendBytes(b, valueText, []byte(value.(string)))
			}
		})
	})
}

// encodeRequest encodes an ExportTraceServiceRequest.
func encodeRequest(resource []attribute, version string, spans []*Span) []byte {
	return appendMessage(nil, requestResourceSpans, func(b []byte) []byte {
		b = appendMessage(b, resourceSpansResource, func(b []byte) []byte {
			for _, a := range resource {
				b = appendAttribute(b, resourceAttributes, a)
			}
			return b
		})
		return appendMessage(b, resourceSpansScopeSpans, func(b []byte) []byte {
			b = appendMessage(b, scopeSpansScope, func(b []byte) []byte {
				return appendText(appendText(b, scopeName, "codex-exec-server"), scopeVersion, version)
			})
			for _, s := range spans {
				b = appendMessage(b, scopeSpansSpans, s.append)
			}
			return b
		})
	})
}

// append appends the fields of a span that has ended.
func (s *Span) append(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = appendBytes(b, spanTrace, s.ctx.Trace[:])
	b = appendBytes(b, spanID, s.ctx.Span[:])
	b = appendText(b, spanState, s.ctx.State)
	if s.parent != [8]byte{} {
		b = appendBytes(b, spanParent, s.parent[:])
	}
	b = appendText(b, spanName, s.name)
	b = appendVarint(b, spanKind, uint64(s.kind))
	began := s.began.UnixNano()
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanStart, protowire.Fixed64Type), uint64(began))
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanEnd, protowire.Fixed64Type), uint64(began+int64(s.took)))
	for _, a := range s.attributes {
		b = appendAttribute(b, spanAttributes, a)
	}
	if s.failed {
		b = appendMessage(b, spanStatus, func(b []byte) []byte { return appendVarint(b, statusCode, statusError) })
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), flagSampled)
}

// rejected returns how many spans a collector did not accept, according to its
// ExportTraceServiceResponse. It returns 0 if the response cannot be read.
func rejected(answer []byte) int64 {
	partial := find(answer, answerPartial, protowire.BytesType)
	text, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	count, n := protowire.ConsumeVarint(find(text, partialRejected, protowire.VarintType))
	if n < 0 {
		return 0
	}
	return int64(count)
}

// find returns the rest of b, beginning with the value of the first field with that number and
// type; nil: there is no such field.
func find(b []byte, field protowire.Number, kind protowire.Type) []byte {
	for len(b) > 0 {
		number, got, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == field && got == kind {
			return b
		}
		if n = protowire.ConsumeFieldValue(number, got, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
