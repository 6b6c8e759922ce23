package execenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/websocket"
)

// Forward connects to an environment at a URL, of a rendezvous service or of ssh, and passes messages
// between the connection and in and out, where each is a line, until one of them or ctx ends. Codex
// CLI starts this program so for an environment that it cannot reach itself.
//
// The session belongs to the program at in and out: Forward does not recover it. A stream over a
// rendezvous service itself survives the loss of a websocket.
//
// A read of in may not be interruptible, so after the end of the connection nothing waits for it.
func Forward(ctx context.Context, s Spec, o Options, in io.Reader, out io.Writer) error {
	t, said, err := newConnector(s, o).transport(ctx)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- toServer(websocket.NewStdio(in, io.Discard, 0), t) }()
	received := make(chan error, 1)
	go func() { received <- fromServer(t, out, said) }()
	select {
	case err = <-received:
		_ = t.Close()
	case err = <-sent:
		_ = t.Close()
		<-received
	case <-ctx.Done():
		_ = t.Close()
		<-received
	}
	if s.Kind == SSH && errors.Is(err, errSilentServer) {
		return &SSHError{Environment: s.ID, Host: s.Host.Host, Said: said.reason(), Err: err}
	}
	return err
}

// errSilentServer means that the connection ended before the first message of the server.
var errSilentServer = errors.New("the server ended the connection without an answer")

// transport connects. The gate buffers what ssh prints until the server's first message.
func (c *connector) transport(ctx context.Context) (execclient.Transport, *gate, error) {
	said := &gate{to: c.stderr()}
	opts := c.clientOptions()
	var dialer execclient.Dialer
	var err error
	switch c.spec.Kind {
	case WebSocket:
		if err = c.spec.webSocketOptions(&opts); err == nil {
			dialer = execclient.WebSocketDialer(c.spec.URL, opts)
		}
	case Noise:
		dialer, err = c.noise.dialer(c.spec.Registry, c.opts.Logger)
	case SSH:
		t, err := execclient.StartTransport(c.spec.Host.server(said))
		return t, said, err
	default:
		err = fmt.Errorf("environment `%s`: codex environments connect needs a URL, a rendezvous service or ssh", c.spec.ID)
	}
	if err != nil {
		return nil, nil, err
	}
	t, err := dialer.Dial(ctx)
	return t, said, err
}

// toServer passes messages on until one of both ends. It returns nil at the end of local.
func toServer(local *websocket.Stdio, t execclient.Transport) error {
	for {
		m, err := local.ReadMessage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = t.Write(bytes.TrimSpace(m.Bytes()))
			m.Release()
		}
		if err != nil {
			return err
		}
	}
}

// fromServer passes messages on until one of both ends. It returns nil if the server ends the
// connection after a message.
func fromServer(t execclient.Transport, out io.Writer, said *gate) error {
	for first := true; ; first = false {
		message, err := t.Read()
		switch {
		case errors.Is(err, io.EOF) && first:
			return errSilentServer
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		said.open()
		if _, err := out.Write(append(message, '\n')); err != nil {
			return err
		}
	}
}
