package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// socketBytes is the number of bytes that one direction of a connection holds before a write
// blocks, like the buffers of sockets.
const socketBytes = 64 << 10

// dice returns a separate random source for each purpose, so that the random numbers of one
// goroutine do not depend on another goroutine.
func dice(seed uint64, purpose string, n int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", purpose, n)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// ids generates the ids of a run.
type ids struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (r *ids) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return len(b), nil
}

// between returns a random duration with a resolution of nanoseconds. So hardly two events happen
// at the same time, and fewer decisions are left to the scheduler.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

// network connects dialers with listeners. It disturbs the connections until settle is called.
type network struct {
	seed uint64
	note func(format string, args ...any)
	sent func(direction string, data []byte)

	mu      sync.Mutex
	calm    bool
	dialed  map[string]int
	targets map[string]*listener
	timers  []*time.Timer
	open    map[*end]bool
	made    []*end
	stopped chan struct{} // closed by stop
}

func newNetwork(seed uint64, h *history) *network {
	return &network{
		seed: seed, note: h.note, sent: h.packet, dialed: make(map[string]int), targets: make(map[string]*listener), open: make(map[*end]bool),
		stopped: make(chan struct{}),
	}
}

// listen returns a new listener for an address. It replaces the previous one.
func (n *network) listen(address string) *listener {
	l := &listener{n: n, address: address, queue: make(chan net.Conn, 64), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.targets[address] = l
	return l
}

// settle ends all disturbances. Later connections do not break.
func (n *network) settle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calm = true
}

// disturb begins the disturbances again.
func (n *network) disturb() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calm = false
}

// stop ends all connections and dials of the network.
func (n *network) stop() {
	close(n.stopped)
	time.Sleep(time.Second) // meanwhile dials for which no caller waits end
	n.mu.Lock()
	timers := n.timers
	n.timers = nil
	n.mu.Unlock()
	for _, t := range timers {
		t.Stop()
	}
	n.breakAll()
}

// dialer returns the function with which a party makes connections.
func (n *network) dialer(party string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, party, address) }
}

// within is like dialer, with an upper bound for the time of a dial, for callers that set no bound themselves.
func (n *network) within(bound time.Duration, party string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		return n.dial(ctx, party, address)
	}
}

func (n *network) dial(ctx context.Context, party, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed[party]++
	number, calm := n.dialed[party], n.calm
	n.mu.Unlock()
	rng := dice(n.seed, "dial "+party, number)
	if err := sleep(ctx, between(rng, 50*time.Microsecond, 30*time.Millisecond)); err != nil {
		return nil, err
	}
	if !calm && rng.IntN(6) == 0 {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if !calm && rng.IntN(12) == 0 {
		// The other end never answers. net/http continues to dial after its request has
		// ended.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-n.stopped:
			return nil, net.ErrClosed
		}
	}
	n.mu.Lock()
	l := n.targets[address]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if !calm && rng.IntN(8) == 0 {
		n.stray(rng, l) // this is a duplicate connection without data
	}
	name := fmt.Sprintf("%s#%d", party, number)
	c := n.connect(name, rng, l)
	if c == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if !calm {
		if rng.IntN(6) == 0 {
			c.twin = &twin{n: n, address: address, rng: dice(n.seed, "twin "+party, number)}
		}
		n.doom(c, rng)
	}
	return c, nil
}

// connect makes a connection. It returns nil if the listener is closed.
func (n *network) connect(name string, rng *rand.Rand, l *listener) *end {
	slow := between(rng, 20*time.Microsecond, 5*time.Millisecond)
	if rng.IntN(5) == 0 {
		slow = between(rng, 20*time.Millisecond, 200*time.Millisecond)
	}
	up := newWire(rng.Uint64(), slow, n.watch(name+" sends"))
	down := newWire(rng.Uint64(), slow, n.watch(name+" gets"))
	client := &end{n: n, name: name, in: down, out: up}
	server := &end{n: n, name: name, in: up, out: down}
	client.other, server.other = server, client
	if !l.offer(server) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[client], n.open[server] = true, true
	n.made = append(n.made, client, server)
	return client
}

// watch returns a function that must be called with the bytes that one direction of a connection
// accepts.
func (n *network) watch(direction string) func(data []byte) {
	return func(data []byte) { n.sent(direction, data) }
}

// stray makes a connection on which only a part of a request arrives.
func (n *network) stray(rng *rand.Rand, l *listener) {
	const request = "GET / HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	c := n.connect("stray", rng, l)
	if c == nil {
		return
	}
	_, _ = c.Write([]byte(request[:rng.IntN(len(request))]))
	n.after(between(rng, time.Millisecond, 20*time.Second), func() { _ = c.Close() })
}

