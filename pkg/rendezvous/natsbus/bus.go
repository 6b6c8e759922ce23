package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"codex.internal/pkg/internal/metrics"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/rendezvous"
)

// ErrLost means that the connection to NATS is lost permanently.
var ErrLost = errors.New("the connection to NATS is closed and is not retried")

// These are the reasons for which lines end.
var (
	errLost    = errors.New("messages between two nodes were lost")
	errSilent  = errors.New("the other node is silent")
	errBroken  = errors.New("the other node has closed the line")
	errMoved   = errors.New("another node has bound the address")
	errUnbound = errors.New("the address is no longer used")
	errClosed  = errors.New("the node is shutting down")
)

// Bus is the rendezvous.Bus of a node.
type Bus struct {
	node    *Node
	local   *rendezvous.LocalBus
	metrics *metrics.Set

	mu    sync.RWMutex
	bound map[string]*binding           // addresses of this node that other nodes can reach
	pairs map[pair]*line                // the newest of each pair
	lines map[lineID]*line              // all
	ends  map[string]map[*line]struct{} // all, by each of their addresses
	nodes map[string]time.Time          // when the last packet of each other node arrived

	answers atomic.Pointer[func(question string) []byte] // see Answer

	ackMu  sync.Mutex
	dirty  map[*line]struct{} // there may be something to report
	acks   chan struct{}      // has a value when dirty is not empty
	urgent chan struct{}      // has a value when a sender may be waiting
}

// binding is an address that other nodes can reach.
type binding struct {
	box        *rendezvous.Mailbox
	generation uint64
	calls      *nats.Subscription
}

// pair is the two addresses of a line.
type pair struct{ local, remote string }

func newBus(node *Node) *Bus {
	b := &Bus{
		node: node, local: rendezvous.NewLocalBus(),
		bound: make(map[string]*binding), pairs: make(map[pair]*line), lines: make(map[lineID]*line),
		ends: make(map[string]map[*line]struct{}), nodes: make(map[string]time.Time),
		dirty: make(map[*line]struct{}), acks: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
	b.metrics = b.newMetrics()
	return b
}

// Bind implements rendezvous.Bus. When it returns, all nodes can reach the address. Nodes that had
// the address before are notified at the same time.
func (b *Bus) Bind(ctx context.Context, address string, generation uint64, box *rendezvous.Mailbox) ([]rendezvous.Message, error) {
	if !validAddress(address) {
		return nil, fmt.Errorf("natsbus: %q cannot be an address", address)
	}
	replaced, err := b.local.Bind(ctx, address, generation, box)
	if err != nil || generation == 0 {
		return replaced, err
	}
	b.endAll(address, errMoved, notifyRemote)
	err = b.subscribe(ctx, address, generation, box)
	if err == nil {
		err = b.claim(address, generation)
	}
	if err != nil {
		b.Unbind(address, box)
		return replaced, fmt.Errorf("natsbus: bind %s: %w: %w", address, rendezvous.ErrUnavailable, err)
	}
	return replaced, nil
}

// subscribe registers the address with NATS.
func (b *Bus) subscribe(ctx context.Context, address string, generation uint64, box *rendezvous.Mailbox) error {
	b.mu.Lock()
	former := b.bound[address]
	next := &binding{box: box, generation: generation}
	switch {
	case former != nil && former.generation > generation:
		// The address was bound after the local bus was asked.
		b.mu.Unlock()
		return rendezvous.ErrReplaced
	case former != nil:
		next.calls = former.calls
	default:
		calls, err := b.node.conn.ChanSubscribe(addressSubject(address), b.node.calls)
		if err != nil {
			b.mu.Unlock()
			return err
		}
		next.calls = calls
	}
	b.bound[address] = next
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return b.node.conn.FlushWithContext(ctx)
}

// claim notifies all nodes that this node has had an address since a generation.
func (b *Bus) claim(address string, generation uint64) error {
	return b.node.publish(allSubject, &packet{kind: packetClaim, to: address, number: generation})
}

// claimAll repeats the claims for all addresses of this node, because earlier ones may have been
// lost.
func (b *Bus) claimAll() error {
	b.mu.RLock()
	claims := make(map[string]uint64, len(b.bound))
	for address, bound := range b.bound {
		claims[address] = bound.generation
	}
	b.mu.RUnlock()
	for address, generation := range claims {
		if err := b.claim(address, generation); err != nil {
			return err
		}
	}
	return nil
}

// Unbind implements rendezvous.Bus.
func (b *Bus) Unbind(address string, box *rendezvous.Mailbox) {
	b.local.Unbind(address, box)
	b.mu.Lock()
	if bound := b.bound[address]; bound != nil && bound.box == box {
		b.release(address, bound)
	}
	var over []*line
	for l := range b.ends[address] {
		if l.local == address && l.box == box {
			over = append(over, l)
		}
	}
	b.mu.Unlock()
	for _, l := range over {
		b.end(l, errUnbound, notifyRemote)
	}
}

// release removes an address from the table. The caller holds mu.
func (b *Bus) release(address string, bound *binding) {
	delete(b.bound, address)
	// Requests that are in flight are still answered. Drain fails if the connection is closed, and
	// then no request can arrive.
	_ = bound.calls.Drain()
}

// Bound implements rendezvous.Bus.
func (b *Bus) Bound(ctx context.Context, address string) (bool, error) {
	if here, err := b.local.Bound(ctx, address); here || err != nil {
		return here, err
	}
	if !validAddress(address) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := b.reach(ctx, address, &packet{kind: packetPing})
	switch {
	case err == nil:
		return answer.kind == packetAccept, nil
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	default:
		return false, fmt.Errorf("natsbus: look for %s: %w: %w", address, rendezvous.ErrUnavailable, err)
	}
}

// reach sends a request to the node that has an address. The error is nats.ErrNoResponders if no
// node has it. reach retries for interestTime, because NATS servers need that long to announce a
// new subscription to each other.
func (b *Bus) reach(ctx context.Context, address string, p *packet) (packet, error) {
	began := time.Now()
	for pause := interestPause; ; pause *= 2 {
		answer, err := b.node.request(ctx, addressSubject(address), p)
		if !errors.Is(err, nats.ErrNoResponders) || time.Since(began) >= interestTime {
			return answer, err
		}
		if err := wait.For(ctx, pause); err != nil {
			return answer, err
		}
	}
}

// Send implements rendezvous.Bus.
func (b *Bus) Send(ctx context.Context, address string, m rendezvous.Message) (bool, error) {
	b.mu.RLock()
	l := b.pairs[pair{m.From, address}]
	b.mu.RUnlock()
	if l != nil {
		return l.send(ctx, &m)
	}
	sent, err := b.local.Send(ctx, address, m)
	if m.Kind != rendezvous.Joined || !errors.Is(err, rendezvous.ErrNobody) {
		return sent, err
	}
	return b.open(ctx, address, &m)
}

// open opens a line with its first message.
func (b *Bus) open(ctx context.Context, address string, m *rendezvous.Message) (bool, error) {
	box := b.local.Mailbox(m.From)
	if box == nil || !validAddress(address) {
		return false, fmt.Errorf("%s: %w", address, rendezvous.ErrNobody)
	}
	var id lineID
	_, _ = rand.Read(id[:]) // never fails
	l := b.newLine(id, m.From, address, box)
	l.count(m)
	b.add(l)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := b.reach(ctx, address, &packet{kind: packetOpen, line: id, from: m.From, to: address, message: *m})
	switch {
	case err == nil && answer.kind == packetAccept:
		if !l.answered(answer.node) {
			b.sendBroken(answer.node, id)
		}
		b.markAlive(answer.node) // after it, so that the line is found if the node is lost
		l.setGeneration(answer.number)
		return true, nil
	case err == nil || errors.Is(err, nats.ErrNoResponders):
		b.end(l, errUnbound, notifyNone)
		return false, fmt.Errorf("%s: %w", address, rendezvous.ErrNobody)
	default:
		b.end(l, err, notifyNone)
		// The request may have arrived although its answer was lost, so close the line there.
		_ = b.node.publish(addressSubject(address), &packet{kind: packetBroken, line: id})
		return false, fmt.Errorf("natsbus: open a line to %s: %w: %w", address, rendezvous.ErrUnavailable, err)
	}
}

// add puts a line into the tables. If there already was a line between the two addresses, add ends
// it.
func (b *Bus) add(l *line) {
	b.mu.Lock()
	former := b.pairs[pair{l.local, l.remote}]
	b.pairs[pair{l.local, l.remote}] = l
	b.lines[l.id] = l
	for _, address := range []string{l.local, l.remote} {
		if b.ends[address] == nil {
			b.ends[address] = make(map[*line]struct{})
		}
		b.ends[address][l] = struct{}{}
	}
	b.mu.Unlock()
	if former != nil {
		b.end(former, errMoved, notifyNone)
	}
}

// remove removes a line from the tables.
func (b *Bus) remove(l *line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lines, l.id)
	if b.pairs[pair{l.local, l.remote}] == l {
		delete(b.pairs, pair{l.local, l.remote})
	}
	for _, address := range []string{l.local, l.remote} {
		delete(b.ends[address], l)
		if len(b.ends[address]) == 0 {
			delete(b.ends, address)
		}
	}
}

