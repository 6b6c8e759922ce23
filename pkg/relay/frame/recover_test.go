package frame

import (
	"errors"
	"testing"
	"time"
)

func TestResumption(t *testing.T) {
	e := learnt(t, Options{})
	e.send("r1", "r2", "r3")
	e.wrote = nil
	e.mustReceive(record(1), ack(1, 0b10))
	if err := e.Disconnected(e.now); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Send([]byte("r4"), nil, e.now); err != ErrNotReady {
		t.Errorf("Send without a connection: %v", err)
	}
	e.mustPass(retainTime - 1)
	e.wants("nothing is written")
	frames, err := e.Reconnected(e.now)
	if err != nil {
		t.Fatal(err)
	}
	e.write(frames...)
	e.wants("what is missing", "resume 2 ack 1", "data 2 ack 1")
	e.mustPass(ackDelay)
	e.wants("nothing is owed")
	e.mustPass(firstRetransmit - ackDelay)
	e.wants("the timers begin again", "data 2 ack 1")
	e.mustReceive(ack(3, 0))
	e.send("r4")
	e.wants("and it goes on", "data 4 ack 1")
	if frames, err := e.Reconnected(e.now); err != nil || len(frames) > 0 {
		t.Errorf("Reconnected while connected: %v, %v", frames, err)
	}
}

// TestSilenceBeginsAgain: the time of silence restarts with a new connection.
func TestSilenceBeginsAgain(t *testing.T) {
	e := learnt(t, Options{})
	e.mustPass(silenceTime - time.Second)
	if err := e.Disconnected(e.now); err != nil {
		t.Fatal(err)
	}
	e.mustPass(10 * time.Second)
	if _, err := e.Reconnected(e.now); err != nil {
		t.Fatal(err)
	}
	e.mustPass(silenceTime - 1)
	if err := e.pass(1); !errors.Is(err, ErrLost) {
		t.Errorf("after 45 s without a frame: %v", err)
	}
}

func TestNotRestored(t *testing.T) {
	e := learnt(t, Options{})
	for range 2 { // a second call does nothing
		if err := e.Disconnected(e.now); err != nil {
			t.Fatal(err)
		}
	}
	e.mustPass(retainTime - 1)
	if err := e.pass(1); !errors.Is(err, ErrLost) {
		t.Errorf("after 30 s: %v", err)
	}

	e = learnt(t, Options{})
	if err := e.Disconnected(e.now); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reconnected(e.now.Add(retainTime)); !errors.Is(err, ErrLost) {
		t.Errorf("restored too late: %v", err)
	}
}

func TestOthersDieWithTheirConnection(t *testing.T) {
	unlearnt := newEnd(t, Options{})
	unlearnt.send("a")
	refuted := newEnd(t, Options{})
	refuted.mustReceive(records(0, unsignedData, heartbeat)...)
	silent := newEnd(t, Options{Plain: true})
	silent.mustReceive(record(0), ack(0, 0), heartbeat)
	for name, e := range map[string]*end{"unknown": unlearnt, "plain": refuted, "option": silent} {
		if err := e.Disconnected(e.now); !errors.Is(err, ErrLost) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrLost)
		}
	}
}

// TestFramesOfTheOldConnection: frames of the old connection arrive after it was given up. Their
// records count, and the answers are sent on the next connection.
func TestFramesOfTheOldConnection(t *testing.T) {
	e := learnt(t, Options{})
	e.send("r1")
	e.wrote = nil
	if err := e.Disconnected(e.now); err != nil {
		t.Fatal(err)
	}
	e.mustReceive(records(1, ackRecords, ack(1, 0))...)
	e.wants("nothing is written")
	if len(e.got) != 1+ackRecords || len(e.out.kept) > 0 {
		t.Errorf("%d records arrived, %d are kept", len(e.got), len(e.out.kept))
	}
	frames, err := e.Reconnected(e.now)
	if err != nil {
		t.Fatal(err)
	}
	e.write(frames...)
	e.wants("it is said", "resume 2 ack 16")
}

func TestHarnessWaitsForAnAnswer(t *testing.T) {
	for _, answered := range []bool{false, true} {
		e := learnt(t, Options{Harness: true})
		if err := e.Disconnected(e.now); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Reconnected(e.now); err != nil {
			t.Fatal(err)
		}
		e.mustPass(answerTime - 1)
		if answered {
			e.mustReceive(heartbeat)
		}
		if err := e.pass(1); errors.Is(err, ErrLost) == answered {
			t.Errorf("answered %v: %v", answered, err)
		}
	}
	e := learnt(t, Options{})
	if err := e.Disconnected(e.now); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reconnected(e.now); err != nil {
		t.Fatal(err)
	}
	e.mustPass(answerTime)
}

// TestPeerResumes: when a peer resumes on a new websocket, the records that were lost with the old
// one are retransmitted, but not each time a resume arrives.
func TestPeerResumes(t *testing.T) {
	resume := Frame{StreamID: "s", Kind: Resume, Seq: 7}
	e := learnt(t, Options{})
	e.send("r1", "r2")
	e.wrote = nil
	e.mustReceive(acked(resume, 0, 0b10))
	e.wants("the first time", "data 1", "ack_frame")
	e.mustReceive(resume, resume)
	e.wants("again", "ack_frame", "ack_frame")
	e.mustReceive(ack(2, 0))
	e.mustPass(firstRetransmit)
	e.mustReceive(resume)
	e.wants("nothing is missing", "ack_frame")

	e = newEnd(t, Options{})
	e.send("r0")
	e.mustReceive(resume, heartbeat, resume)
	e.wants("nothing has arrived", "data 0", "data 0", "heartbeat")
}

func TestHeartbeat(t *testing.T) {
	e := learnt(t, Options{})
	e.mustPass(heartbeatTime - 1)
	e.wants("not yet")
	e.mustPass(1)
	e.wants("after 15 s of silence", "heartbeat")
	e.mustPass(10 * time.Second)
	e.mustReceive(heartbeat)
	e.mustPass(5 * time.Second)
	e.wants("and again", "heartbeat")
	e.mustPass(silenceTime - 5*time.Second - 1)
	e.wants("and again", "heartbeat", "heartbeat")
	if err := e.pass(1); !errors.Is(err, ErrLost) {
		t.Errorf("after 45 s without a frame: %v", err)
	}

	e = newEnd(t, Options{}) // about which nothing is known
	e.send("r0")
	e.mustReceive(record(0))
	e.mustPass(time.Hour)
	e.wants("no heartbeats", "data 0", "ack_frame")
}

// TestTwoEndsKeepEachOther: heartbeats keep the stream alive, even if only one end knows that the
// other acknowledges.
func TestTwoEndsKeepEachOther(t *testing.T) {
	a, b := NewStream("s", Options{}, epoch), NewStream("s", Options{}, epoch)
	now := epoch
	f, err := a.Send([]byte("r0"), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Receive(f, now)
	if err != nil {
		t.Fatal(err)
	}
	to := a
	if f, err = b.Send([]byte("r0"), nil, now); err != nil {
		t.Fatal(err)
	}
	frames := append(out.Frames, f)
	for now.Before(epoch.Add(time.Hour)) {
		for _, f := range frames {
			if _, err := to.Receive(f, now); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Second)
		from := []*Stream{a, b}[now.Second()%2]
		to = []*Stream{b, a}[now.Second()%2]
		if frames, err = from.Advance(now); err != nil {
			t.Fatalf("after %v: %v", now.Sub(epoch), err)
		}
	}
	if !a.Acking() || !b.Acking() {
		t.Errorf("acking: %v and %v", a.Acking(), b.Acking())
	}
}
