package websocket

import (
	"errors"
	"io"
)

// keptSplice is the most memory, in bytes, that each direction of a splice retains for its next
// message. Nearly all messages need less.
const keptSplice = 1 << 20

// Splice passes whole messages between two connections, in both directions, until one of them
// ends. Then it closes the other one: with a normal close if the first was closed normally,
// else without a message. It returns the error that ended it, and nil after a normal close.
// Each direction buffers one message at a time, so a slow reader slows down the writer at the
// other end.
//
// While Splice runs, no other code may read from or write to the two connections. It returns
// after its two goroutines have ended.
func Splice(a, b Transport) error {
	ended := make(chan error, 2)
	go func() { ended <- pass(a, b) }()
	go func() { ended <- pass(b, a) }()
	err := <-ended
	if errors.Is(err, ErrClosed) || errors.Is(err, io.EOF) {
		err = nil
		_, _ = a.Close(CloseNormal, ""), b.Close(CloseNormal, "")
	} else {
		_, _ = a.Abort(), b.Abort()
	}
	<-ended // this pass ends because both connections have ended
	return err
}

// pass writes each message of from to the connection to, until one of them fails.
func pass(from, to Transport) error {
	var frame []byte
	for {
		m, err := from.ReadMessage()
		if err != nil {
			return err
		}
		frame = append(to.Open(frame[:0]), m.Bytes()...)
		m.Release()
		frame = to.Seal(frame, 0)
		if err := to.WriteFrames(frame); err != nil {
			return err
		}
		if cap(frame) > keptSplice {
			frame = nil
		}
	}
}
