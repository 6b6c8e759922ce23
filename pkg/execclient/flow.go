package execclient

import (
	"time"

	"codex.internal/pkg/execproto"
)

// Flow control. A server with flow control stops reading a process's output when the output is
// a window ahead of this client's acknowledgements. So a slow consumer blocks its process, and
// no output is dropped while the connection is lost.
//
// The client acknowledges the events that all followers of the process have consumed. Without
// followers, it acknowledges the output up to the number in the last process/read, or all
// output if Wait is called: then the output is not wanted.

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

// sendAck queues an acknowledgement without waiting until it is sent. If it is lost with its
// connection, repeatAck sends it on the next one.
func (p *Process) sendAck(seq uint64) {
	p.c.mu.Lock()
	l := p.c.link
	p.c.mu.Unlock()
	l.queueAck(execproto.ProcessAck{ProcessID: p.id, Seq: seq})
}

// consumed returns the number of the last event that is not needed any more, and the output
// bytes up to its end. exact reports whether the number of bytes is known. The lock is held.
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
		return 0, 0, true // acknowledge later, when the rest is consumed too
	default:
		return seq, end, true
	}
}

// skip skips output that the follower does not want. The lock is held.
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

// waitForRoom blocks the reader of the connection while an event of n bytes is awaited. It
// ends when the consumer has taken nothing for stallTime, so that a stopped consumer does not
// block others. The caller holds the lock, which waitForRoom releases while it waits.
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

// awaited reports whether the log, to have space for an event of n bytes, would drop an event
// that an active follower is about to take. It matters only for servers without flow control,
// which retain little, so that the event would be lost. The caller of Start counts as active,
// because it probably follows the process from the first event. The lock is held.
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

// claim records that the caller of Start has made its first request for events. The lock is
// held.
func (p *Process) claim() {
	if p.unclaimed {
		p.unclaimed = false
		p.moved()
	}
}

// moved wakes waitForRoom after a consumer has taken an event. The lock is held.
func (p *Process) moved() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}
