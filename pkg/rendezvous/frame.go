package rendezvous

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/relay/frame"
)

// errFrame means that a message is not a frame that can be routed.
var errFrame = errors.New("not a frame that can be routed")

// header is the part of a frame that the relay reads. The rest concerns only the ends.
type header struct {
	stream string
	kind   frame.Kind
}

// peek reads a frame's header. It returns an error for frames with ids that ends would refuse, and
// for frames other than data that ends would drop. The relay uses these other frames to know which
// streams exist, and must not remove a stream that continues at the executor.
func peek(message []byte) (header, error) {
	stream, kind, err := frame.Route(message)
	switch {
	case err != nil:
		return header{}, fmt.Errorf("%w: %w", errFrame, err)
	case kind == 0:
		return header{}, fmt.Errorf("%w: it has no body", errFrame)
	case len(stream) > frame.MaxStreamID, stream == "" || strings.TrimSpace(stream) != stream:
		return header{}, fmt.Errorf("%w: its stream_id is empty, longer than %d bytes, or has blanks around it", errFrame, frame.MaxStreamID)
	}
	if kind != frame.Data {
		f, err := frame.Decode(message)
		if err == nil && len(f.Reason) > frame.MaxReason {
			err = fmt.Errorf("its reason is longer than %d bytes", frame.MaxReason)
		}
		if err != nil {
			return header{}, fmt.Errorf("%w: %w", errFrame, err)
		}
	}
	return header{stream, kind}, nil
}

// These are the reasons of the relay's own resets. Ends do not show them.
const (
	resetHarnessGone   = "harness_gone"
	resetUnknownStream = "unknown_stream"
	resetStreamTaken   = "stream_taken"
	resetStreamLimit   = "stream_limit"
	resetUnanswered    = "unanswered"
)

// resetFrame ends a stream whose id peek has accepted.
func resetFrame(stream, reason string) []byte {
	f := frame.Frame{StreamID: stream, Kind: frame.Reset, Reason: reason}
	message, err := f.Append(nil)
	if err != nil {
		// This cannot happen, because peek has dropped frames whose ids cannot be encoded.
		panic(fmt.Sprintf("rendezvous: reset of stream %q: %v", stream, err))
	}
	return message
}
