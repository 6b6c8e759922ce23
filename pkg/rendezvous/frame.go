package rendezvous

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/relay/relayframe"
)

// errFrame says that a message is no frame that can be routed.
var errFrame = errors.New("not a frame that can be routed")

// header is what the relay reads of a frame; the rest is between the ends.
type header struct {
	stream string
	kind   relayframe.Kind
}

// peek reads a frame's header. Frames with ids that other ends would refuse are
// errors, as is what ends would drop, unless it is data: by the other kinds the
// relay knows which streams there are, and it must not forget one that goes on
// at the executor.
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
	if kind != relayframe.Data {
		f, err := relayframe.Decode(frame)
		if err == nil && len(f.Reason) > relayframe.MaxReason {
			err = fmt.Errorf("its reason is longer than %d bytes", relayframe.MaxReason)
		}
		if err != nil {
			return header{}, fmt.Errorf("%w: %w", errFrame, err)
		}
	}
	return header{stream, kind}, nil
}

// The reasons of the relay's own resets. No end shows them.
const (
	resetHarnessGone   = "harness_gone"
	resetUnknownStream = "unknown_stream"
	resetStreamTaken   = "stream_taken"
	resetStreamLimit   = "stream_limit"
	resetUnanswered    = "unanswered"
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
