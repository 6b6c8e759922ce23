package outputlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/host/process"
)

// WhenFull selects what happens to output when the log is full.
type WhenFull string

const (
	// DropOldest drops the oldest output.
	DropOldest WhenFull = "dropOldest"
	// Wait makes the process wait until Consume frees space.
	Wait WhenFull = "wait"
)

// Options configure a new log.
type Options struct {
	// Bytes bounds the size of all segments; at least MinBytes.
	Bytes    int64
	WhenFull WhenFull

	// write writes to a segment. Tests replace it to simulate a full disk. Nil: File.Write.
	write func(*os.File, []byte) (int, error)
}

// Chunk is one numbered piece of output.
type Chunk struct {
	Seq    uint64
	Stream process.Stream
	// Elapsed is the time between the creation of the log and the output, in whole seconds; 0 in logs of earlier versions.
	Elapsed time.Duration
	Data    []byte
}

// Range is the range of events from First to Last, inclusive.
type Range struct{ First, Last uint64 }

// Log is the retained output of one process. Only one goroutine may call Append, Exit and Close, as
// with a process.Sink. All other methods may be called from any goroutine.
type Log struct {
	root *os.Root
	opts Options

	mu       sync.Mutex
	segments []segment // the oldest first
	bytes    int64     // of all segments
	active   *os.File  // the last segment while it may grow, or nil
	last     uint64    // the newest event
	consumed uint64    // no reader needs events up to it
	status   Status
	file     *os.File // status; nil: the log is only read
	waiting  string   // why the process waits, or ""
	extra    int64    // see Overshoot
	released bool     // see Release
	changed  chan struct{}
	hints    []hint // positions of readers, the newest last
	began    time.Time
	buffer   []byte
}

// segment is one file. Its name is the number of its first record.
type segment struct {
	first, last uint64 // last is 0 if it was not read yet
	size        int64
}

func (s segment) name() string { return fmt.Sprintf("%020d.out", s.first) }

