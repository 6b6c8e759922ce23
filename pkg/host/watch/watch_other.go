//go:build !linux

package watch

import "context"

// Watch is never made on this system.
type Watch struct{}

// New returns nil: nothing can be watched on this system.
func New([]string, string) *Watch { return nil }

// Wait returns false.
func (w *Watch) Wait() bool { return false }

// Close does nothing.
func (w *Watch) Close() {}

// Tree is never made on this system.
type Tree struct{ Do func(f func()) bool }

// OpenTree returns ErrUnsupported.
func OpenTree(context.Context, string, bool, int) (*Tree, error) { return nil, ErrUnsupported }

// Next returns false.
func (t *Tree) Next() (Batch, bool) { return Batch{}, false }

// Close does nothing.
func (t *Tree) Close() {}
