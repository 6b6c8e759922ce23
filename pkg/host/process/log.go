package process

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// block is a buffer that is filled by one read. It returns to the pool when the log and all readers
// have released it.
type block struct {
	data [MaxChunk]byte
	refs atomic.Int32
}

var blocks = sync.Pool{New: func() any { return new(block) }}

// takeBlock returns a block with one reference.
func takeBlock() *block {
	b := blocks.Get().(*block)
	b.refs.Store(1)
	return b
}

func (b *block) retain() {
	if b != nil {
		b.refs.Add(1)
	}
}

func (b *block) release() {
	if b != nil && b.refs.Add(-1) == 0 {
		blocks.Put(b)
	}
}

// Stream is the source of output.
type Stream string

// The streams of a process: two pipes, or one terminal.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	PTY    Stream = "pty"
)

// Chunk is one numbered piece of output.
type Chunk struct {
	Seq    uint64
	Stream Stream
	Data   []byte
	from   *block // the block that holds Data; nil: Data has memory of its own
}

// ReadResult is retained output and the state of the process. The chunks' data
// is valid until Release.
type ReadResult struct {
	Chunks []Chunk
	// NextSeq follows the last chunk if a byte limit truncated the answer. Otherwise it is the
	// number of the next event.
	NextSeq       uint64
	Exited        bool
	ExitCode      *int  // nil until the process ended
	Exit          *Exit // nil until then
	Closed        bool
	Failure       *string
	SandboxDenied bool // the answer of Spec.DetectDenial
}

// Release releases the memory of the chunks.
func (r *ReadResult) Release() {
	for i := range r.Chunks {
		r.Chunks[i].from.release()
	}
	r.Chunks = nil
}

// eventLog numbers the events of one process and retains its newest output. No code waits while it
// holds the lock, so a read of the log never blocks because of a slow receiver of events.
type eventLog struct {
	mu       sync.Mutex
	last     uint64 // number of the newest event
	chunks   []Chunk
	bytes    int
	exited   bool
	exit     Exit
	closed   bool
	released bool
	waiting  int
	changed  chan struct{} // closed and replaced on a change, if a reader waits
}

// output numbers and retains a piece of output. The log takes its own reference to from.
func (l *eventLog) output(s Stream, data []byte, from *block) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	if !l.released {
		from.retain()
		l.chunks = append(l.chunks, Chunk{Seq: l.last, Stream: s, Data: data, from: from})
		l.bytes += len(data)
		l.trim()
	}
	l.notify()
	return l.last
}

// trim drops the oldest chunks until the rest is within the limits.
func (l *eventLog) trim() {
	drop := 0
	for l.bytes > MaxRetained || len(l.chunks)-drop > maxChunks {
		c := &l.chunks[drop]
		l.bytes -= len(c.Data)
		c.from.release()
		*c = Chunk{}
		drop++
	}
	l.chunks = l.chunks[drop:]
}

func (l *eventLog) recordExit(e Exit) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.exited, l.exit = true, e
	l.notify()
	return l.last
}

// outputText returns a copy of the retained output: stdout or the terminal's output, and stderr.
func (l *eventLog) outputText() (stdout, stderr []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.chunks {
		if c := &l.chunks[i]; c.Stream == Stderr {
			stderr = append(stderr, c.Data...)
		} else {
			stdout = append(stdout, c.Data...)
		}
	}
	return stdout, stderr
}

func (l *eventLog) close() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.closed = true
	l.notify()
	return l.last
}

func (l *eventLog) notify() {
	if l.waiting > 0 {
		close(l.changed)
		l.waiting = 0
	}
}

// release drops the retained output.
func (l *eventLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.chunks {
		l.chunks[i].from.release()
	}
	l.chunks, l.bytes, l.released = nil, 0, true
}

// retained returns how many bytes the log holds.
func (l *eventLog) retained() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// read returns the retained output with a number above after. If there is none, it waits up to wait
// for output, the exit or the close.
func (l *eventLog) read(ctx context.Context, after uint64, maxBytes *uint64, wait time.Duration) (ReadResult, error) {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		l.mu.Lock()
		r, ready := l.snapshot(after, maxBytes)
		if ready || wait <= 0 {
			l.mu.Unlock()
			return r, nil
		}
		if l.waiting == 0 {
			l.changed = make(chan struct{})
		}
		l.waiting++
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			wait = 0
		case <-ctx.Done():
			return ReadResult{}, ctx.Err()
		}
	}
}

// state returns the state of the process.
func (l *eventLog) state() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Exited: l.exited, Closed: l.closed}
	if l.exited {
		code, e := l.exit.Code, l.exit
		s.ExitCode, s.Exit = &code, &e
	}
	return s
}

// snapshot returns the current result of read, and whether a waiting reader must return it. The
// caller holds the lock.
func (l *eventLog) snapshot(after uint64, maxBytes *uint64) (ReadResult, bool) {
	r := ReadResult{NextSeq: l.last + 1, Exited: l.exited, Closed: l.closed, SandboxDenied: l.exit.Denied}
	if l.exited {
		code, e := l.exit.Code, l.exit
		r.ExitCode, r.Exit = &code, &e
	}
	var sum uint64
	for i := range l.chunks {
		c := &l.chunks[i]
		if c.Seq <= after {
			continue
		}
		sum += uint64(len(c.Data))
		if maxBytes != nil && len(r.Chunks) > 0 && sum > *maxBytes {
			break
		}
		c.from.retain()
		r.Chunks = append(r.Chunks, *c)
	}
	if n := len(r.Chunks); n > 0 && maxBytes != nil {
		r.NextSeq = r.Chunks[n-1].Seq + 1
	}
	ready := len(r.Chunks) > 0 || l.closed || l.exited && after < l.last
	return r, ready
}
