package rendezvous

import (
	"context"
	"fmt"
	"sync"
)

// Bus carries messages between sockets, by address. It keeps the order of the
// messages between two addresses. Its methods may be called from any
// goroutine.
type Bus interface {
	// Bind gives an address to a mailbox. If another had it, that is closed
	// with ErrReplaced, and left returns what was in it.
	Bind(address string, box *Mailbox) (left []Message, err error)
	// Unbind takes the address back, if the mailbox still has it.
	Unbind(address string, box *Mailbox)
	// Send puts a message into the mailbox with an address, as Mailbox.Put
	// does; the result is that of Put. It is an ErrNobody if there is none, or
	// it was closed.
	Send(ctx context.Context, address string, m Message) (bool, error)
}

// LocalBus is the Bus of a service that is one process.
type LocalBus struct {
	mu    sync.RWMutex
	boxes map[string]*Mailbox
}

// NewLocalBus returns a bus without addresses.
func NewLocalBus() *LocalBus { return &LocalBus{boxes: make(map[string]*Mailbox)} }

// Bind implements Bus. It does not fail.
func (b *LocalBus) Bind(address string, box *Mailbox) ([]Message, error) {
	b.mu.Lock()
	former := b.boxes[address]
	b.boxes[address] = box
	b.mu.Unlock()
	if former == nil || former == box {
		return nil, nil
	}
	return former.Close(ErrReplaced), nil
}

// Unbind implements Bus.
func (b *LocalBus) Unbind(address string, box *Mailbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes[address] == box {
		delete(b.boxes, address)
	}
}

// Send implements Bus.
func (b *LocalBus) Send(ctx context.Context, address string, m Message) (bool, error) {
	b.mu.RLock()
	box := b.boxes[address]
	b.mu.RUnlock()
	if box == nil {
		return false, fmt.Errorf("%s: %w", address, ErrNobody)
	}
	sent, err := box.Put(ctx, m)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w: %w", address, ErrNobody, err)
	}
	return sent, err
}
