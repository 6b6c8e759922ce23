package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"codex.internal/pkg/testutil/relaypb"
)

// These tests run two ends and a relay between them. The relay loses, repeats and reorders frames
// and breaks connections. Time is simulated.

type world struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Time
	ends  [2]*party
	wrong bool // whether faults happen
	// lent holds the records in retransmitted frames, which may be written at any later time.
	lent  map[*byte]bool
	freed int
}

type party struct {
	*Stream
	inbox   [][]byte // encoded frames on their way to this end
	records [][]byte // that it has to send
	sent    int
	got     [][]byte
	back    time.Time // when it has a connection again; zero: it is connected
	written [numKinds]int
	empties int // empty records that it has sent
}

const numKinds = int(Heartbeat) + 1

func newWorld(t *testing.T, seed uint64, records [2]int, options [2]Options) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: epoch, lent: make(map[*byte]bool)}
	for i := range w.ends {
		w.ends[i] = &party{Stream: NewStream("s", options[i], epoch), records: w.texts(i, records[i])}
	}
	return w
}

// texts are distinct records, few of them large.
func (w *world) texts(side, n int) [][]byte {
	texts := make([][]byte, n)
	for i := range texts {
		size := emptyRecord + 1 + w.rng.IntN(200)
		if w.rng.IntN(10) == 0 {
			size = 61456
		}
		texts[i] = binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(side<<24|i))[:size]
	}
	return texts
}

// write passes frames to the relay, which may lose or repeat any of them. It does not lose the
// first frame of a record.
func (w *world) write(from int, frames ...Frame) {
	for _, f := range frames {
		if f.Kind == Data {
			w.lent[&f.Payload[0]] = true
		}
	}
	w.forward(from, frames...)
}

// forward passes frames to the relay. While the other end has no connection, the relay drops them.
func (w *world) forward(from int, frames ...Frame) {
	for _, f := range frames {
		w.ends[from].written[f.Kind]++
		message, err := f.Append(nil)
		if err != nil {
			w.t.Fatalf("%+v: got error %v, want no error", f, err)
		}
		if w.ends[1-from].back.IsZero() {
			w.ends[1-from].inbox = append(w.ends[1-from].inbox, message)
		}
	}
}

// deliver takes a frame out of an inbox and hands it to the end.
func (w *world) deliver(to int) error {
	p, at := w.ends[to], 0
	if w.wrong && w.rng.IntN(4) == 0 {
		at = w.rng.IntN(min(len(p.inbox), 8))
	}
	message := p.inbox[at]
	p.inbox = slices.Delete(p.inbox, at, at+1)
	if w.wrong {
		switch w.rng.IntN(10) {
		case 0:
			return nil // lost
		case 1:
			p.inbox = append(p.inbox, message) // once more, later
		}
	}
	f, err := Decode(message)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := p.Receive(f, w.now)
	for _, record := range out.Records {
		if len(record) == emptyRecord {
			continue
		}
		n := len(p.got)
		if other := w.ends[1-to].records; n >= len(other) || !bytes.Equal(record, other[n]) {
			w.t.Fatalf("record %d at end %d is another", n, to)
		}
		p.got = append(p.got, record)
	}
	w.write(to, out.Frames...)
	return err
}

func (w *world) send(from int) error {
	p := w.ends[from]
	record := p.records[p.sent]
	if !p.Ready(len(record)) {
		return nil
	}
	p.sent++
	record = bytes.Clone(record)
	users := 2 // the frame and the stream
	release := func() {
		if users--; users > 0 {
			return
		}
		if w.freed++; w.lent[&record[0]] {
			w.t.Fatalf("a record is freed that may be about to be written")
		}
		clear(record)
	}
	f, err := p.Send(record, release, w.now)
	if err == nil {
		w.forward(from, f)
		release()
	}
	return err
}

