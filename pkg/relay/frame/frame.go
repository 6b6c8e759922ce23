// Package frame is the protocol of the relay between a harness and an executor. It defines the
// frames and which of them are valid, and the rules by which each record arrives once and in order.
//
// Decode and Frame.Append decode and encode frames. A Stream is one end of one stream after its
// handshake. It is a state machine without goroutines, clock or connection. Its owner calls it for
// each event with the current time, and writes the frames that it returns:
//
//	out, err := stream.Receive(frame, now) // open out.Records, write out.Frames
//	frame, err := stream.Send(record, now) // write frame, if stream.Ready(...)
//	frames, err := stream.Advance(now)     // at stream.Deadline(); write frames
//
// An error ends the stream. The owner then notifies the peer with a frame of kind Reset.
//
// Only the payloads are authenticated; the relay can change everything else. By that it can delay
// or end a stream, but nothing more.
//
// The rules are in docs/spec/relay.md §5.
package frame

import "fmt"

// Kind is the type of a frame.
type Kind uint8

// The kinds of frames. Peers that do not acknowledge ignore the last three.
const (
	Data      Kind = iota + 1 // one record: Seq, Payload
	Handshake                 // one message of the handshake: Payload
	Reset                     // the stream has ended: Reason
	Ack                       // only Ack and AckBits
	Resume                    // the stream begins or continues: Seq
	Heartbeat                 // the sender is still alive
)

// String returns the kind's name in the protocol.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Handshake:
		return "handshake"
	case Reset:
		return "reset"
	case Ack:
		return "ack_frame"
	case Resume:
		return "resume"
	case Heartbeat:
		return "heartbeat"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Frame is one message between an end and the relay.
type Frame struct {
	StreamID string // never blank
	// Ack is the highest seq up to which every record has arrived at the sender
	// of the frame. AckBits are the records beyond it that have arrived: bit i
	// is for the record Ack+1+i. Both are 0 before record 0 has arrived, and
	// always from a peer that does not acknowledge.
	Ack, AckBits uint32
	Kind         Kind
	Seq          uint32 // Data: of the record; Resume: the lowest that is not acknowledged
	Payload      []byte // Data, Handshake: never empty
	Reason       string // Reset: never empty; chosen by the peer, so not to be shown
}
