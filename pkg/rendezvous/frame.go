package rendezvous

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/relayframe"
)

// errFrame says that a message is no frame that can be routed.
var errFrame = errors.New("not a frame that can be routed")

// header is what the relay reads of a frame; the rest is between the ends.
type header struct {
	stream string
	kind   relayframe.Kind
}

// peek reads a frame's header. Frames with ids that other ends would refuse are
// errors.
func peek(frame []byte) (header, error) {
	stream, kind, err := relayframe.Route(frame)
	switch {
	case err != nil:
		return header{}, fmt.Errorf("%w: %w", errFrame, err)
	case kind == 0:
		return header{}, fmt.Errorf("%w: it has no body", errFrame)
	case len(stream) > relayframe.MaxStreamID, stream == "" || strings.TrimSpace(stream) != stream:
		return header{}, fmt.Errorf("%w: its stream_id is empty, longer than %d bytes, or has blanks around it", errFrame, relayframe.MaxStreamID)
	}
	return header{stream, kind}, nil
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