// doom decides whether and how a connection ends.
func (n *network) doom(c *end, rng *rand.Rand) {
	life := between(rng, time.Millisecond, 4*time.Second)
	if rng.IntN(3) == 0 {
		life = between(rng, time.Millisecond, 80*time.Millisecond)
	}
	switch rng.IntN(8) {
	case 0, 1: // the connection stays, or ends with the quiet phase
		return
	case 2, 3, 4:
		n.after(life, func() { n.cut(c, "reset", func() { c.abort(syscall.ECONNRESET); c.other.abort(syscall.ECONNRESET) }) })
	case 5:
		n.after(life, func() { n.cut(c, "silence", func() { c.out.silence(); c.in.silence(); n.giveUp(c) }) })
	case 6:
		n.after(life, func() {
			n.cut(c, "half-open", func() { c.abort(syscall.ECONNRESET); c.in.silence(); c.out.silence(); n.giveUp(c) })
		})
	case 7:
		pause := between(rng, 100*time.Millisecond, 8*time.Second)
		n.after(life, func() { n.cut(c, "stall", func() { c.out.stall(pause); c.in.stall(pause) }) })
	}
}

// keepAlive is the time after which the kernel gives up a silent connection, as configured by
// net.Dialer and net.ListenConfig: 15 s, and nine probes at the same interval.
const keepAlive = 150 * time.Second

// giveUp simulates the keep-alive of each end's kernel, which detects a silent connection. A
// harness that behaves like Codex CLI has no other way to detect one, because it sends no probes.
func (n *network) giveUp(c *end) {
	n.after(keepAlive, func() { c.abort(syscall.ETIMEDOUT); c.other.abort(syscall.ETIMEDOUT) })
}

func (n *network) cut(c *end, how string, f func()) {
	n.mu.Lock()
	alive := n.open[c]
	n.mu.Unlock()
	if alive {
		n.note("network %s: %s", c.name, how)
		f()
	}
}

// after calls f later, unless the network is stopped before.
func (n *network) after(d time.Duration, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timers = append(n.timers, time.AfterFunc(d, f))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listener is one address of a network.
type listener struct {
	n       *network
	address string
	queue   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// offer queues a connection. It returns false if the listener is closed or the queue is full. If
// the listener is closed and its queue has space, a select chooses one of the two at random.
func (l *listener) offer(c *end) bool {
	select {
	case <-l.closed:
		return false
	default:
	}
	select {
	case l.queue <- c:
		return true
	default:
		return false
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also resets the connections that were not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				c.(*end).abort(syscall.ECONNRESET)
				c.(*end).other.abort(syscall.ECONNRESET)
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

type address string

func (a address) Network() string { return "simulated" }
func (a address) String() string  { return string(a) }

// end is one end of a connection. It implements net.Conn.
type end struct {
	n       *network
	name    string
	in, out *wire
	other   *end
	twin    *twin // may be nil
}

func (e *end) Read(b []byte) (int, error) { return e.in.read(b) }

func (e *end) Write(b []byte) (int, error) {
	e.twin.copy(b)
	return e.out.write(b)
}

func (e *end) LocalAddr() net.Addr  { return address(e.name) }
func (e *end) RemoteAddr() net.Addr { return address(e.name) }

func (e *end) Close() error {
	e.n.mu.Lock()
	delete(e.n.open, e)
	e.n.mu.Unlock()
	e.out.finish()
	e.in.abandon()
	return nil
}

// abort makes this end fail with err. The other end gets no notification.
func (e *end) abort(err error) {
	e.in.fail(err, true)
	e.out.fail(err, false)
}

func (e *end) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}
func (e *end) SetReadDeadline(t time.Time) error  { e.in.deadline(t, true); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { e.out.deadline(t, false); return nil }

// replace makes l the listener of an address, and returns the previous one. l may be nil.
func (n *network) replace(address string, l *listener) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.targets[address]
	n.targets[address] = l
	return before
}

// breakAll resets every connection, the oldest first.
func (n *network) breakAll() { n.breakThose("") }

// breakThose resets the connections of the parties whose names have a prefix.
func (n *network) breakThose(prefix string) {
	n.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(n.made), func(e *end) bool { return !n.open[e] || !strings.HasPrefix(e.name, prefix) })
	n.mu.Unlock()
	for _, e := range open {
		e.abort(syscall.ECONNRESET)
	}
}
