package natsbus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"codex.internal/pkg/rendezvous"
)

// receive handles a packet that another node sent to this one or to all. It never
// waits.
func (b *Bus) receive(m *nats.Msg) {
	p, err := decodePacket(m.Data)
	if err != nil {
		b.node.log.Warn("packet dropped", "subject", m.Subject, "error", err)
		return
	}
	if p.node == b.node.id {
		return // a packet to all nodes, this one among them
	}
	switch p.kind {
	case packetBeat:
		b.markAlive(p.node)
	case packetBye:
		b.dropNode(p.node, errClosed)
	case packetClaim:
		b.claimed(&p)
	case packetAck:
		now := time.Now()
		for _, a := range p.acks {
			if l := b.line(a.line); l != nil {
				b.check(l, l.acked(a, now))
			}
		}
	case packetData, packetProbe, packetAgain, packetBroken:
		b.receiveForLine(&p)
	default:
		b.node.log.Warn("packet dropped", "subject", m.Subject, "kind", p.kind)
	}
}

// receiveForLine handles a packet of one line.
func (b *Bus) receiveForLine(p *packet) {
	l := b.line(p.line)
	if p.kind == packetBroken {
		if l != nil && l.answered(p.node) {
			b.end(l, errBroken, notifyLocal)
		}
		return
	}
	if l == nil || !l.answered(p.node) {
		b.sendBroken(p.node, p.line)
		return
	}
	switch p.kind {
	case packetData:
		missing, err := l.take(p.number, p.message)
		if missing {
			b.ask(l)
		}
		b.check(l, err)
	case packetAgain:
		b.check(l, l.sendAgain(p.number, time.Now()))
	case packetProbe:
		if last, _, _ := l.lastReceived(); last < p.number {
			b.ask(l)
		} else if a, node, ok := l.report(true); ok {
			b.sendAcks(node, []ack{a})
		}
	}
}

// ask requests a retransmission of the messages after the last one that was received in order. If
// the request is lost, the next probe repeats it.
func (b *Bus) ask(l *line) {
	if last, node, ok := l.lastReceived(); ok {
		_ = b.node.publish(nodeSubject(node), &packet{kind: packetAgain, line: l.id, number: last})
	}
}

// line returns the line with an id, or nil.
func (b *Bus) line(id lineID) *line {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.lines[id]
}

// check closes a line if err is not nil.
func (b *Bus) check(l *line, err error) {
	if err != nil {
		b.end(l, err, notifyBoth)
	}
}

// markAlive records that a packet of a node has just arrived.
func (b *Bus) markAlive(node string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[node] = now
}

// alive reports whether a packet of a node arrived within the last silence period.
func (b *Bus) alive(node string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return node == b.node.id || time.Since(b.nodes[node]) < silence
}

// claimed handles the claim of another node for an address. If this node has bound the address with
// an older generation, it gives up the address; with a newer generation it answers with its own
// claim. Lines to the address at a third node are closed.
func (b *Bus) claimed(p *packet) {
	b.mu.Lock()
	bound := b.bound[p.to]
	replaced := bound != nil && bound.generation < p.number
	if replaced {
		b.release(p.to, bound)
	}
	var over []*line
	for l := range b.ends[p.to] {
		if l.remote == p.to && l.leadsElsewhere(p.node, p.number) {
			over = append(over, l)
		}
	}
	b.mu.Unlock()
	for _, l := range over {
		b.end(l, errMoved, notifyBoth)
	}
	switch {
	case replaced:
		b.yield(p.to, bound.box)
	case bound != nil && bound.generation > p.number:
		// If this packet is lost, the node gets the claim with the next round of claims.
		_ = b.node.publish(nodeSubject(p.node), &packet{kind: packetClaim, to: p.to, number: bound.generation})
	}
}

// leadsElsewhere reports whether the line leads to a node that had the remote address before the
// given node bound it with the given generation.
func (l *line) leadsElsewhere(node string, generation uint64) bool {
	l.peerMu.Lock()
	defer l.peerMu.Unlock()
	return l.node != "" && l.node != node && l.generation < generation
}

// yield closes the mailbox of an address that another node has bound later, and notifies the other
// ends of its lines.
func (b *Bus) yield(address string, box *rendezvous.Mailbox) {
	for _, m := range box.Close(rendezvous.ErrReplaced) {
		if m.Done != nil {
			m.Done()
		}
		if b.local.Mailbox(m.From) != nil {
			_, _ = b.local.Send(canceled, m.From, rendezvous.Message{Kind: rendezvous.Gone, From: address})
		}
	}
	b.local.Unbind(address, box)
	b.endAll(address, errMoved, notifyRemote)
}

// dropNode closes all lines to a node, and returns their number.
func (b *Bus) dropNode(node string, why error) int {
	b.mu.Lock()
	delete(b.nodes, node)
	var over []*line
	for _, l := range b.lines {
		if l.peer() == node {
			over = append(over, l)
		}
	}
	b.mu.Unlock()
	for _, l := range over {
		b.end(l, why, notifyBoth)
	}
	return len(over)
}

// endEverything closes all lines.
func (b *Bus) endEverything(why error) {
	for _, l := range b.all() {
		b.end(l, why, notifyLocal)
	}
}

// routineCalls answers the requests to addresses of this node, and to itself.
func (b *Bus) routineCalls(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-b.node.calls:
			b.answer(m)
		}
	}
}

// answer answers a request.
func (b *Bus) answer(m *nats.Msg) {
	p, err := decodePacket(m.Data)
	if err != nil {
		b.node.log.Warn("request dropped", "subject", m.Subject, "error", err)
		return
	}
	reply := packet{kind: packetRefuse, node: b.node.id}
	switch p.kind {
	case packetBroken:
		b.receiveForLine(&p)
		return
	case packetSpend:
		if b.node.State.spent.Spend(p.to, time.Unix(int64(p.number), 0).Add(clockSkew)) {
			reply.kind = packetAccept
		}
	case packetQuestion:
		if answer := b.answers.Load(); answer != nil {
			reply.kind, reply.data = packetAnswer, (*answer)(p.to)
		}
	case packetPing, packetOpen:
		address := strings.TrimPrefix(m.Subject, addressSubject(""))
		b.mu.RLock()
		bound := b.bound[address]
		b.mu.RUnlock()
		if bound != nil && (p.kind == packetPing || p.to == address && b.accept(&p, bound)) {
			reply.kind, reply.number = packetAccept, bound.generation
		}
	}
	// If the answer is lost, the other node repeats the request.
	_ = m.Respond(reply.append(nil))
}

// accept opens a line that another node requests. If the request is a repetition, the line exists
// already.
func (b *Bus) accept(p *packet, bound *binding) bool {
	if l := b.line(p.line); l != nil {
		return l.peer() == p.node
	}
	l := b.newLine(p.line, p.to, p.from, bound.box)
	l.node = p.node
	b.add(l)
	b.markAlive(p.node) // after it, so that it is found if the node is lost
	if _, err := l.take(1, p.message); err != nil {
		b.end(l, err, notifyNone)
		return false
	}
	return true
}
