package relay

import (
	"sync"
	"sync/atomic"
)

// record is the memory of a sealed record. It has two users: the stream, until the peer has
// acknowledged the record, and the link, until the record is written. A hostile peer can
// acknowledge a record that was not written yet, so either user may release the record first. When
// both have released it, the memory is reused.
type record struct {
	memory []byte // empty, with capacity for the record
	users  atomic.Int32
	free   func() // release; nil if its memory is not reused
}

// newRecord returns memory for a record of n bytes.
func newRecord(n int) *record {
	if n < keepRecord {
		return &record{memory: make([]byte, 0, n)}
	}
	r := records.Get().(*record)
	if r.free == nil {
		r.free = r.release
	}
	r.users.Store(2)
	return r
}

// records holds memory of records for reuse.
var records = sync.Pool{New: func() any { return &record{memory: make([]byte, 0, maxRecord)} }}

// release releases the record for one of its two users. Each user calls it at most once. For a nil
// record it does nothing.
func (r *record) release() {
	if r != nil && r.free != nil && r.users.Add(-1) == 0 {
		records.Put(r)
	}
}
