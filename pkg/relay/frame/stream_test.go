package frame

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// end is a stream with its own clock and the frames that it has written.
type end struct {
	t *testing.T
	*Stream
	now   time.Time
	wrote []string // since it was asked last
	got   []string // all records
}

func newEnd(t *testing.T, o Options) *end {
	return &end{t: t, Stream: NewStream("s", o, epoch), now: epoch}
}

func (e *end) write(frames ...Frame) {
	for _, f := range frames {
		if f.StreamID != "s" {
			e.t.Errorf("%v is of stream %q", f.Kind, f.StreamID)
		}
		text := f.Kind.String()
		if f.Kind == Data || f.Kind == Resume {
			text += fmt.Sprintf(" %d", f.Seq)
		}
		if f.Ack > 0 || f.AckBits > 0 {
			text += fmt.Sprintf(" ack %d", f.Ack)
		}
		if f.AckBits > 0 {
			text += fmt.Sprintf("+%b", f.AckBits)
		}
		e.wrote = append(e.wrote, text)
	}
}

func (e *end) send(records ...string) {
	e.t.Helper()
	for _, record := range records {
		f, err := e.Send([]byte(record), nil, e.now)
		if err != nil {
			e.t.Fatal(err)
		}
		e.write(f)
	}
}

func (e *end) receive(f Frame) error {
	out, err := e.Receive(f, e.now)
	for _, record := range out.Records {
		e.got = append(e.got, string(record))
	}
	e.write(out.Frames...)
	return err
}

func (e *end) mustReceive(frames ...Frame) {
	e.t.Helper()
	for _, f := range frames {
		if err := e.receive(f); err != nil {
			e.t.Fatalf("%v: got error %v, want no error", f.Kind, err)
		}
	}
}

// pass advances the clock, and handles all deadlines on the way.
func (e *end) pass(d time.Duration) error {
	for until := e.now.Add(d); ; {
		e.now = until
		if due := e.Deadline(); !due.IsZero() && due.Before(until) {
			e.now = due
		}
		frames, err := e.Advance(e.now)
		e.write(frames...)
		if err == nil && e.BeatDue(e.now) {
			e.send(string(make([]byte, emptyRecord)))
		}
		if err != nil || e.now.Equal(until) {
			return err
		}
	}
}

func (e *end) mustPass(d time.Duration) {
	e.t.Helper()
	if err := e.pass(d); err != nil {
		e.t.Fatalf("after %v: %v", d, err)
	}
}

// wants checks the frames that were written since its last call.
func (e *end) wants(step string, want ...string) {
	e.t.Helper()
	if !slices.Equal(e.wrote, want) {
		e.t.Errorf("%s: wrote %q, want %q", step, e.wrote, want)
	}
	e.wrote = nil
}

func record(seq uint32) Frame {
	return Frame{StreamID: "s", Kind: Data, Seq: seq, Payload: fmt.Appendf(nil, "r%d", seq)}
}

func acked(f Frame, ack, bits uint32) Frame {
	f.Ack, f.AckBits = ack, bits
	return f
}

func ack(ack, bits uint32) Frame { return Frame{StreamID: "s", Kind: Ack, Ack: ack, AckBits: bits} }

var heartbeat = Frame{StreamID: "s", Kind: Heartbeat}

func TestAcknowledging(t *testing.T) {
	e := newEnd(t, Options{})
	e.mustReceive(record(0))
	e.wants("the first record", "ack_frame")
	e.mustReceive(record(1), record(2))
	e.wants("the next two")
	e.send("a")
	e.wants("with data", "data 0 ack 2")
	e.mustPass(time.Hour)
	e.wants("nothing is owed")

	e.mustReceive(record(3))
	e.mustPass(ackDelay - 1)
	e.wants("not yet")
	e.mustPass(1)
	e.wants("after the delay", "ack_frame ack 3")

	for seq := range uint32(ackRecords) {
		e.mustReceive(record(4 + seq))
	}
	e.wants("many records", "ack_frame ack 19")
	big := record(20)
	big.Payload = make([]byte, ackBytes-1)
	e.mustReceive(big)
	e.wants("many bytes, but one")
	big = record(21)
	big.Payload = make([]byte, 1)
	e.mustReceive(big)
	e.wants("many bytes", "ack_frame ack 21")

	e.mustReceive(record(24))
	e.mustPass(ackDelay)
	e.wants("a hole", "ack_frame ack 21+100")
	e.mustReceive(record(21))
	e.mustPass(ackDelay)
	e.wants("an old record: the acknowledgement was lost", "ack_frame ack 21+100")
	e.mustReceive(ack(0, 0), Frame{StreamID: "s", Kind: Resume})
	e.mustPass(ackDelay)
	e.wants("acknowledgements are not acknowledged")
}

