package tracing

import (
	"encoding/hex"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// Context identifies a span of this or another program, as in W3C Trace Context. The zero value
// identifies no span.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
	State   string // tracestate; valid or empty
}

// IsValid reports whether c identifies a span.
func (c Context) IsValid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// The lengths of the parts of a traceparent of version 00: 2, 32, 16 and 2 digits.
const (
	traceAt  = 3
	spanAt   = traceAt + 32 + 1
	flagsAt  = spanAt + 16 + 1
	parentOf = flagsAt + 2 // the length
)

// Traceparent returns the header traceparent of W3C Trace Context.
func (c Context) Traceparent() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// Parse reads the headers of W3C Trace Context. If the traceparent is unusable, Parse returns
// the zero Context. It ignores an unusable tracestate. Versions after 00 may have additional
// data at their ends.
func Parse(traceparent, tracestate string) Context {
	p := traceparent
	switch {
	case len(p) < parentOf, len(p) > parentOf && (p[parentOf] != '-' || p[:2] == "00"):
		return Context{}
	case p[2] != '-' || p[spanAt-1] != '-' || p[flagsAt-1] != '-':
		return Context{}
	}
	var version, flags [1]byte
	var c Context
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], p[:2]}, {c.Trace[:], p[traceAt : spanAt-1]}, {c.Span[:], p[spanAt : flagsAt-1]}, {flags[:], p[flagsAt:parentOf]}} {
		if !lowerHex(part.to, part.text) {
			return Context{}
		}
	}
	if version[0] == 0xff || !c.IsValid() {
		return Context{}
	}
	c.Sampled = flags[0]&1 != 0
	if isState(tracestate) {
		c.State = tracestate
	}
	return c
}

// lowerHex decodes hexadecimal digits. Capital letters are invalid.
func lowerHex(to []byte, text string) bool {
	_, err := hex.Decode(to, []byte(text))
	return err == nil && strings.ToLower(text) == text
}

// isState reports whether a text is a tracestate: members key=value with commas between them.
func isState(text string) bool {
	if len(text) > maxState {
		return false
	}
	members := 0
	for member := range strings.SplitSeq(text, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if members++; !ok || members > maxStateMembers || !isStateKey(key) || !isStateValue(value) {
			return false
		}
	}
	return true
}

// isStateKey allows the characters of keys, with at most one @ inside.
func isStateKey(key string) bool {
	for i := range len(key) {
		switch c := key[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && strings.IndexByte("_-*/@", c) >= 0:
		default:
			return false
		}
	}
	return key != "" && len(key) <= 256 && strings.Count(key, "@") <= 1
}

// isStateValue allows printable ASCII without commas and equals signs.
func isStateValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == ',' || c == '=' {
			return false
		}
	}
	return value != "" && len(value) <= 256
}

// ParseMember reads the trace member of a request, which is a JSON text or nil. If the member
// is unusable, it returns the zero Context.
func ParseMember(text []byte) Context {
	if text == nil || len(text) > maxMember {
		return Context{}
	}
	var parent, state string
	err := jsonwire.NewReader(text).Struct("a trace", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.LaxText("traceparent", &parent)
		c.LaxText("tracestate", &state)
	}))
	if err != nil {
		return Context{}
	}
	return Parse(parent, state)
}
