package faultproxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// link is one connection with its two sides. One goroutine per direction forwards the bytes. The
// goroutine that reaches a fault executes it.
type link struct {
	p              *Proxy
	n              int // its number
	plan           Conn
	client, server *net.TCPConn

	once sync.Once
	over chan struct{} // closed when the link has ended
}

// run forwards both directions until they have ended.
func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(func() { l.routinePump(Up, l.client, l.server) })
	wg.Go(func() { l.routinePump(Down, l.server, l.client) })
	wg.Wait()
	l.end()
	_ = l.client.Close()
	_ = l.server.Close()
}

// end records that the link ends. It reports whether this call ended it.
func (l *link) end() (first bool) {
	l.once.Do(func() {
		close(l.over)
		first = true
	})
	return first
}

// reset ends the link by resetting both sides. It does not wait.
func (l *link) reset() {
	l.end()
	reset(l.client)
	reset(l.server)
}

// routinePump forwards one direction: the bytes up to the next fault, then the fault, and so on.
func (l *link) routinePump(dir Direction, from, to *net.TCPConn) {
	rng := rand.New(rand.NewPCG(l.p.plan.Seed, uint64(l.n)<<1|uint64(dir)))
	buf := make([]byte, readSize)
	sent := int64(0)
	for _, f := range l.plan.Faults {
		if f.Dir != dir {
			continue
		}
		for sent < f.After {
			n, err := from.Read(buf[:min(int64(len(buf)), f.After-sent)])
			sent += int64(n)
			if !l.pass(dir, rng, to, buf[:n]) || !l.ended(to, err) {
				return
			}
		}
		if !l.carryOut(f, to) {
			return
		}
	}
	for {
		n, err := from.Read(buf)
		if !l.pass(dir, rng, to, buf[:n]) || !l.ended(to, err) {
			return
		}
	}
}

// ended handles an error or the end of the data. It reports whether the direction has ended.
func (l *link) ended(to *net.TCPConn, err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		_ = to.CloseWrite()
	default:
		l.broken()
	}
	return false
}

// broken forwards an error of one side to the other side, unless a planned fault has caused the
// error.
func (l *link) broken() {
	select {
	case <-l.over:
	default:
		l.reset()
	}
}

// pass writes the data that was read, with the planned delay and in the planned pieces. It reports
// whether the link continues.
func (l *link) pass(dir Direction, rng *rand.Rand, to *net.TCPConn, data []byte) bool {
	if len(data) > 0 && !l.wait(l.plan.Delay) {
		return false
	}
	for len(data) > 0 {
		n := len(data)
		if most := min(l.plan.Pieces, n); most > 0 {
			n = 1 + rng.IntN(most)
		}
		written, err := to.Write(data[:n])
		l.p.count(func(s *Stats) {
			if dir == Up {
				s.Up += int64(written)
			} else {
				s.Down += int64(written)
			}
		})
		if err != nil {
			l.broken()
			return false
		}
		data = data[n:]
	}
	return true
}

// wait waits for d. It returns false if the link has ended meanwhile.
func (l *link) wait(d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// carryOut executes a fault. to is the destination of the fault's direction. It reports whether the
// direction continues.
func (l *link) carryOut(f Fault, to *net.TCPConn) bool {
	if f.Kind == Stall {
		l.p.count(func(s *Stats) { s.Stalls++ })
		l.tell(f)
		return l.wait(f.For)
	}
	if l.end() {
		l.p.count(func(s *Stats) { s.Faults++ })
		l.strike(f, to)
	}
	return false
}

// strike executes a fault that ends the link.
func (l *link) strike(f Fault, to *net.TCPConn) {
	switch f.Kind {
	case Close:
		_ = l.client.Close()
		_ = l.server.Close()
		l.tell(f)
	case Reset:
		reset(l.client)
		reset(l.server)
		l.tell(f)
	case ResetClient:
		reset(l.client)
		l.linger(f, func() { reset(l.server) })
	case ResetServer:
		reset(l.server)
		l.linger(f, func() { reset(l.client) })
	case HalfClose:
		_ = to.CloseWrite()
		l.linger(f, func() {
			_ = l.client.Close()
			_ = l.server.Close()
		})
	}
}

// linger keeps open, for the fault's time, the direction that a fault has not ended.
func (l *link) linger(f Fault, then func()) {
	l.tell(f)
	timer := time.NewTimer(f.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.p.ctx.Done():
	}
	then()
}

func (l *link) tell(f Fault) {
	if l.p.plan.OnFault != nil {
		l.p.plan.OnFault(l.n, f)
	}
}
