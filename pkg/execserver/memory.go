//go:build linux || darwin

package execserver

import (
	"runtime/debug"
	"sync"
	"time"

	"codex.internal/pkg/wire/transport"
)

// memory hands large buffers back to the system once the server has had no
// use for them for a while. Without it a single large file would stay in the
// process's resident size until the next ordinary collections, minutes later.
type memory struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func newMemory() *memory { return &memory{} }

// used notes that something large is in use; releaseDelay after the last of
// these calls the memory is handed back.
func (m *memory) used() {
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
	transport.Trim()
	trimChunks()
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// stop ends the timer.
func (m *memory) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
}
