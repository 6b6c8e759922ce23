package files

import (
	"errors"
	"io"

	"codex.internal/pkg/execserver/reply"
)

// chunks is data in pieces of reply.Chunk, of which only the last is shorter.
type chunks struct {
	list [][]byte
	size int64
	at   int
}

// spareChunks keeps pieces for the next large file, until TrimChunks. A sync.Pool
// would be emptied by the collections that reading large files causes.
var spareChunks = make(chan []byte, wholeFile/reply.Chunk)

func takeChunk() []byte {
	select {
	case b := <-spareChunks:
		return b
	default:
		return make([]byte, reply.Chunk)
	}
}

// TrimChunks frees the spare pieces.
func TrimChunks() {
	for {
		select {
		case <-spareChunks:
		default:
			return
		}
	}
}

// readChunks reads up to size bytes, fewer if r ends before. The caller frees
// them, also after an error.
func readChunks(r io.Reader, size int64) (*chunks, error) {
	c := &chunks{}
	for c.size < size {
		b := takeChunk()
		c.list = append(c.list, b)
		n, err := io.ReadFull(r, b[:min(reply.Chunk, size-c.size)])
		c.list[len(c.list)-1] = b[:n]
		c.size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return c, nil
		case err != nil:
			return c, err
		}
	}
	return c, nil
}

// next returns the next piece; false at the end.
func (c *chunks) next() ([]byte, bool) {
	if !c.left() {
		return nil, false
	}
	c.at++
	return c.list[c.at-1], true
}

func (c *chunks) left() bool { return c.at < len(c.list) }

func (c *chunks) free() {
	for _, b := range c.list {
		select {
		case spareChunks <- b[:reply.Chunk]:
		default:
		}
	}
	c.list = nil
}
