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

// keeperSpans ends the export of a keeper's spans, and stores how many were dropped. Servers do
// not wait for the export: the collector may not answer, and the keeper has already released
// its lock. So the keeper creates the file before, and a server may remove it with the
// directory at any time.
type keeperSpans struct {
	tracer *tracing.Tracer // nil: the keeper exports no spans
	file   *os.File        // nil: the file could not be created
}

// create creates the file in the directory of the process. It ignores errors: a process must
// not fail because of its spans.
func (s *keeperSpans) create(root *os.Root) {
	if s.tracer == nil {
		return
	}
	if f, err := root.OpenFile(spansName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600); err == nil {
		s.file = f
	}
}

// finish exports the pending spans, for at most keeperFlushTime.
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
	text, _ := json.Marshal(droppedSpans{uint32(counts.Full), uint32(counts.Failed)}) // numbers can always be encoded
	_, _ = s.file.Write(text)                                                         // if this fails, only the keeper's log has the numbers
}

// countSpans adds the spans that the keeper of a process has dropped to the metrics, once the
// keeper has stored their number. If several servers use the directory, only the server that
// removes the file counts them.
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