// Create starts a log in a directory that has no log. The caller owns the directory, and must keep
// it open as long as the log.
func Create(root *os.Root, o Options) (*Log, error) {
	if o.Bytes < MinBytes {
		return nil, fmt.Errorf("at least %d bytes must be retained, not %d", MinBytes, o.Bytes)
	}
	if o.write == nil {
		o.write = (*os.File).Write
	}
	f, err := root.OpenFile(statusName, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{root: root, opts: o, file: f, changed: make(chan struct{}), began: time.Now()}
	if err := writeStatus(f, l.status); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// Append retains one piece of output with the number seq. With Wait it blocks while the log is
// full, until ctx ends or Release is called. If the output does not fit then, or if writing fails,
// it is lost, and readers get its number as missing.
func (l *Log) Append(ctx context.Context, seq uint64, stream process.Stream, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = appendRecord(l.buffer[:0], Chunk{seq, stream, time.Since(l.began), data})
	for !l.tryAppend(seq) && !l.released && ctx.Err() == nil {
		l.await(ctx)
	}
	l.last, l.waiting = seq, ""
	l.notify()
}

// tryAppend writes the record in the buffer. It returns false if the log is full but space may
// become free.
func (l *Log) tryAppend(seq uint64) bool {
	size := int64(len(l.buffer))
	if l.bytes+size > l.opts.Bytes+l.extra {
		if l.opts.WhenFull == Wait && !l.dropConsumed() {
			l.waiting = "limit"
			return false
		}
		for l.bytes+size > l.opts.Bytes+l.extra && l.opts.WhenFull == DropOldest && l.dropOldest() {
		}
	}
	for {
		err := l.write(seq)
		switch {
		case err == nil:
			return true
		case !isFull(err):
			return true // the record is lost; its number is missing
		case l.opts.WhenFull == DropOldest && l.dropOldest():
		case l.opts.WhenFull == DropOldest:
			return true
		case l.dropConsumed():
		default:
			l.waiting = "disk"
			return false
		}
	}
}

// isFull reports whether a write failed because the disk or a quota is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// write writes the record in the buffer to the last segment, or to a new one.
func (l *Log) write(seq uint64) error {
	if err := l.rotate(seq); err != nil {
		return err
	}
	s := &l.segments[len(l.segments)-1]
	n, err := l.opts.write(l.active, l.buffer)
	if err != nil {
		if n > 0 {
			// The file may contain a part of the record, which would make the records after it
			// unreadable.
			if e := l.active.Truncate(s.size); e != nil {
				l.closeActive()
			} else if _, e = l.active.Seek(s.size, 0); e != nil {
				l.closeActive()
			}
		}
		return err
	}
	s.size += int64(n)
	s.last = seq
	l.bytes += int64(n)
	return nil
}

// rotate begins a new segment if the last one is full.
func (l *Log) rotate(seq uint64) error {
	most := min(l.opts.Bytes/segmentShare, maxSegment)
	if n := len(l.segments); l.active != nil && l.segments[n-1].size+int64(len(l.buffer)) <= max(most, int64(len(l.buffer))+int64(len(mark))) {
		return nil
	}
	l.closeActive()
	s := segment{first: seq, last: seq - 1, size: int64(len(mark))}
	f, err := l.root.OpenFile(s.name(), os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if _, err := l.opts.write(f, []byte(mark)); err != nil {
		_ = f.Close()
		_ = l.root.Remove(s.name())
		return err
	}
	l.active = f
	l.segments = append(l.segments, s)
	l.bytes += s.size
	return nil
}

func (l *Log) closeActive() {
	if l.active != nil {
		_ = l.active.Close()
		l.active = nil
	}
}

// dropOldest removes the oldest segment, and returns false if the log has none.
func (l *Log) dropOldest() bool {
	if len(l.segments) == 0 {
		return false
	}
	s := l.segments[0]
	if len(l.segments) == 1 {
		l.closeActive()
	}
	_ = l.root.Remove(s.name())
	l.segments = l.segments[1:]
	l.bytes -= s.size
	return true
}

// dropConsumed removes the segments that no reader needs, and reports whether it has removed
// any.
func (l *Log) dropConsumed() bool {
	dropped := false
	for len(l.segments) > 0 && l.segments[0].last <= l.consumed && l.dropOldest() {
		dropped = true
	}
	return dropped
}

// await waits for space.
func (l *Log) await(ctx context.Context) {
	l.notify()
	changed := l.changed
	timer := time.NewTimer(retryTime)
	defer timer.Stop()
	l.mu.Unlock()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
}

// notify wakes the goroutines that wait for a change.
func (l *Log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Consume declares that no reader needs the events up to seq any more. A full log may remove them.
func (l *Log) Consume(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > l.consumed {
		l.consumed = seq
		l.notify()
	}
}

// Overshoot lets the log exceed its limit once, so that a process that was signalled while it
// waited for space can end.
func (l *Log) Overshoot() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extra = overshoot
	l.notify()
}

// Release makes Append stop waiting permanently, for example after the process was killed.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	l.notify()
}

// Exit records that the process has exited, with the event number seq.
func (l *Log) Exit(seq uint64, code int, denied bool, refusal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Exited, l.status.ExitSeq, l.status.ExitCode = true, seq, code
	l.status.Denied, l.status.Refusal = denied, refusal
	l.last = seq
	l.notify()
	return writeStatus(l.file, l.status)
}

// Close records that the output is complete, with the last event number seq, and how the process
// has ended.
func (l *Log) Close(seq uint64, now time.Time, e Ending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Closed, l.status.CloseSeq, l.status.EndedAtMS, l.status.Ending = true, seq, now.UnixMilli(), e
	l.last = seq
	l.closeActive()
	err := writeStatus(l.file, l.status)
	_ = l.file.Close()
	l.notify()
	return err
}

// Open opens the log of a process that has ended, or of a process whose writer has ended.
func Open(root *os.Root) (*Log, error) {
	status, err := ReadStatus(root)
	if err != nil {
		return nil, err
	}
	l := &Log{root: root, status: status, changed: make(chan struct{})}
	if err := l.findSegments(); err != nil {
		return nil, err
	}
	l.last = max(l.status.ExitSeq, l.status.CloseSeq)
	if n := len(l.segments); n > 0 {
		// If Close did not record a last number, the last record has the highest number.
		_, to, err := l.scan(l.segments[n-1], int64(len(mark)), math.MaxUint64, 0)
		if err != nil {
			return nil, err
		}
		l.last = max(l.last, to.seq)
	}
	return l, nil
}

// findSegments lists the segments of the directory.
func (l *Log) findSegments() error {
	dir, err := l.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxSegments + 16)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, ok := strings.CutSuffix(name, ".out")
		first, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || first == 0 || (segment{first: first}).name() != name {
			continue
		}
		info, err := l.root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		l.segments = append(l.segments, segment{first: first, size: info.Size()})
		l.bytes += info.Size()
	}
	sortSegments(l.segments)
	return nil
}

// Status returns the status of the process.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// State describes the contents of a log at a moment.
type State struct {
	Bytes   int64
	First   uint64 // the oldest retained event; 0: no event
	Last    uint64 // the newest event
	Waiting string // "limit" or "disk" if the process waits for space, else ""
}

// State returns the state of the log.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Bytes: l.bytes, Last: l.last, Waiting: l.waiting}
	if len(l.segments) > 0 {
		s.First = l.segments[0].first
	}
	return s
}

// isGone reports whether an error means that a file was removed meanwhile.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
