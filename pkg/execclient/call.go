package execclient

import (
	"bytes"
	"context"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

// repeatable are the methods whose requests are repeated when the connection is lost before
// the answer, because a second one has no further effect.
var repeatable = map[string]bool{
	execproto.MethodEnvironmentInfo:   true,
	execproto.MethodEnvironmentStatus: true,
	execproto.MethodProcessRead:       true,
	execproto.MethodProcessList:       true,
	execproto.MethodProcessDetached:   true,
	execproto.MethodProcessResize:     true,
	execproto.MethodProcessCloseStdin: true,
	execproto.MethodFSReadFile:        true,
	execproto.MethodFSGetMetadata:     true,
	execproto.MethodFSCanonicalize:    true,
	execproto.MethodFSReadDirectory:   true,
	execproto.MethodFSWalk:            true,
}

// Call makes a request and decodes its result. Params and result are pointers to types of
// execproto, or nil. While the session is being recovered it waits. If ctx ends, the answer is
// dropped; the server is not notified.
//
// If the connection is lost before the answer, requests that only query are repeated. Others
// fail with a *DisconnectedError: the server may have executed them or not. Errors of the
// server are *ServerError.
func (c *Client) Call(ctx context.Context, method string, params, result execproto.Object) error {
	raw, err := encode(method, params)
	if err != nil {
		return err
	}
	m, err := c.call(ctx, method, raw, repeatable[method])
	if err != nil {
		return err
	}
	return decodeAnswer(method, m, result)
}

// call sends a request and returns the response. If the connection is lost before the
// response, it waits for the next connection and, with again, repeats the request there.
// Without again, the error is a *DisconnectedError.
func (c *Client) call(ctx context.Context, method string, params []byte, again bool) (jsonrpc.Message, error) {
	for {
		// Check first: a response that arrives at once must not hide that ctx has ended.
		if err := ctx.Err(); err != nil {
			return jsonrpc.Message{}, err
		}
		l, err := c.live(ctx)
		if err != nil {
			return jsonrpc.Message{}, err
		}
		m, err := l.call(ctx, method, params)
		if err == nil && m.Kind == jsonrpc.ErrorResponse {
			err = serverError(method, m)
		}
		if !isDown(err) {
			return m, err
		}
		if !again {
			return jsonrpc.Message{}, &DisconnectedError{Message: ErrClosed.Error()}
		}
		if err := c.waitDown(ctx, l); err != nil {
			return jsonrpc.Message{}, err
		}
	}
}

// callOnce is Call for a request that is not repeated. It also returns the connection of the
// request: a handle that the request opens belongs to that connection.
func (c *Client) callOnce(ctx context.Context, method string, params, result execproto.Object) (*connection, error) {
	l, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	return l, c.begin(ctx, l, method, params, result)()
}

// begin sends a request on a connection, and does not repeat it if the connection is lost.
// Requests of one goroutine are sent in order. The caller must call the returned function,
// which waits for the answer.
func (c *Client) begin(ctx context.Context, l *connection, method string, params, result execproto.Object) (wait func() error) {
	failed := func(err error) func() error { return func() error { return err } }
	raw, err := encode(method, params)
	if err != nil {
		return failed(err)
	}
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	u := l.begin(ctx, method, raw)
	return func() error {
		m, err := u.wait(ctx)
		if err == nil {
			err = decodeAnswer(method, m, result)
		}
		if isDown(err) {
			return &DisconnectedError{Message: ErrClosed.Error()}
		}
		return err
	}
}

// waitDown waits until the reader has marked a connection as closed. It is called after a call
// has failed because the connection is closed.
func (c *Client) waitDown(ctx context.Context, l *connection) error {
	select {
	case <-l.down:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// live returns the current connection, or waits for the next one.
func (c *Client) live(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		state, l, err, changed := c.state, c.link, c.err, c.changed
		c.mu.Unlock()
		switch {
		case state == Failed:
			return nil, err
		case state == Connected && !l.isDown():
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notify sends a notification on the current connection. It may be lost with that connection.
func (c *Client) notify(ctx context.Context, method string, params execproto.Object) error {
	raw, err := encode(method, params)
	if err != nil {
		return err
	}
	l, err := c.live(ctx)
	if err != nil {
		return err
	}
	return l.send(ctx, jsonrpc.AppendNotification(nil, method, raw))
}

func encode(method string, params execproto.Object) ([]byte, error) {
	if params == nil {
		return nil, nil
	}
	raw, err := execproto.Append(nil, params)
	if err != nil {
		return nil, fmt.Errorf("encode the params of %s: %w", method, err)
	}
	return raw, nil
}

func serverError(method string, m jsonrpc.Message) error {
	return &ServerError{Method: method, Code: m.Err.Code, Message: m.Err.Message, Data: bytes.Clone(m.Err.Data)}
}

func decodeAnswer(method string, m jsonrpc.Message, result execproto.Object) error {
	if m.Kind == jsonrpc.ErrorResponse {
		return serverError(method, m)
	}
	if result == nil {
		return nil
	}
	if err := execproto.DecodeTo(m.Result, result); err != nil {
		return fmt.Errorf("failed to serialize or deserialize exec-server JSON: the result of %s: %w", method, err)
	}
	return nil
}
