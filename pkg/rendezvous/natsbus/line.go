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
	done     uint64 // how many have left this node
	reported ack    // what the other node was told
	undone   int    // bytes that have left since then
}

// sent is a message that has not left the other node.
type sent struct {
	bytes int // of a frame
	reply bool
	done  func()
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
	s := sent{done: m.Done, reply: m.Kind == rendezvous.Reply}
	if m.Kind == rendezvous.Frame {
		s.bytes = len(m.Data)
	}
	if s.reply {
		l.replies++
	}
	l.bytes += s.bytes
	l.pending = append(l.pending, s)
}

// acked takes what the other node says about what it has received.
func (l *line) acked(a ack, now time.Time) error {
	l.mu.Lock()
	first := l.sent - uint64(len(l.pending)) // how many had left before
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
		for _, s := range left {
			l.bytes -= s.bytes
			if s.reply {
				l.replies--
			}
		}
		close(l.room)
		l.room = make(chan struct{})
	}
	l.mu.Unlock()
	for _, s := range left {
		if s.done != nil {
			s.done()
		}
	}
	return nil
}

// take puts the next message that has come into the mailbox.
func (l *line) take(number uint64, m rendezvous.Message) error {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil
	}
	if number != l.last+1 {
		l.mu.Unlock()
		return fmt.Errorf("%w: message %d follows %d", errLost, number, l.last)
	}
	l.last = number
	l.mu.Unlock()
	size := len(m.Data)
	m.From = l.remote
	m.Done = func() { l.left(size) }
	l.bus.touch(l, false)
	added, err := l.box.Put(ended, m)
	if err == nil && !added {
		err = errLine
	}
	return err
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

// probed checks that a message has come which the other node has sent.
func (l *line) probed(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last < number {
		return fmt.Errorf("%w: message %d was sent, %d has come", errLost, number, l.last)
	}
	return nil
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
	for _, s := range pending {
		if s.done != nil {
			s.done()
		}
	}
	return l.peer(), true
}
