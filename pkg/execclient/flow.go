package execclient

import (
	"time"

	"codex.internal/pkg/execproto"
)

// Flow control. A server that supports it stops reading a process's output while the
// output is a window ahead of what this client has acknowledged. So a slow consumer
// blocks its process, and no output is dropped while the connection is lost.
//
// The client acknowledges the events that all followers of the process have taken.
// A process without followers has its output acknowledged up to the number that
// process/read was last called with, or all of it if Wait is called: then the output
// is not wanted.

// maybeAck sends an acknowledgement if ackEvery bytes have been consumed since the
// last one, or an unknown number of bytes.
func (p *Process) maybeAck() {
	p.mu.Lock()
	seq, end, exact := p.consumed()
	due := p.windowed && p.err == nil && !p.closed && seq > p.acked && (!exact || end-p.ackedEnd >= ackEvery)
	if due {
		p.acked = seq
		if exact {
			p.ackedEnd = end
		}
	}
	p.mu.Unlock()
	if due {
		p.sendAck(seq)
	}
}

// repeatAck repeats the last acknowledgement on a new connection.
func (p *Process) repeatAck() {
	p.mu.Lock()
	seq := p.acked
	due := p.windowed && seq > 0 && p.err == nil
	p.mu.Unlock()
	if due {
		p.sendAck(seq)
	}
}

// sendAck queues an acknowledgement and does not wait until it is sent. If it is lost
// with its connection, repeatAck sends it on the next.
func (p *Process) sendAck(seq uint64) {
	p.c.mu.Lock()
	l := p.c.link
	p.c.mu.Unlock()
	l.queueAck(execproto.ProcessAck{ProcessID: p.id, Seq: seq})
}

// consumed returns the number of the last event that is not needed any more, and the
// bytes of output up to its end, which are known if exact is set. The caller holds mu.
func (p *Process) consumed() (seq, end uint64, exact bool) {
	switch {
	case p.released:
		return ackAll, 0, false
	case len(p.followers) == 0 && p.unwanted:
		return p.last, p.total, true
	case len(p.followers) == 0:
		return p.readThrough, 0, false
	}
	seq = ackAll
	for f := range p.followers {
		f.skip()
		if f.at < seq {
			seq, end, exact = f.at, f.end, f.exact
		}
	}
	switch {
	case seq == p.last:
		return seq, p.total, true
	case !exact:
		return 0, 0, true // later, when the rest is consumed too
	default:
		return seq, end, true
	}
}

// skip passes over output that the follower does not want. The lock is held.
func (f *follower) skip() {
	if f.only == nil || len(f.refetched) > 0 {
		return
	}
	p := f.p
	for f.at < p.last && len(p.log) > 0 && f.at+1 >= p.log[0].Seq {
		e := p.log[f.at+1-p.log[0].Seq]
		if e.Kind != Output || f.only(e.Stream) {
			return
		}
		f.at, f.end, f.exact = e.Seq, e.end, true
	}
}

// waitForRoom holds up the reader of the connection while an event of n bytes is
// awaited. It ends when the consumer has taken nothing for stallTime, so that a
// consumer which has stopped does not stop the others. The lock is held, and
// given up meanwhile.
func (p *Process) waitForRoom(n int) {
	var timer *time.Timer
	steps := 0
	for p.err == nil && p.awaited(n) {
		if p.room == nil {
			p.room = make(chan struct{})
		}
		room := p.room
		if timer == nil {
			timer = time.NewTimer(stallTime / stallSteps)
			defer timer.Stop()
		} else {
			timer.Reset(stallTime / stallSteps)
		}
		p.mu.Unlock()
		stalled := false
		select {
		case <-room:
			steps = 0
		case <-timer.C:
			steps++
			stalled = steps >= stallSteps
		case <-p.c.done:
			stalled = true
		}
		p.mu.Lock()
		for f := range p.followers {
			f.stalled = f.stalled || stalled
		}
		p.unclaimed = p.unclaimed && !stalled
	}
}

// awaited reports whether the log would drop what somebody who is at work is
// about to take, to have room for an event of n bytes. That matters for servers
// without flow control only, which retain little and would lose it for good. Who
// has just started the process is about to follow it from its first event, if at
// all. The lock is held.
func (p *Process) awaited(n int) bool {
	if p.windowed {
		return false
	}
	dropped := p.excess(n)
	if dropped == 0 {
		return false
	}
	first, last := p.log[0].Seq, p.log[dropped-1].Seq
	if p.unclaimed && first == 1 {
		return true
	}
	for f := range p.followers {
		f.skip()
		if next := f.at + 1; !f.stalled && first <= next && next <= last {
			return true
		}
	}
	return false
}

// claim notes that somebody has said what is wanted of the process. The lock is
// held.
func (p *Process) claim() {
	if p.unclaimed {
		p.unclaimed = false
		p.moved()
	}
}

// moved tells who waits for room that a consumer has taken something. The lock
// is held.
func (p *Process) moved() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}
