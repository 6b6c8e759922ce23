package process

import (
	"bytes"
	"sync"
	"testing"
)

// recorder is a Sink that stores the events it gets and checks their order.
type recorder struct {
	t      testing.TB
	mu     sync.Mutex
	last   uint64
	out    map[Stream]*bytes.Buffer
	code   int
	exited uint64
	end    Exit
	closed uint64
	block  chan struct{} // Output waits for it, when set
	first  chan struct{} // closed with the first output
	once   sync.Once
	exit   chan struct{}
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, out: map[Stream]*bytes.Buffer{}, first: make(chan struct{}), exit: make(chan struct{})}
}

func (r *recorder) next(seq uint64) {
	if seq != r.last+1 {
		r.t.Errorf("event %d after %d", seq, r.last)
	}
	if r.closed != 0 {
		r.t.Errorf("event %d after closed", seq)
	}
	r.last = seq
}

func (r *recorder) Output(seq uint64, s Stream, chunk []byte) {
	r.mu.Lock()
	r.next(seq)
	if len(chunk) == 0 || len(chunk) > MaxChunk {
		r.t.Errorf("a chunk of %d bytes", len(chunk))
	}
	if r.out[s] == nil {
		r.out[s] = new(bytes.Buffer)
	}
	r.out[s].Write(chunk)
	block := r.block
	r.mu.Unlock()
	r.once.Do(func() { close(r.first) })
	if block != nil {
		<-block
	}
}

func (r *recorder) Exited(seq uint64, e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next(seq)
	r.code, r.exited, r.end = e.Code, seq, e
	close(r.exit)
}

func (r *recorder) Closed(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next(seq)
	if r.exited == 0 {
		r.t.Error("closed before exited")
	}
	r.closed = seq
}

func (r *recorder) text(s Stream) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out[s] == nil {
		return ""
	}
	return r.out[s].String()
}
