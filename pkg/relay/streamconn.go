package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// streamConn implements websocket.Transport over a stream. Its wire format is the plaintext of the
// records: each message after its length.
type streamConn struct {
	s *stream
	// principal is the name of the harness. It is empty at the harness's end.
	principal string
	grant     *tokens.Grant // what the registry says about the harness; nil: nothing
	// parts are the fragments of a message, after space for its length. They have size bytes.
	parts []*[]byte
	size  int
}

// headerSize is the size of the length that precedes each message.
const headerSize = 4

// Peer implements websocket.Transport.
func (c *streamConn) Peer() string { return "relay stream " + c.s.id }

// Principal implements websocket.Authenticated. A harness is identified by its key, which it uses
// for the life of the environment.
func (c *streamConn) Principal() string { return c.principal }

// Grant returns the registry's grant for the harness of the stream, or nil if there is none.
func (c *streamConn) Grant() *tokens.Grant { return c.grant }

// principalOf names a harness by a digest of its key.
func principalOf(key noise.PublicKey) string {
	digest := sha256.Sum256(key.AppendJSON(nil))
	return "harness " + hex.EncodeToString(digest[:])
}

// ReadMessage implements websocket.Transport. A text that is not a JSON-RPC message
// ends the stream, as in Codex CLI, and is not answered.
func (c *streamConn) ReadMessage() (*websocket.Message, error) {
	message, err := c.s.read()
	if errors.Is(err, frame.ErrReset) {
		return nil, websocket.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	if _, err := jsonrpc.Decode(message); err != nil {
		err = fmt.Errorf("%w: %w", frame.ErrProtocol, err)
		c.s.end(err)
		return nil, err
	}
	return websocket.NewMessage(message), nil
}

// Suspended implements websocket.Suspender.
func (c *streamConn) Suspended() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.unheard
}

// Open implements websocket.Transport.
func (c *streamConn) Open(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// Seal implements websocket.Transport.
func (c *streamConn) Seal(b []byte, start int) []byte {
	// Messages of this program are shorter than 4 GiB. WriteFrames refuses those that are
	// longer than the peer accepts.
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-headerSize))
	return b
}

// WriteFrames implements websocket.Transport. If the peer acknowledges, it waits for
// acknowledgements and packs the messages into as few records as possible. Otherwise each message
// begins a new record, as with Codex CLI.
func (c *streamConn) WriteFrames(frames []byte) error {
	for len(frames) > 0 {
		n, err := c.together(frames)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(frames[:n], noise.MaxChunk) {
			if err := c.s.send(chunk); err != nil {
				return err
			}
		}
		frames = frames[n:]
	}
	return nil
}

// together returns how many bytes of the messages may share records. A message that is too long
// ends the stream; the messages before it are sent.
func (c *streamConn) together(frames []byte) (int, error) {
	acking := c.s.acking()
	n := 0
	for n < len(frames) && (n == 0 || acking) {
		length := int(binary.BigEndian.Uint32(frames[n:]))
		if length > noise.MaxMessage && n > 0 {
			break
		}
		if length > noise.MaxMessage {
			c.s.end(errTooLarge)
			return 0, errTooLarge
		}
		n += headerSize + length
	}
	return n, nil
}

// Fragment implements websocket.Transport. It first collects all parts, because the length of the
// message must be sent before them.
func (c *streamConn) Fragment(part []byte, first, last bool) error {
	if first {
		c.drop()
		c.keep(c.Open(nil))
	}
	if part = part[websocket.FragmentRoom:]; len(part) > headerSize+noise.MaxMessage-c.size {
		c.drop()
		c.s.end(errTooLarge)
		return errTooLarge
	}
	c.keep(part)
	if !last {
		return nil
	}
	defer c.drop()
	binary.BigEndian.PutUint32(*c.parts[0], uint32(c.size-headerSize))
	for _, part := range c.parts {
		for chunk := range slices.Chunk(*part, noise.MaxChunk) {
			if err := c.s.send(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep appends a copy of a part to the others.
func (c *streamConn) keep(part []byte) {
	c.size += len(part)
	for len(part) > 0 {
		n := len(c.parts)
		if n == 0 || len(*c.parts[n-1]) == partSize {
			c.parts = append(c.parts, partBuffers.Get().(*[]byte))
			continue
		}
		last := c.parts[n-1]
		room := min(partSize-len(*last), len(part))
		*last = append(*last, part[:room]...)
		part = part[room:]
	}
}

// drop forgets the parts.
func (c *streamConn) drop() {
	for _, part := range c.parts {
		*part = (*part)[:0]
		partBuffers.Put(part)
	}
	c.parts, c.size = nil, 0
}

// partBuffers hold parts, so that a large message is not copied repeatedly while it grows.
var partBuffers = sync.Pool{New: func() any { b := make([]byte, 0, partSize); return &b }}

// Close implements websocket.Transport. Written data is sent before the reset. The
// reason is not sent to the peer.
func (c *streamConn) Close(int, string) error {
	c.s.end(ErrClosed)
	return nil
}

// Abort implements websocket.Transport.
func (c *streamConn) Abort() error {
	c.s.end(errAborted)
	return nil
}
