package outputlog

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// ReadResult is retained output.
type ReadResult struct {
	// Chunks have consecutive numbers, except for the number of the exit.
	Chunks []Chunk
	// Dropped is the range of missing events before the chunks; nil: no event is missing.
	Dropped *Range
	// Next is the number of the event after the last chunk. If there are no chunks, it is the
	// number of the next event of the log.
	Next    uint64
	Status  Status
	Waiting string // as in State
}

// hint is the position of a reader that has read up to number seq.
type hint struct {
	seq    uint64
	first  uint64 // of the segment
	offset int64
}

func sortSegments(s []segment) {
	slices.SortFunc(s, func(a, b segment) int {
		switch {
		case a.first < b.first:
			return -1
		case a.first > b.first:
			return 1
		}
		return 0
	})
}

// Read returns the retained chunks with a number above after. It returns at least one chunk if
// there is any, and more as long as their total size is at most most bytes. It never waits.
func (l *Log) Read(after uint64, most int) (ReadResult, error) {
	for {
		r, err := l.read(after, most)
		if !isGone(err) {
			return r, err
		}
		if l.file == nil { // segments of a log that is only read are not dropped
			return r, err
		}
	}
}

// Wait waits up to d until the log may have an event above number after, or until the process has
// closed. If one of these is so already, it returns at once.
func (l *Log) Wait(ctx context.Context, after uint64, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l.mu.Lock()
		ready, changed := l.last > after || l.status.Closed || l.file == nil, l.changed
		l.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read is Read without a retry.
func (l *Log) read(after uint64, most int) (ReadResult, error) {
	l.mu.Lock()
	r := ReadResult{Status: l.status, Next: l.last + 1, Waiting: l.waiting}
	segments := slices.Clone(l.segments)
	last := l.last
	from := int64(len(mark))
	at := startSegment(segments, after)
	for _, h := range l.hints {
		if h.seq == after && at < len(segments) && segments[at].first == h.first {
			from = h.offset
		}
	}
	l.mu.Unlock()

	expected := after + 1
	for ; at < len(segments); at++ {
		chunks, end, err := l.scan(segments[at], from, after, most)
		if err != nil {
			return r, err
		}
		from = int64(len(mark))
		for _, c := range chunks {
			if len(r.Chunks) == 0 {
				r.Dropped = missing(expected, c.Seq-1, r.Status.ExitSeq)
			} else if missing(expected, c.Seq-1, r.Status.ExitSeq) != nil {
				end.full = true // the next read reports the gap
				break
			}
			r.Chunks = append(r.Chunks, c)
			most -= len(c.Data)
			expected = c.Seq + 1
		}
		if len(r.Chunks) > 0 {
			r.Next = expected
		}
		if end.full || len(r.Chunks) > 0 && most <= 0 {
			if n := len(r.Chunks); n > 0 && end.last == r.Chunks[n-1].Seq {
				l.remember(hint{r.Chunks[n-1].Seq, segments[at].first, end.offset})
			}
			return r, nil
		}
		if n := len(r.Chunks); n > 0 && end.last == r.Chunks[n-1].Seq {
			l.remember(hint{end.last, segments[at].first, end.offset})
		}
	}
	if len(r.Chunks) == 0 {
		if r.Status.Closed {
			last-- // the close is an event without output
		}
		r.Dropped = missing(expected, last, r.Status.ExitSeq)
	} else if r.Next == r.Status.ExitSeq {
		r.Next++
	}
	return r, nil
}

// startSegment returns the index of the segment that has the event after number after, or else the
// index of the first later segment.
func startSegment(segments []segment, after uint64) int {
	at := 0
	for at+1 < len(segments) && segments[at+1].first <= after+1 {
		at++
	}
	return at
}

// missing returns the range from first to last. It returns nil if the range is empty or contains
// only the exit.
func missing(first, last, exit uint64) *Range {
	if first == exit {
		first++
	}
	if last == exit && last > 0 {
		last--
	}
	if first > last {
		return nil
	}
	return &Range{First: first, Last: last}
}

// remember stores the position of a reader.
func (l *Log) remember(h hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints = slices.DeleteFunc(l.hints, func(old hint) bool { return old.seq == h.seq })
	if len(l.hints) >= maxHints {
		l.hints = slices.Delete(l.hints, 0, 1)
	}
	l.hints = append(l.hints, h)
}

// place is the position at which a scan ended.
type place struct {
	seq    uint64 // of the last record that was seen
	last   uint64 // of the last record that was returned or passed over
	offset int64  // behind that one
	full   bool   // there are more records than requested
}

// scan returns the records of a segment, beginning at an offset, whose numbers are above after. It
// returns as many as fit into most bytes, but at least one.
func (l *Log) scan(s segment, from int64, after uint64, most int) ([]Chunk, place, error) {
	end := place{offset: from}
	f, err := l.root.OpenFile(s.name(), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, end, err
	}
	defer f.Close()
	begin := make([]byte, len(mark))
	if _, err := f.ReadAt(begin, 0); err != nil || string(begin) != mark {
		return nil, end, nil // no record was written into it
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, max(s.size-from, 0)), readBuffer)
	var chunks []Chunk
	for {
		c, err := nextRecord(r, end.seq)
		if err != nil {
			if errors.Is(err, errRecord) || errors.Is(err, io.EOF) {
				err = nil
			}
			return chunks, end, err
		}
		end.seq = c.Seq
		if c.Seq > after {
			if len(chunks) > 0 && len(c.Data) > most {
				end.full = true
				return chunks, end, nil
			}
			most -= len(c.Data)
			c.Data = slices.Clone(c.Data)
			chunks = append(chunks, c)
		}
		end.last = c.Seq
		end.offset += int64(recordHead + len(c.Data))
	}
}

// nextRecord reads one record, whose number must be larger than that of the previous record. Its
// data is in the reader's buffer.
func nextRecord(r *bufio.Reader, before uint64) (Chunk, error) {
	head, err := r.Peek(recordHead)
	if err != nil {
		return Chunk{}, err
	}
	size, err := recordSize(head)
	if err != nil {
		return Chunk{}, err
	}
	whole, err := r.Peek(recordHead + size)
	if err != nil {
		return Chunk{}, err
	}
	c, err := parseRecord(whole)
	if err == nil && c.Seq <= before {
		err = errRecord
	}
	if err == nil {
		_, err = r.Discard(recordHead + size)
	}
	return c, err
}
