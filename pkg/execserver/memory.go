package execserver

import (
	"runtime/debug"
	"sync"
	"time"

	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/wire/websocket"
)

// memoryReleaser returns large buffers to the operating system once the server
// has not used any for releaseDelay. Otherwise the memory of a single large
// file would stay resident until the next garbage collections, minutes later.
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
	files.TrimChunks()
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
