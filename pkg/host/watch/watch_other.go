//go:build !linux

package watch

// Supported reports whether New can watch anything on this system.
const Supported = false

// Watch is never made on this system.
type Watch struct{}

// New returns nil: nothing can be watched on this system.
func New([]string, string) *Watch { return nil }

// Wait returns false.
func (w *Watch) Wait() bool { return false }

// Close does nothing.
func (w *Watch) Close() {}