// cut ends an end's connection, together with all frames in flight.
func (w *world) cut(i int) error {
	p := w.ends[i]
	if !p.back.IsZero() {
		return nil
	}
	p.back = w.now.Add(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
	p.inbox, w.ends[1-i].inbox = nil, nil
	return p.Disconnected(w.now)
}

// wait advances the clock by a little, or to the next deadline if nothing else can happen.
func (w *world) wait(idle bool) error {
	next := w.now.Add(time.Duration(w.rng.IntN(40)) * time.Millisecond)
	if idle {
		var due time.Time
		for _, p := range w.ends {
			for _, at := range []time.Time{p.Deadline(), p.back} {
				if !at.IsZero() && (due.IsZero() || at.Before(due)) {
					due = at
				}
			}
		}
		if due.After(next) {
			next = due
		}
	}
	w.now = next
	for i, p := range w.ends {
		if !p.back.IsZero() && !p.back.After(w.now) {
			p.back = time.Time{}
			frames, err := p.Reconnected(w.now)
			if err != nil {
				return err
			}
			w.write(i, frames...)
		}
		frames, err := p.Advance(w.now)
		if err != nil {
			return err
		}
		w.write(i, frames...)
		if p.BeatDue(w.now) {
			f, err := p.Send(make([]byte, emptyRecord), nil, w.now)
			if err != nil {
				return err
			}
			p.empties++
			w.write(i, f)
		}
	}
	return nil
}

// step makes one random event happen. limit is how many records an end may send.
func (w *world) step(limit int) error {
	i := w.rng.IntN(2)
	p, other := w.ends[i], w.ends[1-i]
	switch dice := w.rng.IntN(1000); {
	case w.wrong && dice < 2:
		return w.cut(i)
	case dice < 500 && len(p.inbox) > 0 && p.back.IsZero():
		return w.deliver(i)
	case dice < 800 && p.sent < min(limit, len(p.records)):
		return w.send(i)
	case dice < 900:
		return w.wait(len(p.inbox)+len(other.inbox) == 0)
	}
	return nil
}

// check fails the test if an end holds more than its limits permit.
func check(t *testing.T, s *Stream) {
	t.Helper()
	in, kept := 0, 0
	for seq, record := range s.in.pending {
		in += len(record)
		if seq <= s.in.next || seq > s.in.next+reorderWindow {
			t.Fatalf("record %d is pending, %d is next", seq, s.in.next)
		}
	}
	if in != s.in.bytes || in > pendingBytes {
		t.Fatalf("%d bytes are pending, counted as %d", in, s.in.bytes)
	}
	for i, k := range s.out.kept {
		kept += len(k.record)
		if k.seq != s.out.next-uint64(len(s.out.kept)-i) || k.seq < s.out.base {
			t.Fatalf("record %d is kept at %d of %d, %d is next", k.seq, i, len(s.out.kept), s.out.next)
		}
	}
	if kept != s.out.bytes || kept > memoryBytes || len(s.out.kept) > windowRecords || s.peer == plain && kept > 0 {
		t.Fatalf("%d records of %d bytes are kept, counted as %d", len(s.out.kept), kept, s.out.bytes)
	}
	if s.out.base > s.out.next {
		t.Fatalf("the base is %d, %d is next", s.out.base, s.out.next)
	}
}

const manySteps = 200_000

// TestExactlyOnce lets two ends learn that the other acknowledges, and then causes all kinds of
// faults.
func TestExactlyOnce(t *testing.T) {
	var repeated, resumed, freed int
	for seed := range uint64(12) {
		records := [2]int{300, 300}
		if seed%3 == 1 {
			records[1] = 1
		}
		w := newWorld(t, seed, records, [2]Options{{Harness: true}, {}})
		steps := 0
		until := func(what string, limit int, done func() bool) {
			t.Helper()
			for ; !done(); steps++ {
				if err := w.step(limit); err != nil {
					t.Fatalf("seed %d: %s: step %d: %v", seed, what, steps, err)
				}
				for _, p := range w.ends {
					check(t, p.Stream)
				}
				if steps == manySteps {
					t.Fatalf("seed %d: %s: %d and %d records have arrived", seed, what, len(w.ends[0].got), len(w.ends[1].got))
				}
			}
		}
		until("learning", 1, func() bool { return w.ends[0].Acking() && w.ends[1].Acking() })
		w.wrong = true
		until("delivery", 1000, func() bool {
			return len(w.ends[0].got) == records[1] && len(w.ends[1].got) == records[0]
		})
		// At the end both ends know that everything has arrived.
		until("quiet", 1000, func() bool { return w.ends[0].out.inFlight()+w.ends[1].out.inFlight() == 0 })
		for i, p := range w.ends {
			repeated += p.written[Data] - records[i] - p.empties
			resumed += p.written[Resume]
		}
		freed += w.freed
	}
	if repeated == 0 || resumed == 0 || freed == 0 {
		t.Errorf("%d records were repeated, %d streams resumed, %d records freed: nothing was put to the test", repeated, resumed, freed)
	}
}

// TestNeverOutOfOrder causes all kinds of faults from the beginning. Streams may then end, but the
// records that arrive are correct, and the memory is bounded.
func TestNeverOutOfOrder(t *testing.T) {
	delivered := 0
	for seed := range uint64(24) {
		w := newWorld(t, seed, [2]int{200, 200}, [2]Options{{Plain: seed%4 == 1}, {Plain: seed%4 == 2}})
		w.wrong = true
		for range 5000 {
			if err := w.step(1000); err != nil {
				break
			}
			for _, p := range w.ends {
				check(t, p.Stream)
			}
		}
		delivered += len(w.ends[0].got) + len(w.ends[1].got)
	}
	if delivered == 0 {
		t.Error("nothing was delivered at all")
	}
}

// TestPeerThatNeverAcknowledges compares the output to a peer that never acknowledges with Codex
// CLI's output. They are the same, except for fields and frames that Codex CLI ignores.
func TestPeerThatNeverAcknowledges(t *testing.T) {
	for seed := range uint64(8) {
		for _, option := range []Options{{}, {Plain: true}} {
			w := newWorld(t, seed, [2]int{200, 200}, [2]Options{option, {Plain: true}})
			var data [][]byte
			for steps := 0; len(w.ends[0].got) < 200 || len(w.ends[1].got) < 200; steps++ {
				was := len(w.ends[1].inbox)
				if err := w.step(1000); err != nil || steps == manySteps {
					t.Fatalf("step %d: %v", steps, err)
				}
				check(t, w.ends[0].Stream)
				for _, message := range w.ends[1].inbox[min(was, len(w.ends[1].inbox)):] {
					if f, err := Decode(message); err == nil && f.Kind == Data {
						data = append(data, stripped(t, message, option.Plain))
					}
				}
			}
			for n, message := range data {
				if want := referenceData(t, n, w.ends[0].records[n]); !bytes.Equal(message, want) {
					t.Fatalf("record %d is written as %x, want %x", n, message, want)
				}
			}
			written := w.ends[0].written
			if written[Data] != 200 || len(data) != 200 {
				t.Errorf("200 records were written in %d frames, of which %d were seen", written[Data], len(data))
			}
			written[Data] = 0
			if !option.Plain {
				written[Ack] = 0
			}
			if written != [numKinds]int{} {
				t.Errorf("frames of other kinds were written: %v", written)
			}
			if w.ends[0].Acking() {
				t.Error("it is taken for one that acknowledges")
			}
		}
	}
}

// stripped returns a frame without the acknowledging fields. The frames of a plain end have no such
// fields.
func stripped(t *testing.T, message []byte, plain bool) []byte {
	t.Helper()
	if plain {
		return message
	}
	var m relaypb.RelayMessageFrame
	if err := proto.Unmarshal(message, &m); err != nil {
		t.Fatal(err)
	}
	m.Ack, m.AckBits = 0, 0
	b, err := proto.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// referenceData encodes by hand the frame that Codex CLI writes for a record.
func referenceData(t *testing.T, seq int, payload []byte) []byte {
	t.Helper()
	const varint, length = 0, 2
	tag := func(field, kind byte) byte { return field<<3 | kind }
	var body []byte
	if seq > 0 {
		body = binary.AppendUvarint([]byte{tag(1, varint)}, uint64(seq))
	}
	body = append(body, tag(3, varint), 1, tag(4, length))
	body = binary.AppendUvarint(body, uint64(len(payload)))
	body = append(body, payload...)
	b := []byte{tag(1, varint), 1, tag(2, length), 1, 's', tag(5, length)}
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}

// FuzzStream feeds an end arbitrary frames. It checks that the end stays within
// its limits and releases the content of each record's first copy.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 4, 200, 0, 0, 5, 0, 0, 0, 6, 3, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		s, now := NewStream("s", Options{Harness: len(script)%2 == 0}, epoch), epoch
		first := make(map[uint32][]byte)
		var released uint32
		for ; len(script) >= 4; script = script[4:] {
			op, n, low, high := script[0], uint32(script[1]), uint32(script[2]), uint32(script[3])
			frame := Frame{StreamID: "s", Seq: n, Ack: low, AckBits: high}
			var err error
			switch op % 8 {
			case 0, 1:
				frame.Kind, frame.Payload = Data, []byte(fmt.Sprint(len(script)))
				if _, ok := first[n]; !ok {
					first[n] = frame.Payload
				}
			case 2:
				frame.Kind = []Kind{Ack, Heartbeat, Resume, Ack}[n%4]
			case 3, 4:
				if s.Ready(1) {
					_, err = s.Send([]byte("x"), nil, now)
				}
			case 5:
				now = now.Add(time.Duration(n) * 100 * time.Millisecond)
				_, err = s.Advance(now)
			case 6:
				err = s.Disconnected(now)
			case 7:
				_, err = s.Reconnected(now)
			}
			if frame.Kind != 0 {
				var out Output
				out, err = s.Receive(frame, now)
				for _, record := range out.Records {
					if !bytes.Equal(record, first[released]) {
						t.Fatalf("record %d is released as %s, want %s", released, record, first[released])
					}
					released++
				}
			}
			check(t, s)
			if err != nil {
				return
			}
		}
	})
}
