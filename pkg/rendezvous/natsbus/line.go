package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/rendezvous"
)

// errLine says that a peer has broken the rules of a line.
var errLine = errors.New("the other node counts differently")

// line connects an address of this node with one of another. It is open from
// the moment that it is made, until the bus ends it. Its methods may be called
// from any goroutine.
type line struct {
	bus           *Bus
	id            lineID
	local, remote string              // addresses
	box           *rendezvous.Mailbox // of local

	peerMu     sync.Mutex
	node       string // of remote; empty: not known yet
	generation uint64 // of remote

	mu   sync.Mutex // held while NATS takes a message
	over bool

	// What is sent.
	sent     uint64 // the number of the last message
	received uint64 // that the other node has, of them
	pending  []sent // those that have not left the other node
	bytes    int    // of frames in pending
	replies  int    // in pending
	heard    time.Time
	room     chan struct{} // closed and replaced when there may be more

	// What comes.
	last     uint64 // number of the last message
	asked    uint64 // number of the message that the other node was asked for, because later ones have come
	done     uint64 // how many have left this node
	reported ack    // what the other node was told
	undone   int    // bytes that have left since then
}

// sent is a message that has not left the other node. It is kept so that it can
// be sent again.
type sent struct{ message rendezvous.Message }

// bytes returns how much of lineBytes it takes.
func (s *sent) bytes() int {
	if s.message.Kind == rendezvous.Frame {
		return len(s.message.Data)
	}
	return 0
}

func (s *sent) isReply() bool { return s.message.Kind == rendezvous.Reply }

func (s *sent) done() {
	if s.message.Done != nil {
		s.message.Done()
	}
}

func (b *Bus) newLine(id lineID, local, remote string, box *rendezvous.Mailbox) *line {
	return &line{bus: b, id: id, local: local, remote: remote, box: box, heard: time.Now(), room: make(chan struct{})}
}

