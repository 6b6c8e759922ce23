//go:build unix

package remote

import (
	"context"
	"testing"

	"codex.internal/pkg/execproto"
)

// TestSizeBeforeTheSignalIsHeard: a terminal that changes its size between the start of
// the process and the first look at signals is not forgotten.
func TestSizeBeforeTheSignalIsHeard(t *testing.T) {
	small, large := &execproto.TerminalSize{Rows: 24, Cols: 80}, &execproto.TerminalSize{Rows: 40, Cols: 120}
	for _, tt := range []struct {
		name      string
		told, now *execproto.TerminalSize
		changes   int
	}{
		{"the same size", small, small, 0},
		{"another size", small, large, 1},
		{"the process was told none", nil, small, 1},
		{"a terminal without a size", small, nil, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		changes := 0
		routineResize(ctx, tt.told, func() *execproto.TerminalSize { return tt.now }, func() { changes++ })
		if changes != tt.changes {
			t.Errorf("%s: %d changes, want %d", tt.name, changes, tt.changes)
		}
	}
}
