package watch

import (
	"context"
	"os"
)

// Ending ends a Tree's Next when a context ends. It is a pipe whose second end is
// then closed.
type Ending struct {
	r, w   *os.File
	unhook func() bool
}

// NewEnding returns the Ending of a context, which the caller closes after the Tree. The
// error is the system's, such as a shortage of descriptors.
func NewEnding(ctx context.Context) (*Ending, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &Ending{r, w, context.AfterFunc(ctx, func() { _ = w.Close() })}, nil
}

// Descriptor returns the descriptor for OpenTree, which stays that of the Ending.
func (e *Ending) Descriptor() int { return int(e.r.Fd()) }

// Close releases the pipe.
func (e *Ending) Close() {
	e.unhook()
	_ = e.r.Close()
	_ = e.w.Close()
}