// send sends the next message, when there is room for it; the result is that of
// Bus.Send. An error of the connection ends the line.
func (l *line) send(ctx context.Context, m *rendezvous.Message) (bool, error) {
	l.mu.Lock()
	for {
		if l.over {
			l.mu.Unlock()
			return false, fmt.Errorf("%s: %w", l.remote, rendezvous.ErrNobody)
		}
		if m.Kind == rendezvous.Reply && l.replies >= lineReplies {
			l.mu.Unlock()
			return false, nil
		}
		if m.Kind != rendezvous.Frame || l.bytes == 0 || l.bytes+len(m.Data) <= lineBytes {
			break
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		l.mu.Lock()
	}
	// Under the lock, so that messages go out in the order of their numbers.
	err := l.bus.node.publish(nodeSubject(l.peer()), &packet{kind: packetData, line: l.id, number: l.sent + 1, message: *m})
	if err == nil {
		l.count(m)
	}
	l.mu.Unlock()
	if err != nil {
		l.bus.end(l, err, tellBoth)
		return false, fmt.Errorf("%s: %w: %w", l.remote, rendezvous.ErrNobody, err)
	}
	return true, nil
}

// count notes that a message was sent. The caller holds mu.
func (l *line) count(m *rendezvous.Message) {
	if len(l.pending) == 0 {
		l.heard = time.Now() // the time for its confirmation begins
	}
	l.sent++
	s := sent{*m}
	if s.isReply() {
		l.replies++
	}
	l.bytes += s.bytes()
	l.pending = append(l.pending, s)
}

// gone returns how many messages have left the other node. The caller holds mu.
func (l *line) gone() uint64 { return l.sent - uint64(len(l.pending)) }

// sendAgain sends what follows the last message that has come to the other node:
// NATS may have lost it, with a server. Some of it may come twice. If nothing new
// has come for too long, check ends the line all the same.
func (l *line) sendAgain(last uint64, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	if last > l.sent {
		return errLine
	}
	if last > l.received {
		l.received, l.heard = last, now
	}
	gone := l.gone() // may be more: what was asked can be overtaken by what has left
	for i := max(last, gone) - gone; i < uint64(len(l.pending)); i++ {
		p := packet{kind: packetData, line: l.id, number: gone + i + 1, message: l.pending[i].message}
		if err := l.bus.node.publish(nodeSubject(l.peer()), &p); err != nil {
			return err
		}
	}
	return nil
}

// acked takes what the other node says about what it has received.
func (l *line) acked(a ack, now time.Time) error {
	l.mu.Lock()
	first := l.gone()
	if a.received > l.sent || a.done > a.received {
		l.mu.Unlock()
		return errLine
	}
	if a.received >= l.received {
		l.received, l.heard = a.received, now
	}
	var left []sent
	if a.done > first {
		n := int(a.done - first)
		left = l.pending[:n:n]
		l.pending = l.pending[n:]
		if len(l.pending) == 0 {
			l.pending = nil
		}
		for i := range left {
			l.bytes -= left[i].bytes()
			if left[i].isReply() {
				l.replies--
			}
		}
		close(l.room)
		l.room = make(chan struct{})
	}
	l.mu.Unlock()
	for i := range left {
		left[i].done()
	}
	return nil
}

// take puts the next message that has come into the mailbox. One that comes out
// of its turn is dropped: then missing is true if the other node is to send what
// is before it.
func (l *line) take(number uint64, m rendezvous.Message) (missing bool, err error) {
	l.mu.Lock()
	switch {
	case l.over:
		l.mu.Unlock()
		return false, nil
	case number <= l.last:
		// It was sent again, so what was said about it may be lost.
		l.reported = ack{}
		l.mu.Unlock()
		l.bus.touch(l, false)
		return false, nil
	case number > l.last+1:
		missing = l.asked <= l.last
		l.asked = l.last + 1
		l.mu.Unlock()
		return missing, nil
	}
	l.last = number
	size := len(m.Data)
	m.From = l.remote
	m.Done = func() { l.left(size) }
	// Under the lock, so that nothing comes behind what tells of the line's end.
	// It does not wait.
	added, err := l.box.Put(ended, m)
	l.mu.Unlock()
	l.bus.touch(l, false)
	if err == nil && !added {
		err = errLine
	}
	return false, err
}

// ended is a context for what must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// left notes that a message has left this node.
func (l *line) left(size int) {
	l.mu.Lock()
	l.done++
	l.undone += size
	urgent := l.undone >= ackBytes
	l.mu.Unlock()
	l.bus.touch(l, urgent)
}

// report returns what the other node is to be told, and its id; false: nothing.
func (l *line) report(always bool) (ack, string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, node := ack{l.id, l.last, l.done}, l.peer()
	if l.over || node == "" || a == l.reported && !always {
		return ack{}, "", false
	}
	l.reported, l.undone = a, 0
	return a, node, true
}

// check is called again and again. It returns the number of the last message if
// the other node is to be asked whether that has come, or to say again what has
// left it; and an error if it does not answer that.
func (l *line) check(now time.Time) (probe uint64, node string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	if l.over || node == "" || len(l.pending) == 0 {
		return 0, "", nil
	}
	quiet := now.Sub(l.heard)
	switch {
	case quiet > lossTime:
		return 0, "", fmt.Errorf("%w: nothing was confirmed for %v", errLost, quiet)
	case quiet > probeTime:
		return l.sent, node, nil
	default:
		return 0, "", nil
	}
}

// unconfirmed returns the number of the last message if it is not known that it
// has come, else 0, and the id of the other node.
func (l *line) unconfirmed() (number uint64, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	if l.over || node == "" || l.received == l.sent {
		return 0, node
	}
	return l.sent, node
}

// came returns the number of the last message that has come, and the id of the
// other node. It is false if there is none to tell.
func (l *line) came() (last uint64, node string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	return l.last, node, node != "" && !l.over
}

// went returns the number of the last message that was sent, and the id of the
// other node. It is false if there is none to ask.
func (l *line) went() (last uint64, node string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	return l.sent, node, node != "" && !l.over
}

// answered learns which node has the other address. It is false if another has
// been first.
func (l *line) answered(node string) bool {
	l.peerMu.Lock()
	defer l.peerMu.Unlock()
	if l.node == "" {
		l.node = node
	}
	return l.node == node
}

// peer returns the id of the other node; empty: it is not known yet.
func (l *line) peer() string {
	l.peerMu.Lock()
	defer l.peerMu.Unlock()
	return l.node
}

func (l *line) setGeneration(generation uint64) {
	l.peerMu.Lock()
	defer l.peerMu.Unlock()
	l.generation = generation
}

// finish ends the line, once. It returns the id of the other node.
func (l *line) finish() (node string, first bool) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return "", false
	}
	l.over = true
	pending := l.pending
	l.pending, l.bytes, l.replies = nil, 0, 0
	close(l.room)
	l.room = make(chan struct{})
	l.mu.Unlock()
	for i := range pending {
		pending[i].done()
	}
	return l.peer(), true
}