// TestNothingIsSaidWithoutTheFirstRecord: before the first record has arrived, no ack_frame may be
// sent, because any value would claim that it has.
func TestNothingIsSaidWithoutTheFirstRecord(t *testing.T) {
	e := newEnd(t, Options{})
	for seq := range uint32(ackRecords + 2) {
		e.mustReceive(record(1 + seq))
	}
	e.send("a")
	e.mustPass(firstRecordTime - 1)
	e.wants("without it", "data 0")
	e.mustReceive(record(0))
	e.wants("with it", "ack_frame ack 18")
}

// TestFirstRecordIsAcknowledgedByItself: the first record needs a separate acknowledgement, because
// ack 0 in a data frame does not acknowledge it.
func TestFirstRecordIsAcknowledgedByItself(t *testing.T) {
	e := newEnd(t, Options{})
	e.mustReceive(record(0))
	e.wants("at once", "ack_frame")
	e.mustReceive(record(0)) // the ack_frame was lost
	e.send("a")
	e.mustPass(ackDelay)
	e.wants("again", "data 0", "ack_frame")
}

func TestLearning(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []Frame
		acking bool
		base   uint64
	}{
		{"nothing", nil, false, 0},
		{"ack of records", []Frame{acked(record(0), 1, 0)}, true, 2},
		{"bits", []Frame{acked(record(0), 0, 2)}, true, 1},
		{"ack_frame", []Frame{ack(0, 0)}, true, 1},
		{"heartbeat", []Frame{heartbeat}, true, 0},
		{"any frame", []Frame{acked(Frame{StreamID: "s", Kind: Resume}, 3, 0)}, true, 4},
		{"ack 0 in data", []Frame{record(0)}, false, 0},
		{"resume", []Frame{{StreamID: "s", Kind: Resume, Seq: 7}}, false, 0},
		{"ack of what was not sent", []Frame{ack(4, 0), ack(300, 0x80000001), ack(maxSeq, 1)}, false, 0},
		{"bits of what was not sent", []Frame{ack(0, 1<<3)}, false, 0},
		{"bits of what was sent", []Frame{ack(0, 1<<2)}, true, 1},
		{"seven records", records(0, 7, ack(0, 0)), true, 1},
		{"eight records", records(0, 8, ack(0, 0), ack(3, 0), heartbeat), false, 0},
	} {
		e := newEnd(t, Options{})
		e.send("a", "b", "c", "d")
		e.mustReceive(tt.frames...)
		if e.Acking() != tt.acking || e.out.base != tt.base {
			t.Errorf("%s: acking %v, base %d, want %v, %d", tt.name, e.Acking(), e.out.base, tt.acking, tt.base)
		}
		// If the peer does not acknowledge, there are no limits and no timers and, after eight
		// records, no copies.
		if tt.acking {
			continue
		}
		if e.in.next > 0 {
			e.mustPass(time.Hour)
		}
		e.wrote = nil
		for n := range 3 * windowRecords {
			e.send(fmt.Sprint(n))
		}
		if tt.name == "eight records" && len(e.out.kept) > 0 {
			t.Errorf("%s: %d records are kept", tt.name, len(e.out.kept))
		}
		if len(e.out.kept) > memoryRecords {
			t.Errorf("%s: %d records are kept", tt.name, len(e.out.kept))
		}
	}
}

// records are n records: first, and then others.
func records(first, n uint32, more ...Frame) []Frame {
	var frames []Frame
	for seq := range n {
		frames = append(frames, record(first+seq))
	}
	return append(frames, more...)
}

// TestNothingWasSent: an acknowledgement is not valid before any record was sent.
func TestNothingWasSent(t *testing.T) {
	e := newEnd(t, Options{})
	e.mustReceive(ack(0, 0), ack(300, 0x80000001))
	if e.Acking() {
		t.Error("the peer is taken for one that acknowledges")
	}
}

func TestMemory(t *testing.T) {
	e := newEnd(t, Options{})
	big := strings.Repeat("x", maxPayload)
	for range 100 {
		e.send(big)
		if e.out.bytes > memoryBytes {
			t.Fatalf("%d bytes are kept", e.out.bytes)
		}
	}
	if len(e.out.kept) != 16 {
		t.Errorf("%d of the large records are kept", len(e.out.kept))
	}
	for range 100 {
		e.send("small")
	}
	if len(e.out.kept) != memoryRecords || e.out.kept[0].seq != 200-memoryRecords {
		t.Errorf("%d records are kept from %d on", len(e.out.kept), e.out.kept[0].seq)
	}
	// The peer acknowledges after all, and lacks a record that is still kept.
	e.wrote = nil
	e.mustReceive(ack(180, 0b1110))
	e.wants("it is sent again", "data 181")
	if e.Ready(1) != true || e.out.base != 181 {
		t.Errorf("ready %v, base %d", e.Ready(1), e.out.base)
	}
}

