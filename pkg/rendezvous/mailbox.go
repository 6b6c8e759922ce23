package rendezvous

import (
	"context"
	"sync"

	"codex.internal/pkg/relay/frame"
)

// MessageKind is the type of a Message.
type MessageKind uint8

// The kinds of messages.
const (
	Frame  MessageKind = iota + 1 // one frame of the relay
	Reply                         // a frame that the service itself made, which is dropped if there is no space
	Joined                        // the harness From has joined
	Left                          // the harness From is gone
	Gone                          // the executor From is gone, or, if Data is set, refuses to continue for that reason
	Lapsed                        // Stream waits no longer for the harness From, which has left
	Lost                          // messages from or to From may be lost: it counts as gone
)

// Message is sent from one socket to another. Its texts and bytes must not be
// changed any more.
type Message struct {
	Kind     MessageKind
	From     string // address of the sender
	Token    string // of a harness: the id of its token
	Identity string // of a harness: the digest of its key
	Stream   string // Frame: see Data
	Frame    frame.Kind
	Data     []byte // Frame, Reply: as it arrived from the websocket; Joined: the harness's program
	// Done, if it is not nil, releases the message's share of the limits and the memory of Data.
	// The receiver must call it once, when the message has been written, dropped or passed to
	// another node. It must not use Data afterwards.
	Done func()
}

func (m *Message) done() {
	if m.Done != nil {
		m.Done()
	}
}

// Mailbox is the queue of messages for one socket. Tokens take turns with one message each, and so
// do the senders of one token. So no sender waits behind the queue of another, and a token with
// many connections gets no more turns than a token with one. The messages of one sender remain in
// order. Its methods may be called from any goroutine.
type Mailbox struct {
	limit int // of bytes of frames per sender
	ready chan struct{}

	mu     sync.Mutex
	queues map[string]*queue // tokens that have messages or a waiting sender
	tokens map[string]*group // senders that have messages
	turn   []*group          // the same, the next first
	closed error
}

// group has the senders of one token that have messages. The next sender is the first.
type group struct {
	token string
	turn  []*queue
}

// queue holds the messages of one sender.
type queue struct {
	from     string
	token    string // of the first message
	messages []Message
	bytes    int
	replies  int
	waiting  int
	room     chan struct{} // closed and replaced when a message is taken
}

// NewMailbox returns an empty mailbox. Each sender may have limit bytes of frames in it, but always
// at least one frame.
func NewMailbox(limit int) *Mailbox {
	return &Mailbox{limit: limit, ready: make(chan struct{}, 1), queues: make(map[string]*queue), tokens: make(map[string]*group)}
}

// Put adds a message. A Frame waits until its sender has space. If there is no space for a Reply,
// the Reply is dropped and the result is false. The error comes from Close or ctx. If a message was
// not added, the caller must call its Done.
func (b *Mailbox) Put(ctx context.Context, m Message) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if b.closed != nil {
			return false, b.closed
		}
		q := b.queues[m.From]
		if q == nil {
			q = &queue{from: m.From, token: m.Token, room: make(chan struct{})}
			b.queues[m.From] = q
		}
		if m.Kind == Reply && q.replies >= SourceReplies {
			return false, nil
		}
		if m.Kind != Frame || q.bytes == 0 || q.bytes+len(m.Data) <= b.limit {
			b.add(q, m)
			return true, nil
		}
		if err := b.awaitRoom(ctx, q); err != nil {
			return false, err
		}
	}
}

// awaitRoom waits, without the lock, until a message is taken from a queue.
func (b *Mailbox) awaitRoom(ctx context.Context, q *queue) error {
	room := q.room
	q.waiting++
	b.mu.Unlock()
	var err error
	select {
	case <-room:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	q.waiting--
	b.drop(q)
	return err
}

// add appends a message to a queue. The caller holds mu.
func (b *Mailbox) add(q *queue, m Message) {
	if len(q.messages) == 0 {
		g := b.tokens[q.token]
		if g == nil {
			g = &group{token: q.token}
			b.tokens[q.token] = g
			b.turn = append(b.turn, g)
		}
		g.turn = append(g.turn, q)
	}
	q.messages = append(q.messages, m)
	q.count(&m, 1)
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (q *queue) count(m *Message, sign int) {
	switch m.Kind {
	case Frame:
		q.bytes += sign * len(m.Data)
	case Reply:
		q.replies += sign
	}
}

// drop removes a queue that is no longer used. The caller holds mu.
func (b *Mailbox) drop(q *queue) {
	if len(q.messages) == 0 && q.waiting == 0 && b.queues[q.from] == q {
		delete(b.queues, q.from)
	}
}

// Ready returns a channel that has a value when Take may return a message again, or when the
// mailbox was closed.
func (b *Mailbox) Ready() <-chan struct{} { return b.ready }

// Take returns the next message, if there is one. The error is the one passed to Close.
func (b *Mailbox) Take() (Message, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil || len(b.turn) == 0 {
		return Message{}, false, b.closed
	}
	g := b.turn[0]
	b.turn = b.turn[1:]
	q := g.turn[0]
	g.turn = g.turn[1:]
	m := q.messages[0]
	q.messages[0] = Message{} // so that its bytes can be freed
	q.messages = q.messages[1:]
	q.count(&m, -1)
	if len(q.messages) > 0 {
		g.turn = append(g.turn, q)
	}
	if len(g.turn) > 0 {
		b.turn = append(b.turn, g)
	} else {
		delete(b.tokens, g.token)
	}
	close(q.room)
	q.room = make(chan struct{})
	b.drop(q)
	return m, true, nil
}

// Close makes Put fail with an error, and returns the messages that were not taken. The caller must
// call their Done. Only the first call has an effect.
func (b *Mailbox) Close(err error) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return nil
	}
	b.closed = err
	var left []Message
	for _, q := range b.queues {
		left = append(left, q.messages...)
		close(q.room)
		q.room = make(chan struct{})
	}
	clear(b.queues)
	clear(b.tokens)
	b.turn = nil
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return left
}
