package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/rendezvous"
)

// errProtocol means that the other node violated the line protocol: it acknowledged messages that
// were never sent, or sent more than the window allows.
var errProtocol = errors.New("the other node violated the line protocol")

// line connects an address of this node with an address of another node. It is open from its
// creation until the bus ends it. Its methods may be called from any goroutine.
type line struct {
	bus           *Bus
	id            lineID
	local, remote string              // addresses
	box           *rendezvous.Mailbox // of local

	peerMu     sync.Mutex
	node       string // of remote; empty: not known yet
	generation uint64 // of remote

	mu   sync.Mutex // held while a message is handed to NATS
	over bool

	// These fields are for the direction to the other node.
	sent     uint64        // the number of the last message
	received uint64        // how many of them the other node has acknowledged as received
	pending  []sent        // the messages that the other node has not handed to its reader yet
	bytes    int           // of frames in pending
	replies  int           // in pending
	heard    time.Time     // time of the last progress that the other node reported
	room     chan struct{} // closed and replaced when there may be more space

	// These fields are for the direction to this node.
	last       uint64 // the number of the last message that was received in order
	asked      uint64 // the number of the missing message that the other node was asked to retransmit
	done       uint64 // how many messages this node has handed to their reader
	reported   ack    // the last acknowledgement that was sent
	unreported int    // bytes handed over since then
}

// sent is a message that may have to be retransmitted, because the other node has not acknowledged
// that its reader has it.
type sent struct{ message rendezvous.Message }

// bytes returns how many bytes of lineBytes the message uses.
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

// send sends the next message when there is space for it, and returns the result of Bus.Send. An
// error of the connection ends the line.
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
	// This is done under the lock, so that messages are sent in the order of their numbers.
	err := l.bus.node.publish(nodeSubject(l.peer()), &packet{kind: packetData, line: l.id, number: l.sent + 1, message: *m})
	if err == nil {
		l.count(m)
	}
	l.mu.Unlock()
	if err != nil {
		l.bus.end(l, err, notifyBoth)
		return false, fmt.Errorf("%s: %w: %w", l.remote, rendezvous.ErrNobody, err)
	}
	return true, nil
}

// count records that a message was sent. The caller holds mu.
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

// delivered returns how many messages the other node has passed to its reader. The caller holds mu.
func (l *line) delivered() uint64 { return l.sent - uint64(len(l.pending)) }

// sendAgain retransmits all messages after number last, because a NATS server that crashed may have
// lost them. last is the last message that the other node has received in order. The other node
// drops messages that it receives twice. If no progress is reported for lossTime, check still ends
// the line.
func (l *line) sendAgain(last uint64, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	if last > l.sent {
		return errProtocol
	}
	if last > l.received {
		l.received, l.heard = last, now
	}
	delivered := l.delivered() // may exceed last: a later acknowledgement can overtake the request
	for i := max(last, delivered) - delivered; i < uint64(len(l.pending)); i++ {
		p := packet{kind: packetData, line: l.id, number: delivered + i + 1, message: l.pending[i].message}
		if err := l.bus.node.publish(nodeSubject(l.peer()), &p); err != nil {
			return err
		}
	}
	return nil
}

// acked handles an acknowledgement. It frees the messages that the other node has passed to its
// reader, and wakes senders that wait for space.
func (l *line) acked(a ack, now time.Time) error {
	l.mu.Lock()
	first := l.delivered()
	if a.received > l.sent || a.done > a.received {
		l.mu.Unlock()
		return errProtocol
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

// take puts the next message into the mailbox. It drops a message that is out of order. If missing
// is true, the caller must now request the messages before it from the other node.
func (l *line) take(number uint64, m rendezvous.Message) (missing bool, err error) {
	l.mu.Lock()
	switch {
	case l.over:
		l.mu.Unlock()
		return false, nil
	case number <= l.last:
		// The message is a retransmission, so its acknowledgement may have been lost.
		l.reported = ack{}
		l.mu.Unlock()
		l.bus.markDirty(l, false)
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
	m.Done = func() { l.handedOver(size) }
	// This is done under the lock, so that no message follows the one that reports the line's end.
	// It does not wait.
	added, err := l.box.Put(canceled, m)
	l.mu.Unlock()
	l.bus.markDirty(l, false)
	if err == nil && !added {
		err = errProtocol
	}
	return false, err
}

// canceled is a context for calls that must not wait.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// handedOver records that a message of size bytes was passed to its reader.
func (l *line) handedOver(size int) {
	l.mu.Lock()
	l.done++
	l.unreported += size
	urgent := l.unreported >= ackBytes
	l.mu.Unlock()
	l.bus.markDirty(l, urgent)
}

// report returns the acknowledgement to send and the id of the other node. ok is false if no
// acknowledgement can or needs to be sent: the line is closed, its other node is unknown, or
// nothing has changed since the last one and always is not set.
func (l *line) report(always bool) (ack, string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, node := ack{l.id, l.last, l.done}, l.peer()
	if l.over || node == "" || a == l.reported && !always {
		return ack{}, "", false
	}
	l.reported, l.unreported = a, 0
	return a, node, true
}

// check is called with every heartbeat. If messages have been unacknowledged for probeTime, it
// returns the number of the last message, for a probe. If they have been unacknowledged for
// lossTime, it returns an error.
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

// unconfirmed returns the number of the last message if the other node has not acknowledged it, and
// otherwise 0. It also returns the id of the other node.
func (l *line) unconfirmed() (number uint64, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	if l.over || node == "" || l.received == l.sent {
		return 0, node
	}
	return l.sent, node
}

// lastReceived returns the number of the last message that was received in order,
// and the id of the other node. ok is false if the line is closed or its other node
// is unknown.
func (l *line) lastReceived() (last uint64, node string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	return l.last, node, node != "" && !l.over
}

// lastSent returns the number of the last message that was sent, and the id of the
// other node. ok is false if the line is closed or its other node is unknown.
func (l *line) lastSent() (last uint64, node string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.peer()
	return l.sent, node, node != "" && !l.over
}

// answered sets the node that has the other address, if it is not known yet. It reports whether
// that node is node.
func (l *line) answered(node string) bool {
	l.peerMu.Lock()
	defer l.peerMu.Unlock()
	if l.node == "" {
		l.node = node
	}
	return l.node == node
}

// peer returns the id of the other node, or "" if it is not known yet.
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