// learnt returns an end whose peer has acknowledged the end's first record and has sent a record.
func learnt(t *testing.T, o Options) *end {
	t.Helper()
	e := newEnd(t, o)
	e.send("r0")
	e.mustReceive(acked(record(0), 0, 0), ack(0, 0))
	e.wants("the beginning", "data 0", "ack_frame")
	if !e.Acking() {
		t.Fatal("the peer is not taken for one that acknowledges")
	}
	return e
}

func TestWindow(t *testing.T) {
	e := learnt(t, Options{})
	for n := range windowRecords {
		if !e.Ready(1) {
			t.Fatalf("not ready with %d in flight", n)
		}
		e.send("x")
	}
	if _, err := e.Send([]byte("x"), nil, e.now); err != ErrNotReady || e.Ready(0) {
		t.Errorf("there is room for more: %v", err)
	}
	// Early records count until the ones before them have arrived.
	e.mustReceive(ack(0, ^uint32(0)&^1))
	if e.Ready(1) {
		t.Error("there is room while a record is missing")
	}
	e.mustReceive(ack(windowRecords, 0))
	if !e.Ready(1) || e.out.bytes != 0 {
		t.Errorf("ready %v, %d bytes are kept", e.Ready(1), e.out.bytes)
	}

	e = learnt(t, Options{})
	big := strings.Repeat("x", windowBytes/15)
	for range 14 {
		e.send(big)
	}
	if !e.Ready(windowBytes/15) || e.Ready(windowBytes/15+1) {
		t.Error("the window does not end at its last byte")
	}
	if _, err := e.Send(make([]byte, windowBytes/15+1), nil, e.now); err != ErrNotReady {
		t.Errorf("more than the window was sent: %v", err)
	}
	e.send(big)
}

func TestRetransmission(t *testing.T) {
	e := learnt(t, Options{})
	e.send("r1", "r2")
	e.wants("once", "data 1", "data 2")
	e.mustPass(firstRetransmit - 1)
	e.wants("not yet")
	e.mustPass(1)
	e.wants("after 1 s", "data 1", "data 2")
	e.mustReceive(ack(0, 0b10))
	e.mustPass(firstRetransmit)
	e.wants("news: 1 s again, without what arrived", "data 1")
	e.mustReceive(ack(0, 0b10)) // no news
	e.mustPass(2*time.Second - 1)
	e.wants("then 2 s")
	e.mustPass(1)
	e.wants("then 2 s", "data 1")
	e.mustPass(4 * time.Second)
	e.wants("then 4 s", "data 1")
	e.mustPass(8 * time.Second)
	e.wants("then 8 s", "data 1")
	e.mustPass(8 * time.Second)
	e.wants("not more", "data 1")
	e.mustReceive(ack(2, 0))
	e.mustPass(heartbeatTime - 8*time.Second)
	e.wants("all has arrived")
	if len(e.out.kept) > 0 || e.out.bytes != 0 {
		t.Errorf("%d records are kept", len(e.out.kept))
	}
}

func TestStalled(t *testing.T) {
	e := learnt(t, Options{})
	e.mustPass(10 * time.Second)
	e.send("r1", "r2")
	e.mustPass(stallTime - 1)
	e.mustReceive(ack(0, 0b10)) // the time begins again
	e.mustPass(stallTime - 1)
	e.mustReceive(ack(0, 0b10)) // a repeated acknowledgement is no progress
	err := e.pass(1)
	if !errors.Is(err, ErrLost) || !e.Deadline().IsZero() {
		t.Fatalf("after 30 s without progress: %v", err)
	}
	if _, again := e.Send(nil, nil, e.now); again != err || e.Ready(1) {
		t.Errorf("Send: %v", again)
	}
	if again := e.receive(record(1)); again != err {
		t.Errorf("Receive: %v", again)
	}
	if again := e.Disconnected(e.now); again != err {
		t.Errorf("Disconnected: %v", again)
	}
	if _, again := e.Reconnected(e.now); again != err {
		t.Errorf("Reconnected: %v", again)
	}
}

