package watch

import (
	"context"
	"os"
)

// Ending ends a Tree's Next when a context ends. It is a pipe; its write end is closed when the
// context ends.
type Ending struct {
	r, w   *os.File
	unhook func() bool
}

// NewEnding returns the Ending of a context. The caller closes it after the Tree. The error is one
// of the system, such as a shortage of descriptors.
func NewEnding(ctx context.Context) (*Ending, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &Ending{r, w, context.AfterFunc(ctx, func() { _ = w.Close() })}, nil
}

// Descriptor returns the descriptor for OpenTree. The Ending still owns it.
func (e *Ending) Descriptor() int { return int(e.r.Fd()) }

// Close releases the pipe.
func (e *Ending) Close() {
	e.unhook()
	_ = e.r.Close()
	_ = e.w.Close()
}
