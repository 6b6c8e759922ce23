package websocket

import (
	"errors"
	"io"
)

// keptSplice is the most memory, in bytes, that a splice keeps for the next message
// of a direction: nearly all messages need less.
const keptSplice = 1 << 20

// Splice passes whole messages between two connections, in both directions, until one
// of them ends. Then it closes the other: normally if the first was closed normally,
// else without a message. It returns the error that ended it, nil for an orderly end. A
// direction holds one message at a time, so a slow reader holds back the writer at the
// other end.
//
// Splice reads from and writes to both connections; no other code may. It returns after
// its two goroutines have ended.
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
	<-ended // it ends because both connections have ended
	return err
}

// pass writes each message of from to to until one of them fails.
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
