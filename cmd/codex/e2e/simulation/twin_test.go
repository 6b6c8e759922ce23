package simulation

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// twin makes a second connection with the request of the first. An HTTP proxy that has lost a
// response does the same: it may repeat a GET, and each websocket begins with a GET. The other end
// sees two connections of the same party, in either order. The party does not use the second one.
type twin struct {
	n       *network
	address string
	rng     *rand.Rand

	mu      sync.Mutex
	request []byte
	done    bool
}

// copy collects the request, and sends it again when it is complete. A nil twin does nothing.
func (t *twin) copy(b []byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return
	}
	t.request = append(t.request, b...)
	at := bytes.Index(t.request, []byte("\r\n\r\n"))
	if at < 0 {
		return
	}
	t.done = true
	if request := t.request[:at+4]; bytes.HasPrefix(request, []byte("GET ")) {
		t.n.after(between(t.rng, time.Microsecond, 2*time.Second), func() { t.send(request) })
	}
}

// send makes the second connection, which ends after a while.
func (t *twin) send(request []byte) {
	t.n.mu.Lock()
	l := t.n.targets[t.address]
	t.n.mu.Unlock()
	if l == nil {
		return
	}
	c := t.n.connect("twin", t.rng, l)
	if c == nil {
		return
	}
	t.n.note("network: a request comes again")
	_, _ = c.Write(request)
	t.n.after(between(t.rng, time.Millisecond, 20*time.Second), func() {
		if t.rng.IntN(2) == 0 {
			_ = c.Close()
			return
		}
		c.abort(syscall.ECONNRESET)
		c.other.abort(syscall.ECONNRESET)
	})
}
