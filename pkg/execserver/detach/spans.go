package detach

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"syscall"

	"codex.internal/pkg/execserver/tracing"
)

// spansName is the file in which a keeper leaves the number of its dropped spans. It is empty
// until the number is known, and the first server that counts it removes it.
const spansName = "spans"

// droppedSpans is the content of that file. The numbers are small: a keeper has a few spans, and
// a forged file must not overflow the sum.
type droppedSpans struct {
	Full   uint32 `json:"queueFull"`
	Failed uint32 `json:"exportFailed"`
}

// keeperSpans ends the export of a keeper's spans, and leaves how many were dropped. Servers do
// not wait for that: the collector may not answer, and the keeper has given up its lock. So the
// file is made before, and a server may remove it with the directory at any time.
type keeperSpans struct {
	tracer *tracing.Tracer // nil: no spans are exported
	file   *os.File        // nil: it could not be made
}

// create makes the file in the directory of the process. No process must fail for its spans.
func (s *keeperSpans) create(root *os.Root) {
	if s.tracer == nil {
		return
	}
	if f, err := root.OpenFile(spansName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600); err == nil {
		s.file = f
	}
}

// finish exports the spans that wait, for at most keeperFlushTime.
func (s *keeperSpans) finish() {
	if s.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperFlushTime)
	defer cancel()
	s.tracer.Shutdown(ctx)
	if s.file == nil {
		return
	}
	defer s.file.Close()
	counts := s.tracer.Counts()
	text, _ := json.Marshal(droppedSpans{uint32(counts.Full), uint32(counts.Failed)}) // numbers are never an error
	_, _ = s.file.Write(text)                                                         // without it, the spans are only in the keeper's log
}

// countSpans counts the spans that the keeper of a process has dropped, once it has left their
// number. Of several servers over the directory, the one counts them that removes the file.
func (d *Store) countSpans(k *Process) {
	if !d.Traced {
		return
	}
	f, err := k.root.OpenFile(spansName, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	var dropped droppedSpans
	text, err := io.ReadAll(io.LimitReader(f, maxSpansFile))
	if err != nil || json.Unmarshal(text, &dropped) != nil || k.root.Remove(spansName) != nil {
		return
	}
	d.Events.KeeperSpansDropped.Tell(tracing.Counts{Full: int64(dropped.Full), Failed: int64(dropped.Failed)})
}
