package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Bus carries messages between sockets, by address. Messages between two
// addresses stay in order. Its methods may be called from any goroutine.
type Bus interface {
	// Bind gives an address to a mailbox. If several mailboxes are bound to the address, the one
	// with the highest generation gets it, and the last one if generations are equal. A mailbox
	// that loses or does not get the address is closed with ErrReplaced. left has the messages of
	// the former mailbox, even if there is an error. The caller must answer them.
	Bind(ctx context.Context, address string, generation uint64, box *Mailbox) (left []Message, err error)
	// Unbind releases the address, if the mailbox still has it. It does not wait.
	Unbind(address string, box *Mailbox)
	// Bound reports whether a mailbox has an address.
	Bound(ctx context.Context, address string) (bool, error)
	// Send puts a message into the mailbox with an address, as Mailbox.Put does, and returns the
	// result of Put. The error is an ErrNobody if no mailbox has the address, or if the mailbox was
	// closed. If two addresses are on different nodes, the first message between them must be
	// Joined. Only Joined and Frame wait. Done of a message is called once the message has been
	// sent.
	Send(ctx context.Context, address string, m Message) (bool, error)
}

// MetricsWriter is implemented by a Bus that adds its own metrics to those of
// the service.
type MetricsWriter interface {
	// WriteMetrics writes them in the text format of Prometheus.
	WriteMetrics(w io.Writer)
}

// PeerBus is implemented by a Bus whose nodes can query each other.
type PeerBus interface {
	// Peers returns the other nodes that are alive.
	Peers() []string
	// Ask sends a question to another node, and returns the result of the answer function there. A
	// node of an older version does not answer; Ask then waits until ctx ends.
	Ask(ctx context.Context, node, question string) ([]byte, error)
	// Answer sets the function that answers questions of other nodes, one after the other.
	// It must not block, and must return at most MaxFrame bytes.
	Answer(answer func(question string) []byte)
}

// LocalBus is the Bus of a service that is one process.
type LocalBus struct {
	mu    sync.RWMutex
	boxes map[string]binding
}

// binding is the mailbox of an address.
type binding struct {
	box        *Mailbox
	generation uint64
}

// NewLocalBus returns an empty bus.
func NewLocalBus() *LocalBus { return &LocalBus{boxes: make(map[string]binding)} }

// Bind implements Bus. The error is an ErrReplaced.
func (b *LocalBus) Bind(_ context.Context, address string, generation uint64, box *Mailbox) ([]Message, error) {
	b.mu.Lock()
	former := b.boxes[address]
	if former.box != nil && former.generation > generation {
		b.mu.Unlock()
		box.Close(ErrReplaced)
		return nil, fmt.Errorf("%s: %w", address, ErrReplaced)
	}
	b.boxes[address] = binding{box, generation}
	b.mu.Unlock()
	if former.box == nil || former.box == box {
		return nil, nil
	}
	return former.box.Close(ErrReplaced), nil
}

// Unbind implements Bus.
func (b *LocalBus) Unbind(address string, box *Mailbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes[address].box == box {
		delete(b.boxes, address)
	}
}

// Bound implements Bus. It does not fail.
func (b *LocalBus) Bound(_ context.Context, address string) (bool, error) {
	return b.Mailbox(address) != nil, nil
}

// Mailbox returns the mailbox that has an address, or nil.
func (b *LocalBus) Mailbox(address string) *Mailbox {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.boxes[address].box
}

// Send implements Bus.
func (b *LocalBus) Send(ctx context.Context, address string, m Message) (bool, error) {
	box := b.Mailbox(address)
	if box == nil {
		return false, fmt.Errorf("%s: %w", address, ErrNobody)
	}
	sent, err := box.Put(ctx, m)
	if err != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%s: %w: %w", address, ErrNobody, err)
	}
	return sent, err
}
