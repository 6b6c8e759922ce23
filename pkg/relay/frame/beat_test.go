package frame

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

var empty = make([]byte, emptyRecord)

// couple is a harness and an executor with a relay between them, and with a simulated clock.
type couple struct {
	t     *testing.T
	now   time.Time
	ends  [2]*Stream // the harness is the first
	relay func(from int, f Frame) []Frame
}

func newCouple(t *testing.T, relay func(from int, f Frame) []Frame) *couple {
	return &couple{t: t, now: epoch, relay: relay, ends: [2]*Stream{NewStream("s", Options{Harness: true}, epoch), NewStream("s", Options{}, epoch)}}
}

// write passes frames to the other end, and also the frames that result from them.
func (c *couple) write(from int, frames ...Frame) error {
	for len(frames) > 0 {
		passed := c.relay(from, frames[0])
		frames = frames[1:]
		for _, f := range passed {
			out, err := c.ends[1-from].Receive(f, c.now)
			if err == nil {
				err = c.beat(1 - from)
			}
			if err == nil {
				err = c.write(1-from, out.Frames...)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *couple) beat(from int) error {
	if !c.ends[from].BeatDue(c.now) {
		return nil
	}
	return c.send(from, empty)
}

func (c *couple) send(from int, record []byte) error {
	f, err := c.ends[from].Send(record, nil, c.now)
	if err != nil {
		return err
	}
	return c.write(from, f)
}

// pass advances the clock until an end fails, and returns the error.
func (c *couple) pass(d time.Duration) error {
	for until := c.now.Add(d); c.now.Before(until); c.now = c.now.Add(100 * time.Millisecond) {
		for i, s := range c.ends {
			frames, err := s.Advance(c.now)
			if err == nil {
				err = c.beat(i)
			}
			if err == nil {
				err = c.write(i, frames...)
			}
			if err != nil {
				return fmt.Errorf("end %d: %w", i, err)
			}
		}
	}
	return nil
}

// begin sends the first records: the empty ones, a request and its answer.
func (c *couple) begin() {
	c.t.Helper()
	for _, err := range []error{c.beat(0), c.send(0, []byte("request")), c.send(1, []byte("answer"))} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if !c.ends[0].beats || !c.ends[1].beats {
		c.t.Fatalf("got ends that know of empty records: %v, %v; want both", c.ends[0].beats, c.ends[1].beats)
	}
}

// honest is a relay that forwards every frame.
func honest(_ int, f Frame) []Frame { return []Frame{f} }

// TestEmptyRecords: two idle ends keep the stream alive by empty records.
func TestEmptyRecords(t *testing.T) {
	heartbeats := 0
	c := newCouple(t, func(_ int, f Frame) []Frame {
		if f.Kind == Heartbeat {
			heartbeats++
		}
		return []Frame{f}
	})
	c.begin()
	sent := c.ends[0].out.next
	if err := c.pass(10 * time.Minute); err != nil {
		t.Errorf("after %v: got error %v, want none", c.now.Sub(epoch), err)
	}
	if n, want := c.ends[0].out.next-sent, uint64(10*time.Minute/heartbeatTime); n < want-1 || n > want+1 || heartbeats > 0 {
		t.Errorf("got %d empty records and %d heartbeats in 10 minutes, want about %d and 0", n, heartbeats, want)
	}
}

// TestNoEmptyRecordsForOthers: an executor sends no empty records to a harness that has not sent
// any, such as Codex CLI's. Plain ends send none at all.
func TestNoEmptyRecordsForOthers(t *testing.T) {
	e := newEnd(t, Options{})
	e.mustReceive(record(0))
	if e.mustPass(time.Hour); e.BeatDue(e.now) {
		t.Errorf("an executor has to send an empty record, and the harness has sent none")
	}
	if s := NewStream("s", Options{Harness: true, Plain: true}, epoch); s.BeatDue(epoch) {
		t.Errorf("a plain harness has to send an empty record")
	}
}

// TestSwallowedRecords: a relay drops a record, acknowledges it in the name of its receiver, and
// forges heartbeats of both ends. The end for which the record was meant notices that.
func TestSwallowedRecords(t *testing.T) {
	for from, name := range []string{"of the harness", "of the executor"} {
		for _, strips := range []bool{false, true} {
			var c *couple
			swallowed := 0
			c = newCouple(t, func(sender int, f Frame) []Frame {
				if strips {
					if f.Ack, f.AckBits = 0, 0; f.Kind == Ack || f.Kind == Heartbeat {
						return nil
					}
				}
				if sender == from && f.Kind == Data && f.Seq == 2 {
					swallowed++
					if !strips {
						_, _ = c.ends[sender].Receive(ack(2, 0), c.now) // has no answer
					}
					return nil
				}
				return []Frame{f}
			})
			c.begin()
			if err := c.send(from, []byte("swallowed")); err != nil {
				t.Fatal(err)
			}
			began := c.now
			err := c.pass(2 * silenceTime)
			if took := c.now.Sub(began); !errors.Is(err, errSilent) || took > silenceTime+time.Second || swallowed != 1 {
				t.Errorf("a record %s, acknowledgements stripped: %v: got error %v after %v with %d swallowed; want %v after %v", name, strips, err, took, swallowed, errSilent, silenceTime)
			}
		}
	}
}

// TestForgedSigns: frames that the relay can forge do not keep a stream alive if the peer sends no
// records. Nor can a relay keep it alive by breaking the websockets again and again.
func TestForgedSigns(t *testing.T) {
	for name, breaks := range map[string]bool{"forged heartbeats": false, "broken websockets": true} {
		c := newCouple(t, honest)
		c.begin()
		silent := c.ends[0]
		var err error
		began := c.now
		for at := began; err == nil && at.Before(began.Add(time.Hour)); at = at.Add(5 * time.Second) {
			if breaks {
				if err = silent.Disconnected(at); err == nil {
					_, err = silent.Reconnected(at.Add(time.Second))
				}
			}
			if err == nil {
				_, err = silent.Receive(heartbeat, at.Add(2*time.Second))
			}
			if err == nil {
				_, err = silent.Advance(at.Add(3 * time.Second))
			}
			c.now = at
		}
		if took := c.now.Sub(began); !errors.Is(err, errSilent) || took > silenceTime {
			t.Errorf("%s: got error %v after %v, want %v after at most %v", name, err, took, errSilent, silenceTime)
		}
	}
}

// TestLateHandshakes: a stream on which no record arrives ends, whatever other frames arrive.
func TestLateHandshakes(t *testing.T) {
	for _, o := range []Options{{}, {Harness: true}, {Plain: true}} {
		e := newEnd(t, o)
		e.mustPass(firstRecordTime / 2)
		e.mustReceive(heartbeat)
		e.mustPass(firstRecordTime/2 - 1)
		if err := e.pass(1); !errors.Is(err, errNoRecord) {
			t.Errorf("%+v: got error %v, want %v", o, err, errNoRecord)
		}
	}
}
