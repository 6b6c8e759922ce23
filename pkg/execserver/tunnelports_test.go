package execserver

import (
	"encoding/json"
	"testing"
)

// portsOf waits for the next tunnel/ports of a watch.
func (p *peer) portsOf(watch uint64) (seq uint64, count int) {
	p.t.Helper()
	var n struct {
		WatchID, Seq uint64
		Ports        []json.RawMessage
	}
	p.wait(func(m message) bool {
		if m.Method != "tunnel/ports" {
			return false
		}
		if err := json.Unmarshal(m.Params, &n); err != nil {
			p.t.Fatal(err)
		}
		if n.WatchID != watch {
			p.t.Errorf("watch %d is told of, not %d", n.WatchID, watch)
		}
		return true
	})
	return n.Seq, len(n.Ports)
}

// TestPortWatches begins, replaces and ends watches: no change is reported for an ended
// one, and without a watch no goroutine runs.
func TestPortWatches(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	other, _ := hello(t, url)
	for id := uint64(1); id <= 3; id++ {
		p.call("tunnel/watchPorts", object{"watchId": id}, nil)
		if seq, count := p.portsOf(id); seq != 1 || count != 0 {
			t.Errorf("watch %d begins with notification %d, which has %d ports", id, seq, count)
		}
		p.call("tunnel/unwatchPorts", object{"watchId": id - 1}, nil) // was replaced
	}
	p.call("tunnel/unwatchPorts", object{"watchId": 3}, nil)
	p.call("tunnel/unwatchPorts", object{"watchId": 3}, nil)
	other.call("tunnel/watchPorts", object{"watchId": 1, "allSessions": true}, nil)
	other.portsOf(1)
	_ = other.ws.Close() // the watch ends with its connection
	awaitConns(t, srv, 1)
}

// TestSessionsOfOthers: a connection sees its own session, and those of its owner that have the
// same token.
func TestSessionsOfOthers(t *testing.T) {
	own := &session{}
	c := &conn{session: own}
	c.grant.Token = "A"
	for _, tt := range []struct {
		lasting, token, owner string
		want                  bool
	}{
		{"user 7", "A", "user 7", true},
		{"user 7", "A", "", false},
		{"user 7", "B", "user 7", false},
		{"user 8", "A", "user 7", false},
		{"", "A", "user 7", false},
		{"", "A", "", false},
	} {
		s := &session{lasting: tt.lasting}
		s.grant.Token = tt.token
		if got := s.shares(c, tt.owner); got != tt.want {
			t.Errorf("%+v: got %v, want %v", tt, got, tt.want)
		}
	}
	if !own.shares(c, "") {
		t.Error("a connection does not see its own session")
	}
}
