package natsbus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/wire/secret"
)

// Options are the options of a Node. Only Servers is required.
type Options struct {
	secret.Unprinted
	// Servers are the URLs of servers, separated by commas. The other servers of their cluster are
	// found automatically.
	Servers string
	// Credentials is a file with the credentials of a user; empty: no credentials. CA is a PEM file
	// with the certificate authorities that must have signed the servers' certificates; empty: the
	// authorities of the system.
	Credentials, CA string
	// AllowPlaintext permits connections without TLS to servers that are not on this machine.
	AllowPlaintext bool
	// Replicas is how many servers store the state. 0: 3 in a cluster of at least three servers,
	// otherwise 1. It applies to new buckets and, if it is not 0, to existing ones.
	Replicas int
	Logger   *slog.Logger // nil: logs nothing
}

// Node is one process of a service. Its State and its Bus can be used until Close.
type Node struct {
	secret.Unprinted
	State *State
	Bus   *Bus

	id   string
	log  *slog.Logger
	conn *nats.Conn
	lost chan struct{} // closed with conn

	calls   chan *nats.Msg // requests to addresses of this node, and to itself
	again   chan struct{}  // has a value when the connection to NATS was restored
	broken  atomic.Uint64  // lines that ended before they were finished here
	buffers sync.Pool      // of *[]byte, for packets

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// These are the subjects of the service.
const (
	subjects   = "codex-rendezvous."
	allSubject = subjects + "all"
)

func nodeSubject(id string) string         { return subjects + "node." + id }
func nodeCallSubject(id string) string     { return subjects + "call." + id }
func addressSubject(address string) string { return subjects + "address." + address }

// Connect connects a node. If NATS is not available yet, Connect retries for some seconds, or until
// ctx ends. After the first connection the node reconnects without a time limit. Errors do not
// contain passwords.
func Connect(ctx context.Context, opts Options) (*Node, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		id: rand.Text(), log: opts.Logger, calls: make(chan *nats.Msg, maxCalls), again: make(chan struct{}, 1),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	if err := errors.Join(checkServers(opts.Servers), checkFiles(&opts)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var last string
	for {
		err := n.connect(ctx, &opts)
		if err == nil {
			n.log.Info("connected to NATS", "node", n.id, "server", n.conn.ConnectedUrlRedacted())
			return n, nil
		}
		if err.Error() != last {
			last = err.Error()
			n.log.Warn("cannot start with NATS yet", "error", err, "timeout", startTime)
		}
		if wait.For(ctx, reconnectPause) != nil {
			return nil, err
		}
	}
}

// connect makes one attempt.
func (n *Node) connect(ctx context.Context, opts *Options) (err error) {
	lost := make(chan struct{})
	closed := nats.ClosedHandler(func(*nats.Conn) { close(lost) })
	n.conn, err = nats.Connect(opts.Servers, append(n.options(opts), closed)...)
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("connect to NATS: %w: the server offers no TLS, and without it user, password and registrations would be sent in the clear; "+
			"set up TLS there, or allow it with --allow-plaintext-nats", err)
	case err != nil:
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer func() {
		if err != nil {
			n.conn.Close()
		}
	}()
	if most := n.conn.MaxPayload(); most < rendezvous.MaxFrame+packetOverhead {
		return fmt.Errorf("NATS accepts messages of at most %d bytes, but %d are needed: raise max_payload", most, rendezvous.MaxFrame+packetOverhead)
	}
	bound, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	n.State, err = openState(bound, n, opts.Replicas)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w; does this server of NATS have JetStream (nats-server -js), and a leader?", err)
	case err != nil:
		return err
	}
	n.Bus, n.lost = newBus(n), lost
	return n.start()
}

// Wait waits until ctx ends, and then returns nil, or until the connection to NATS is lost
// permanently: it ended with an error after which the client library does not reconnect. The error
// is then an ErrLost, and the service must end.
func (n *Node) Wait(ctx context.Context) error {
	select {
	case <-n.lost:
		return fmt.Errorf("%w: %w", ErrLost, cmp.Or(n.conn.LastError(), nats.ErrConnectionClosed))
	case <-ctx.Done():
		return nil
	}
}

// options returns the options of the client library.
func (n *Node) options(opts *Options) []nats.Option {
	list := []nats.Option{
		nats.Name("codex rendezvous " + n.id),
		// NATS may refuse a node twice and admit it later, for example after its credentials were
		// changed.
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(reconnectJitter, reconnectJitter), nats.ReconnectBufSize(reconnectBytes),
		nats.Timeout(dialTime), nats.FlusherTimeout(writeTime), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // not closed by this node
				n.log.Warn("NATS cannot be reached", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			n.log.Info("reconnected to NATS", "server", c.ConnectedUrlRedacted())
			wait.Wake(n.again)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { n.log.Error("NATS", "error", err) }),
	}
	if opts.Credentials != "" {
		list = append(list, nats.UserCredentials(opts.Credentials))
	}
	if opts.CA != "" {
		list = append(list, nats.RootCAs(opts.CA))
	}
	switch {
	case opts.AllowPlaintext:
	case areLocal(opts.Servers):
		list = append(list, nats.SetCustomDialer(&localDialer{net.Dialer{Timeout: dialTime}}))
	default:
		// TLS is required whatever a server offers, because an attacker can remove the offer from
		// its first line.
		list = append(list, nats.Secure())
	}
	return list
}

// start subscribes the node and starts its goroutines.
func (n *Node) start() error {
	inbox, err := n.conn.Subscribe(nodeSubject(n.id), n.Bus.receive)
	if err == nil {
		err = inbox.SetPendingLimits(inboxPackets, inboxBytes)
	}
	if err == nil {
		_, err = n.conn.Subscribe(allSubject, n.Bus.receive)
	}
	if err == nil {
		_, err = n.conn.ChanSubscribe(nodeCallSubject(n.id), n.calls)
	}
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.wg.Go(func() { n.Bus.routineCalls(ctx) })
	n.wg.Go(func() { n.Bus.routineAcks(ctx) })
	n.wg.Go(func() { n.Bus.routineBeats(ctx) })
	n.wg.Go(func() { n.State.routineWatch(ctx) })
	return nil
}

// Close notifies the other nodes that this node ends, and ends it. The server that uses the node
// must have been shut down.
func (n *Node) Close() {
	n.stop()
	n.wg.Wait()
	_ = n.publish(allSubject, &packet{kind: packetBye})
	// If NATS cannot be reached, the other nodes notice that this node is silent.
	_ = n.conn.FlushTimeout(closeTime)
	n.conn.Close()
	n.Bus.endEverything(errClosed)
}

// publish sends a packet in the name of the node. It waits only if NATS does not read. If a packet
// is lost because the server crashes at that moment, publish returns no error: the packet is
// retransmitted like any packet that a server has lost.
func (n *Node) publish(subject string, p *packet) error {
	p.node = n.id
	buffer := n.buffers.Get().(*[]byte)
	*buffer = p.append((*buffer)[:0])
	err := n.conn.Publish(subject, *buffer) // which copies it
	n.buffers.Put(buffer)
	if onTheWay(err) {
		return nil
	}
	return err
}

// onTheWay reports whether an error of the client concerns its connection to the server, which the
// client restores. It returns false for a refusal of the message.
func onTheWay(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && !errors.Is(err, nats.ErrConnectionClosed)
}

// request sends a packet and returns the answer. If no answer arrives, it sends the packet again,
// because the requested node may just have ended.
func (n *Node) request(ctx context.Context, subject string, p *packet) (packet, error) {
	p.node = n.id
	data := p.append(nil)
	var m *nats.Msg
	for {
		attempt, cancel := context.WithTimeout(ctx, answerTime)
		var err error
		m, err = n.conn.RequestWithContext(attempt, subject, data)
		cancel()
		if err == nil {
			break
		}
		// An exceeded deadline counts too.
		if !onTheWay(err) || wait.For(ctx, answerPause) != nil {
			return packet{}, err
		}
	}
	answer, err := decodePacket(m.Data)
	if err == nil && answer.kind != packetAccept && answer.kind != packetRefuse && answer.kind != packetAnswer {
		err = fmt.Errorf("%w as an answer: kind %d", errPacket, answer.kind)
	}
	return answer, err
}
