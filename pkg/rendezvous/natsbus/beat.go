package natsbus

import (
	"context"
	"time"
)

// routineBeats says that the node lives, and finds those that do not.
func (b *Bus) routineBeats(ctx context.Context) {
	beat, claims := time.NewTicker(beatInterval), time.NewTicker(claimInterval)
	defer beat.Stop()
	defer claims.Stop()
	for {
		// An error means that NATS is out of reach; then the others find this
		// node silent, and it them.
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

// findSilent ends the lines to nodes that are silent.
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
		b.lose(node, errSilent)
	}
}

// probe asks for what was not confirmed, and ends lines on which that is lost.
func (b *Bus) probe(now time.Time) {
	for _, l := range b.all() {
		number, node, err := l.check(now)
		if err != nil {
			b.end(l, err, tellBoth)
		}
		if number > 0 {
			// If it is lost the next one comes with the next beat.
			_ = b.node.publish(nodeSubject(node), &packet{kind: packetProbe, line: l.id, number: number})
		}
	}
}

// findHalfOpen probes all lines: where one has ended without this node having
// heard of it, the other node says so. Otherwise it would be noticed only by who
// sends.
func (b *Bus) findHalfOpen() {
	for _, l := range b.all() {
		if number, node, ok := l.went(); ok {
			_ = b.node.publish(nodeSubject(node), &packet{kind: packetProbe, line: l.id, number: number})
		}
	}
}

// catchUp asks for what may have been lost when NATS was out of reach, and
// whether what was sent has come.
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

// touch notes that a line may have something to report; urgent: a sender may be
// waiting for it.
func (b *Bus) touch(l *line, urgent bool) {
	b.ackMu.Lock()
	b.dirty[l] = struct{}{}
	b.ackMu.Unlock()
	signal(b.acks)
	if urgent {
		signal(b.urgent)
	}
}

// routineAcks tells other nodes what has come from them, for many messages at a
// time.
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

// sendReports sends what there is to report.
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

// sendAcks sends acknowledgements. Those that are lost are asked for.
func (b *Bus) sendAcks(node string, acks []ack) {
	_ = b.node.publish(nodeSubject(node), &packet{kind: packetAck, acks: acks})
}
