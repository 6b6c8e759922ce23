package rendezvous

import (
	"context"
	"errors"
	"log/slog"

	"codex.internal/pkg/wire/websocket"
)

// harness is one connection of a harness.
type harness struct {
	srv                *Server
	socket             *socket
	box                *Mailbox
	address            string
	executor           string   // address
	account            *account // of its token
	up                 *lane    // of the environment
	token, environment string
	identity           string
	agent              string // the program, for the status page; empty: unknown
	log                *slog.Logger
}

// serve relays messages until either end disconnects, and then notifies the executor.
func (n *harness) serve(ctx context.Context) error {
	why := n.join(ctx)
	if why == nil {
		why = n.socket.run(ctx, n.box, n)
	} else {
		n.socket.end(why)
	}
	// If the message does not reach the executor, the executor has disconnected itself. Sending it
	// does not wait.
	_, _ = n.srv.bus.Send(context.Background(), n.executor, n.message(Left))
	n.srv.bus.Unbind(n.address, n.box)
	for _, m := range n.box.Close(why) {
		m.done()
	}
	return why
}

// join takes the harness's address and announces the harness to the executor.
func (n *harness) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	_, err := n.srv.bus.Bind(ctx, n.address, 0, n.box)
	if err == nil {
		_, err = n.srv.bus.Send(ctx, n.executor, n.message(Joined))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNobody):
		return closeExecutorGone
	case n.srv.ctx.Err() != nil:
		return closeShutdown
	default:
		n.log.Error("the bus cannot route frames", "error", err)
		return closeBusFails
	}
}

func (n *harness) message(kind MessageKind) Message {
	m := Message{Kind: kind, From: n.address, Token: n.token, Identity: n.identity}
	if kind == Joined {
		m.Data = []byte(n.agent)
	}
	return m
}

// sendError returns the reason with which the harness's socket closes for an error of
// the bus.
func (n *harness) sendError(err error) error {
	if errors.Is(err, ErrNobody) {
		return closeExecutorGone
	}
	return err
}

// receive handles the harness's frames.
func (n *harness) receive(ctx context.Context, h header, in *websocket.Message) error {
	// Take the share of the harness's own token first, then that of the environment: a harness that
	// waits for its token's share does not delay others.
	mine, err := n.account.up.admit(ctx, len(in.Bytes()))
	if err != nil {
		return err
	}
	shared, err := n.up.admit(ctx, len(in.Bytes()))
	if err != nil {
		mine()
		return err
	}
	m := n.message(Frame)
	m.Stream, m.Frame, m.Data = h.stream, h.kind, in.Bytes()
	m.Done = func() { shared(); mine(); in.Release() }
	if _, err := n.srv.bus.Send(ctx, n.executor, m); err != nil {
		m.done()
		return n.sendError(err)
	}
	return nil
}

// handle handles the executor's messages.
func (n *harness) handle(m Message) error {
	defer m.done()
	switch m.Kind {
	case Gone, Lost:
		for _, why := range []*closing{closeFailures, closeSlow} {
			if string(m.Data) == why.reason {
				return why
			}
		}
		return closeExecutorGone
	case Frame, Reply:
		return n.socket.send(m.Data)
	}
	return nil
}

// check implements socketEnd.
func (n *harness) check() error {
	return n.srv.checkToken(n.token, RoleHarness, n.environment, n.identity)
}

// drop implements socketEnd.
func (n *harness) drop(ctx context.Context, why error) error {
	n.srv.metrics.drop(dropInvalid)
	n.log.Debug("message dropped", "reason", why)
	return n.account.up.frames.Wait(ctx)
}
