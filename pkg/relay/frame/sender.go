package frame

import "math/bits"

// sender numbers the records of one direction and keeps those that may have to be retransmitted. A
// record always has the same number and ciphertext: encrypting another record under the same number
// would reveal both.
type sender struct {
	next  uint64 // the seq of the next record
	base  uint64 // the lowest that is not acknowledged
	kept  []sent // in order and without gaps, up to next
	bytes int    // of kept
}

type sent struct {
	seq     uint64
	record  []byte
	free    func() // may be nil
	arrived bool   // ahead of others
	again   bool   // was sent more than once
}

// inFlight returns how many records were sent, counted from the first record that is not known to
// have arrived.
func (s *sender) inFlight() uint64 { return s.next - s.base }

// add numbers a record and keeps it.
func (s *sender) add(record []byte, free func()) (seq uint32) {
	s.kept = append(s.kept, sent{seq: s.next, record: record, free: free})
	s.bytes += len(record)
	s.next++
	return uint32(s.next - 1)
}

// trim drops the oldest records beyond the limits for a peer that may or may not acknowledge.
func (s *sender) trim() {
	for len(s.kept) > memoryRecords || s.bytes > memoryBytes {
		s.drop()
	}
}

// drop drops the oldest record. The memory of a retransmitted record is not reused, because a frame
// with it may still be waiting to be written.
func (s *sender) drop() {
	oldest := &s.kept[0]
	s.bytes -= len(oldest.record)
	if oldest.free != nil && !oldest.again {
		oldest.free()
	}
	*oldest = sent{} // for the garbage collector
	s.kept = s.kept[1:]
}

// forget drops all records.
func (s *sender) forget() {
	for len(s.kept) > 0 {
		s.drop()
	}
	s.kept = nil
}

// acknowledge handles the acknowledging fields of a frame. It reports whether they are valid, and
// whether they acknowledge further records. Fields that acknowledge records that were never sent
// are not valid.
func (s *sender) acknowledge(f *Frame) (said, news bool) {
	if f.Ack == 0 && f.AckBits == 0 && f.Kind != Ack {
		return false, false // no record has arrived, or only the first
	}
	through := uint64(f.Ack) + 1
	if through+uint64(bits.Len32(f.AckBits)) > s.next {
		return false, false
	}
	if through > s.base {
		s.base, news = through, true
	}
	for len(s.kept) > 0 && s.kept[0].seq < s.base {
		s.drop()
	}
	for i := range s.kept {
		k := &s.kept[i]
		if !k.arrived && k.seq >= through && f.AckBits>>(k.seq-through)&1 != 0 {
			k.arrived, news = true, true
		}
	}
	return true, news
}

// missing calls emit with each record that is not acknowledged. With early, it does so only for
// records that have not been retransmitted yet and before which enough later records have arrived.
func (s *sender) missing(early bool, emit func(seq uint32, record []byte)) {
	later := 0
	for _, k := range s.kept {
		if k.arrived {
			later++
		}
	}
	for i := range s.kept {
		switch k := &s.kept[i]; {
		case k.arrived:
			later--
		case !early || later >= earlyAfter && !k.again:
			k.again = true
			emit(uint32(k.seq), k.record)
		}
	}
}
