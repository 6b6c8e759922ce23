package recovery

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// balancer forwards each connection to a randomly chosen node that listens. It has one goroutine
// that accepts and two for each connection. close waits for them.
type balancer struct {
	l      *net.TCPListener
	nodes  []string // addresses as HOST:PORT
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand
	taken []int // number of connections, by node
}

func newBalancer(ctx context.Context, seed uint64, nodes []string) (*balancer, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen for %v: %w", nodes, err)
	}
	b := &balancer{l: l, nodes: nodes, rng: rand.New(rand.NewPCG(seed, 6)), taken: make([]int, len(nodes))}
	b.ctx, b.cancel = context.WithCancel(ctx)
	context.AfterFunc(b.ctx, func() { _ = l.Close() })
	b.wg.Go(b.routineAccept)
	return b, nil
}

func (b *balancer) addr() string { return b.l.Addr().String() }

func (b *balancer) close() {
	b.cancel()
	b.wg.Wait()
}

// connections returns the number of connections that each node has got so far.
func (b *balancer) connections() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]int(nil), b.taken...)
}

// routineAccept accepts connections until the listener is closed.
func (b *balancer) routineAccept() {
	for {
		client, err := b.l.AcceptTCP()
		if err != nil {
			return
		}
		b.wg.Go(func() { b.serve(client) })
	}
}

// serve forwards one connection until one side of it ends.
func (b *balancer) serve(client net.Conn) {
	defer client.Close()
	node := b.dial()
	if node == nil {
		return
	}
	defer node.Close()
	stop := context.AfterFunc(b.ctx, func() {
		_ = client.Close()
		_ = node.Close()
	})
	defer stop()
	var up sync.WaitGroup
	up.Go(func() { pour(node, client) })
	pour(client, node)
	up.Wait()
}

// pour copies data to its end and then closes both connections: nodes and clients do not half-close.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

// dial connects to any node that listens. It returns nil if no node does.
func (b *balancer) dial() net.Conn {
	b.mu.Lock()
	order := b.rng.Perm(len(b.nodes))
	b.mu.Unlock()
	dialer := net.Dialer{Timeout: time.Second}
	for _, i := range order {
		node, err := dialer.DialContext(b.ctx, "tcp", b.nodes[i])
		if err == nil {
			b.mu.Lock()
			b.taken[i]++
			b.mu.Unlock()
			return node
		}
	}
	return nil
}
