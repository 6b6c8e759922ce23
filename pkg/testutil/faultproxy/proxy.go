// Package faultproxy is a TCP proxy for tests that disturbs connections like a bad network, but
// according to a plan. The same plan has the same effect on the same bytes.
//
//	p, err := faultproxy.New(ctx, server.Addr().String(), faultproxy.Plan{Conns: []faultproxy.Conn{
//		{Faults: []faultproxy.Fault{{Kind: faultproxy.Reset, Dir: faultproxy.Down, After: 5000}}},
//		{Refuse: true},
//	}})
//	...
//	defer p.Close()
//	client, err := net.Dial("tcp", p.Addr())
//
// Like TCP, it does not lose, add or reorder bytes within a connection: only bytes in flight when
// a connection ends are lost.
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Stats counts the connections and faults of a proxy.
type Stats struct {
	Conns    int   // connections made, except refused ones
	Refused  int   // reset as soon as they were made, by plan or because the target was missing
	Faults   int   // planned faults that have happened, except stalls
	Stalls   int   // likewise
	Up, Down int64 // bytes passed on
}

// Proxy forwards connections to a target. Its methods may be called from any goroutine. It has one
// goroutine that accepts, one per connection and one per direction. Close waits for all of them.
type Proxy struct {
	plan   Plan
	l      *net.TCPListener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	target string
	stats  Stats
	links  map[*link]struct{}
}

// New starts a proxy on a free port of 127.0.0.1 that forwards connections to target, a HOST:PORT.
// The proxy ends with ctx or Close.
func New(ctx context.Context, target string, plan Plan) (*Proxy, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy of %s: %w", target, err)
	}
	p := &Proxy{target: target, plan: plan, l: l, links: make(map[*link]struct{})}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.wg.Go(p.routineAccept)
	p.wg.Go(p.routineInterrupt)
	return p, nil
}

// Addr returns the address on which the proxy listens, as HOST:PORT.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Stats returns the numbers so far.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// SetTarget makes the proxy forward later connections to another target, a HOST:PORT.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Cut resets both sides of every current connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Close stops listening, resets all connections and waits until they have ended.
func (p *Proxy) Close() {
	p.cancel()
	p.wg.Wait()
}

// routineInterrupt ends everything when the context ends.
func (p *Proxy) routineInterrupt() {
	<-p.ctx.Done()
	_ = p.l.Close()
	p.Cut()
}

// routineAccept accepts connections until the listener is closed.
func (p *Proxy) routineAccept() {
	for n := 0; ; n++ {
		client, err := p.l.AcceptTCP()
		if err != nil {
			return
		}
		var c Conn
		if n < len(p.plan.Conns) {
			c = p.plan.Conns[n]
		}
		if c.Refuse {
			p.refuse(client)
			continue
		}
		p.wg.Go(func() { p.serve(n, c, client) })
	}
}

func (p *Proxy) refuse(client *net.TCPConn) {
	reset(client)
	p.count(func(s *Stats) { s.Refused++ })
}

// serve forwards one connection until it ends.
func (p *Proxy) serve(n int, c Conn, client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		p.refuse(client)
		return
	}
	l := &link{p: p, n: n, plan: c, client: client, server: conn.(*net.TCPConn), over: make(chan struct{})}
	p.mu.Lock()
	p.stats.Conns++
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		l.reset() // the interrupt may have come before it was known
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) count(f func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.stats)
}

// reset closes a connection so that its peer gets an RST.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
