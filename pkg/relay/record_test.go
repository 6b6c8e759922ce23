package relay

import (
	"bytes"
	"net"
	"testing"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/wire/websocket"
)

// TestRecordsAreWrittenAsTheyWere: a harness acknowledges records that the executor has not written
// yet, and requests some of them again. No record may change meanwhile, although the memory of
// acknowledged records is reused.
func TestRecordsAreWrittenAsTheyWere(t *testing.T) {
	const count = recordQueue // more than the network accepts, and no more than the queue does
	wrote := make(chan int, count)
	r, _ := meet(t, ExecutorOptions{Serve: func(c websocket.Transport) {
		for i := range count {
			if c.WriteFrames(c.Seal(append(c.Open(nil), message(i, 3*keepRecord)...), 0)) != nil {
				break
			}
			wrote <- i
		}
		close(wrote)
		_, _ = c.ReadMessage()
	}})
	session := r.enter("a")
	if err := r.ws.NetConn().(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	r.send(frame.Frame{StreamID: "a", Kind: frame.Heartbeat})
	n := 0
	for i := range wrote {
		n++
		if i%8 == 7 {
			// Acknowledge all but the second of eight records, so that it is retransmitted, and
			// then acknowledge all.
			r.send(frame.Frame{StreamID: "a", Kind: frame.Ack, Ack: uint32(i - 7), AckBits: 0b1111110})
			r.send(frame.Frame{StreamID: "a", Kind: frame.Ack, Ack: uint32(i)})
		}
	}
	if n != count {
		t.Fatalf("%d records are written", n)
	}
	again := 0
	for next, records := uint32(0), map[uint32][]byte{}; next < count; {
		f := r.expect("a", frame.Data)
		if record, twice := records[f.Seq]; twice {
			again++
			if !bytes.Equal(record, f.Payload) {
				t.Fatalf("record %d is another the second time", f.Seq)
			}
			continue
		}
		records[f.Seq] = f.Payload
		for ; records[next] != nil; next++ {
			plaintext, err := session.Open(nil, records[next])
			if err != nil || !bytes.Equal(plaintext, framed(string(message(int(next), 3*keepRecord)))) {
				t.Fatalf("record %d is another: %v", next, err)
			}
		}
	}
	if again == 0 {
		t.Error("no record came twice")
	}
}

func TestRecordMemory(t *testing.T) {
	for _, n := range []int{1, keepRecord - 1, keepRecord, maxRecord} {
		r := newRecord(n)
		if len(r.memory) != 0 || cap(r.memory) < n || (r.free != nil) != (n >= keepRecord) {
			t.Errorf("%d bytes: %d of %d, %v", n, len(r.memory), cap(r.memory), r.free != nil)
		}
		r.release()
		if n >= keepRecord && r.users.Load() != 1 {
			t.Errorf("%d users", r.users.Load())
		}
		r.release()
	}
	(*record)(nil).release()
}
