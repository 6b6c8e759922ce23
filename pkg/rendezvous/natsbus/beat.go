package natsbus

import (
	"context"
	"time"

	"codex.internal/pkg/internal/wait"
)

// routineBeats sends the node's heartbeats until ctx ends, and detects silent nodes and lines that
// make no progress.
func (b *Bus) routineBeats(ctx context.Context) {
	beat, claims := time.NewTicker(beatInterval), time.NewTicker(claimInterval)
	defer beat.Stop()
	defer claims.Stop()
	for {
		// An error means that NATS cannot be reached. Each node then notices that the others are
		// silent.
		_ = b.node.publish(allSubject, &packet{kind: packetBeat})
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case <-claims.C:
			_ = b.claimAll()
			b.findHalfOpen()
		case <-b.node.again:
			_ = b.claimAll()
			b.catchUp()
		}
		b.findSilent(time.Now())
		b.probe(time.Now())
	}
}

// findSilent closes the lines to nodes that have sent nothing for longer than silence.
func (b *Bus) findSilent(now time.Time) {
	var lost []string
	b.mu.Lock()
	for node, heard := range b.nodes {
		if now.Sub(heard) > silence {
			lost = append(lost, node)
		}
	}
	b.mu.Unlock()
	for _, node := range lost {
		lines := b.dropNode(node, errSilent)
		b.mu.RLock()
		left := len(b.nodes)
		b.mu.RUnlock()
		b.node.log.Warn("a node is silent", "node", node, "lines_broken", lines, "other_nodes", left)
	}
}

// probe asks the other nodes to acknowledge messages that have waited for it too long,
// and closes lines that make no progress.
func (b *Bus) probe(now time.Time) {
	for _, l := range b.all() {
		number, node, err := l.check(now)
		if err != nil {
			b.end(l, err, notifyBoth)
		}
		if number > 0 {
			// If this packet is lost, the next heartbeat sends another.
			_ = b.node.publish(nodeSubject(node), &packet{kind: packetProbe, line: l.id, number: number})
		}
	}
}

// findHalfOpen probes all lines. If another node has closed a line and its packet was lost, the
// probe detects that, even if this node has no message to send on the line.
func (b *Bus) findHalfOpen() {
	for _, l := range b.all() {
		if number, node, ok := l.lastSent(); ok {
			_ = b.node.publish(nodeSubject(node), &packet{kind: packetProbe, line: l.id, number: number})
		}
	}
}

// catchUp is called after a reconnection to NATS. It asks the other nodes to retransmit messages
// that may have been lost meanwhile, and to acknowledge the messages of this node.
func (b *Bus) catchUp() {
	for _, l := range b.all() {
		b.ask(l)
		if number, node := l.unconfirmed(); number > 0 {
			_ = b.node.publish(nodeSubject(node), &packet{kind: packetProbe, line: l.id, number: number})
		}
	}
}

// all returns the lines that are open.
func (b *Bus) all() []*line {
	b.mu.RLock()
	defer b.mu.RUnlock()
	lines := make([]*line, 0, len(b.lines))
	for _, l := range b.lines {
		lines = append(lines, l)
	}
	return lines
}

// markDirty records that a line may have an acknowledgement to send. It is sent after
// ackDelay, or at once if it is urgent: the sender's window may be full.
func (b *Bus) markDirty(l *line, urgent bool) {
	b.ackMu.Lock()
	b.dirty[l] = struct{}{}
	b.ackMu.Unlock()
	wait.Wake(b.acks)
	if urgent {
		wait.Wake(b.urgent)
	}
}

// routineAcks sends acknowledgements until ctx ends, each for many messages.
func (b *Bus) routineAcks(ctx context.Context) {
	timer := time.NewTimer(ackDelay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.acks:
		}
		timer.Reset(ackDelay)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-b.urgent:
		}
		b.sendReports()
	}
}

// sendReports sends the acknowledgements of all lines that are marked as dirty.
func (b *Bus) sendReports() {
	b.ackMu.Lock()
	dirty := b.dirty
	b.dirty = make(map[*line]struct{})
	b.ackMu.Unlock()
	reports := make(map[string][]ack)
	for l := range dirty {
		a, node, ok := l.report(false)
		if !ok {
			continue
		}
		reports[node] = append(reports[node], a)
		if len(reports[node]) == acksPerPacket {
			b.sendAcks(node, reports[node])
			delete(reports, node)
		}
	}
	for node, acks := range reports {
		b.sendAcks(node, acks)
	}
}

// sendAcks sends acknowledgements. If one is lost, a probe requests it again.
func (b *Bus) sendAcks(node string, acks []ack) {
	_ = b.node.publish(nodeSubject(node), &packet{kind: packetAck, acks: acks})
}