// notifyMode selects the ends that are notified that a line was closed.
type notifyMode int

const (
	notifyNone   notifyMode = iota
	notifyRemote            // the other node
	notifyLocal             // the address of this node
	notifyBoth
)

// end closes a line, unless it is closed already, and notifies the ends that notify selects. After
// that no message of the line is sent or received.
func (b *Bus) end(l *line, why error, notify notifyMode) {
	node, first := l.finish()
	if !first {
		return
	}
	b.remove(l)
	b.node.log.Debug("line ended", "local", l.local, "remote", l.remote, "reason", why)
	if notify == notifyRemote || notify == notifyBoth {
		b.sendBroken(node, l.id)
	}
	if notify == notifyLocal || notify == notifyBoth {
		b.node.broken.Add(1)
		// Put does not wait here. An error means that the mailbox is closed; then there is no
		// reader to notify.
		_, _ = l.box.Put(canceled, rendezvous.Message{Kind: rendezvous.Lost, From: l.remote})
	}
}

// sendBroken notifies a node that a line was closed. If the packet is lost, the node notices with
// its next message or probe, or when this node becomes silent.
func (b *Bus) sendBroken(node string, id lineID) {
	if node != "" {
		_ = b.node.publish(nodeSubject(node), &packet{kind: packetBroken, line: id})
	}
}

// endAll closes the lines of an address of this node.
func (b *Bus) endAll(local string, why error, notify notifyMode) {
	b.mu.RLock()
	var over []*line
	for l := range b.ends[local] {
		if l.local == local {
			over = append(over, l)
		}
	}
	b.mu.RUnlock()
	for _, l := range over {
		b.end(l, why, notify)
	}
}

// validAddress reports whether an address can be part of a subject.
func validAddress(address string) bool {
	if address == "" || len(address) > maxAddress || strings.HasPrefix(address, ".") || strings.HasSuffix(address, ".") || strings.Contains(address, "..") {
		return false
	}
	return !strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == '*' || r == '>' || r >= 0x7f })
}
