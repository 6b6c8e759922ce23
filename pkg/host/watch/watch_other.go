//go:build !linux

package watch

import "context"

// Instance has no watches on this system.
type Instance struct{}

// Watch is never created on this system.
type Watch struct{}

// New returns nil: this system does not support watches.
func New(*Instance, []string, string) *Watch { return nil }

// Wait returns false.
func (w *Watch) Wait() bool { return false }

// Close does nothing.
func (w *Watch) Close() {}

// Tree is never created on this system.
type Tree struct{ Do func(f func()) bool }

// OpenTree returns ErrUnsupported.
func OpenTree(context.Context, *Instance, string, bool, int) (*Tree, error) {
	return nil, ErrUnsupported
}

// Next returns false.
func (t *Tree) Next() (Batch, bool) { return Batch{}, false }

// Close does nothing.
func (t *Tree) Close() {}
