package frame

import (
	"bytes"
	"math"
)

// receiver puts the records of one direction in order.
type receiver struct {
	next    uint64            // the lowest seq that has not been released
	pending map[uint64][]byte // records that arrived early
	bytes   int               // of pending
}

// accept takes a record, and appends the records that can now be released to released. If the
// record has arrived before, it is dropped, because the first copy counts.
func (r *receiver) accept(n uint32, record []byte, released [][]byte) ([][]byte, error) {
	seq := uint64(n)
	if _, twice := r.pending[seq]; twice || seq < r.next {
		return released, nil
	}
	if seq > r.next {
		return released, r.keep(seq, record)
	}
	released = append(released, record)
	for r.next++; len(r.pending) > 0; r.next++ {
		record, ok := r.pending[r.next]
		if !ok {
			break
		}
		delete(r.pending, r.next)
		r.bytes -= len(record)
		released = append(released, record)
	}
	return released, nil
}

// keep stores a copy of a record that arrived early.
func (r *receiver) keep(seq uint64, record []byte) error {
	switch {
	case seq-r.next > reorderWindow:
		return errReorderWindow
	case r.bytes+len(record) > pendingBytes:
		return errPendingFull
	}
	if r.pending == nil {
		r.pending = make(map[uint64][]byte)
	}
	r.pending[seq] = bytes.Clone(record)
	r.bytes += len(record)
	return nil
}

// acks returns the acknowledging fields for the records that have arrived.
func (r *receiver) acks() (ack, bits uint32) {
	if r.next == 0 {
		return 0, 0
	}
	if len(r.pending) > 0 {
		for i := range uint64(32) {
			if _, ok := r.pending[r.next+i]; ok {
				bits |= 1 << i
			}
		}
	}
	return uint32(r.next - 1), bits
}

// maxSeq is the highest number of a record. Numbers never wrap.
const maxSeq = math.MaxUint32
