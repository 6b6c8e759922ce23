package rendezvous

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"codex.internal/pkg/relayframe"
)

// errFrame says that a message is no frame that can be routed.
var errFrame = errors.New("not a frame that can be routed")

// header is what the relay reads of a frame; the rest is between the ends.
type header struct {
	stream string
	kind   relayframe.Kind
}

// The fields of a frame that the relay reads.
const fieldStream = 2

var kinds = map[protowire.Number]relayframe.Kind{
	5: relayframe.Data, 6: relayframe.Ack, 7: relayframe.Resume,
	8: relayframe.Reset, 9: relayframe.Heartbeat, 10: relayframe.Handshake,
}

// peek reads a frame's header without copying its payload. Frames with ids
// that other ends would refuse are errors.
func peek(frame []byte) (header, error) {
	var h header
	var stream []byte
	for rest := frame; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return header{}, fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		rest = rest[n:]
		n = protowire.ConsumeFieldValue(number, kind, rest)
		if n < 0 {
			return header{}, fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		if kind == protowire.BytesType {
			if number == fieldStream {
				stream, _ = protowire.ConsumeBytes(rest)
			} else if k, ok := kinds[number]; ok {
				h.kind = k
			}
		}
		rest = rest[n:]
	}
	h.stream = string(stream)
	switch {
	case h.kind == 0:
		return header{}, fmt.Errorf("%w: it has no body", errFrame)
	case !utf8.ValidString(h.stream) || len(h.stream) > relayframe.MaxStreamID,
		h.stream == "" || strings.TrimSpace(h.stream) != h.stream:
		return header{}, fmt.Errorf("%w: its stream_id is empty, longer than %d bytes, or has blanks around it", errFrame, relayframe.MaxStreamID)
	}
	return h, nil
}

// The reasons of the relay's own resets. No end shows them.
const (
	resetHarnessGone   = "harness_gone"
	resetUnknownStream = "unknown_stream"
	resetStreamTaken   = "stream_taken"
	resetStreamLimit   = "stream_limit"
)

// resetFrame ends a stream whose id peek has accepted.
func resetFrame(stream, reason string) []byte {
	f := relayframe.Frame{StreamID: stream, Kind: relayframe.Reset, Reason: reason}
	frame, err := f.Append(nil)
	if err != nil {
		// Frames with such ids are dropped by peek.
		panic(fmt.Sprintf("rendezvous: reset of stream %q: %v", stream, err))
	}
	return frame
}
