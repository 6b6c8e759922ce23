package execserver

import (
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/wire/websocket"
)

// memoryReleaser returns large buffers to the operating system once the server
// has not used any for releaseDelay. Without it the memory of a single large
// file would stay resident until the next ordinary collections, minutes later.
type memoryReleaser struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func newMemoryReleaser() *memoryReleaser { return &memoryReleaser{} }

// used must be called when a large buffer is in use. The memory is returned
// releaseDelay after the last call.
func (m *memoryReleaser) used() {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.over:
	case m.timer == nil:
		m.timer = time.AfterFunc(releaseDelay, release)
	default:
		m.timer.Reset(releaseDelay)
	}
}

// release collects twice because the first collection only moves pooled
// buffers to the pools' second generation.
func release() {
	websocket.Trim()
	trimChunks()
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// stop ends the timer.
func (m *memoryReleaser) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
}

// chunks is data in pieces of reply.Chunk, of which only the last is shorter.
type chunks struct {
	list [][]byte
	size int64
	at   int
}

// spareChunks keeps pieces for the next large file, until trimChunks. A sync.Pool
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

// trimChunks frees the spare pieces.
func trimChunks() {
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

// next returns the next piece; false when there is none.
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