func TestEarlyRetransmission(t *testing.T) {
	e := learnt(t, Options{})
	e.send("r1", "r2", "r3", "r4", "r5", "r6")
	e.wrote = nil
	e.mustReceive(ack(0, 0b110))
	e.wants("two later ones")
	e.mustReceive(ack(0, 0b1110))
	e.wants("three later ones", "data 1")
	e.mustReceive(ack(0, 0b11110))
	e.wants("once only")
	e.mustReceive(ack(1, 0))
	e.wants("it has arrived")
	e.mustReceive(ack(4, 0)) // an old view of record 5
	e.wants("nothing is missing")
}

func TestOldAndForgedAcks(t *testing.T) {
	e := learnt(t, Options{})
	e.send("r1", "r2", "r3")
	e.mustReceive(ack(2, 0))
	e.mustReceive(ack(1, 0), ack(0, 0), record(1))
	if e.out.base != 3 {
		t.Errorf("the base went back to %d", e.out.base)
	}
	e.mustReceive(ack(4, 0), ack(maxSeq, ^uint32(0)), ack(3, 1))
	if e.out.base != 3 || len(e.out.kept) != 1 {
		t.Errorf("the base is %d, %d records are kept", e.out.base, len(e.out.kept))
	}
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame Frame
		want  error
		text  string
	}{
		{"reset", Frame{StreamID: "s", Kind: Reset, Reason: "<b>"}, ErrReset, "Noise relay stream reset"},
		{"handshake", Frame{StreamID: "s", Kind: Handshake, Payload: []byte("x")}, ErrProtocol, "Noise relay received invalid post-handshake frame"},
		{"far record", record(reorderWindow + 1), ErrProtocol, "Noise relay ciphertext exceeds reorder window"},
	} {
		e := newEnd(t, Options{})
		if err := e.receive(tt.frame); !errors.Is(err, tt.want) || err.Error() != tt.text {
			t.Errorf("%s: got error %v; want %v, %v", tt.name, err, tt.want, tt.text)
		}
		if err := e.receive(record(0)); !errors.Is(err, tt.want) || len(e.got) > 0 {
			t.Errorf("%s: afterwards: %v", tt.name, err)
		}
		if _, err := e.Advance(e.now); !errors.Is(err, tt.want) {
			t.Errorf("%s: Advance: %v", tt.name, err)
		}
	}
}

// TestLastFrame: the last frame acknowledges too, unless the stream is plain.
func TestLastFrame(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options Options
		want    Frame
	}{
		{"acknowledging", Options{}, Frame{StreamID: "s", Kind: Reset, Reason: "why", Ack: 1, AckBits: 0b10}},
		{"plain", Options{Plain: true}, Frame{StreamID: "s", Kind: Reset, Reason: "why"}},
	} {
		e := newEnd(t, tt.options)
		e.mustReceive(record(0), record(1), record(3))
		if err := e.receive(record(3 + reorderWindow)); err == nil {
			t.Fatal("no end")
		}
		if f := e.Reset("why"); !reflect.DeepEqual(f, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, f, tt.want)
		}
	}
	if f := newEnd(t, Options{}).Reset("why"); f.Ack != 0 || f.AckBits != 0 {
		t.Errorf("without the first record: %+v", f)
	}
}

func TestExhausted(t *testing.T) {
	e := newEnd(t, Options{})
	e.out.next = maxSeq
	e.send("the last")
	e.wants("it", fmt.Sprintf("data %d", uint32(maxSeq)))
	if _, err := e.Send([]byte("one more"), nil, e.now); err != ErrExhausted {
		t.Errorf("one more: %v", err)
	}
}

func TestKindNames(t *testing.T) {
	want := []string{"kind 0", "data", "handshake", "reset", "ack_frame", "resume", "heartbeat", "kind 7"}
	for kind, want := range want {
		if got := Kind(kind).String(); got != want {
			t.Errorf("kind %d is called %s, want %s", kind, got, want)
		}
	}
}

// BenchmarkStream sends a record and acknowledges it with the next.
func BenchmarkStream(b *testing.B) {
	from, to := NewStream("s", Options{}, epoch), NewStream("s", Options{}, epoch)
	record := make([]byte, 61456)
	b.ReportAllocs()
	for b.Loop() {
		f, err := from.Send(record, nil, epoch)
		if err != nil {
			b.Fatal(err)
		}
		out, err := to.Receive(f, epoch)
		if err != nil || len(out.Records) != 1 {
			b.Fatalf("%d records, %v", len(out.Records), err)
		}
		for _, f := range out.Frames {
			if _, err := from.Receive(f, epoch); err != nil {
				b.Fatal(err)
			}
		}
	}
}
