package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"codex.internal/pkg/jsonrpc"
	"codex.internal/pkg/noiseik"
	"codex.internal/pkg/relayframe"
	"codex.internal/pkg/transport"
)

// streamConn hands a stream up to who serves it. Its wire form is what goes
// into the records: each message behind its length.
type streamConn struct {
	s     *stream
	large []byte // the fragments of a message: its length comes first
}

// headerSize is that of the length in front of each message.
const headerSize = 4

// Peer implements transport.Conn.
func (c *streamConn) Peer() string { return "relay stream " + c.s.id }

// ReadMessage implements transport.Conn. A text that is no JSON-RPC message
// ends the stream, as in the reference, and is not answered.
func (c *streamConn) ReadMessage() (*transport.Message, error) {
	message, err := c.s.read()
	if errors.Is(err, relayframe.ErrReset) {
		return nil, transport.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	if _, err := jsonrpc.Decode(message); err != nil {
		err = fmt.Errorf("%w: %w", relayframe.ErrProtocol, err)
		c.s.end(err)
		return nil, err
	}
	return transport.NewMessage(message), nil
}

// Suspended implements transport.Suspender.
func (c *streamConn) Suspended() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.unheard
}

// Open implements transport.Conn.
func (c *streamConn) Open(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// Seal implements transport.Conn.
func (c *streamConn) Seal(b []byte, start int) []byte {
	// No message of this program is as long as 32 bits can tell; WriteFrames
	// refuses those that are longer than the peer takes.
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-headerSize))
	return b
}

// WriteFrames implements transport.Conn. It waits for the peer's
// acknowledgements where the peer sends any.
func (c *streamConn) WriteFrames(frames []byte, progress func()) error {
	for len(frames) > 0 {
		length := int(binary.BigEndian.Uint32(frames))
		if length > noiseik.MaxMessage {
			c.s.end(errTooLarge)
			return errTooLarge
		}
		for chunk := range slices.Chunk(frames[:headerSize+length], noiseik.MaxChunk) {
			if err := c.s.send(chunk); err != nil {
				return err
			}
			progress()
		}
		frames = frames[headerSize+length:]
	}
	return nil
}

// Fragment implements transport.Conn. The parts are put together first, because
// the length goes ahead of them.
func (c *streamConn) Fragment(part []byte, first, last bool, progress func()) error {
	if first {
		c.large = c.Open(nil)
	}
	part = part[transport.FragmentRoom:]
	if len(c.large)+len(part) > headerSize+noiseik.MaxMessage {
		c.large = nil
		c.s.end(errTooLarge)
		return errTooLarge
	}
	c.large = append(c.large, part...)
	if !last {
		return nil
	}
	message := c.Seal(c.large, 0)
	c.large = nil
	return c.WriteFrames(message, progress)
}

// Close implements transport.Conn: what was written goes out before the reset.
// The peer is not told why.
func (c *streamConn) Close(int, string) error {
	c.s.end(ErrClosed)
	return nil
}

// Abort implements transport.Conn.
func (c *streamConn) Abort() error {
	c.s.end(errAborted)
	return nil
}
