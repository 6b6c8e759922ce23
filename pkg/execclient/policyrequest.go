package execclient

import (
	"context"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

// request handles a request of the server. The only one is network/policyRequest, for clients
// that answer it. Any other request ends the connection. So does a request beyond
// maxPolicyRequests: no conforming server has so many unanswered requests.
func (c *Client) request(l *connection, m jsonrpc.Message) error {
	if c.opts.OnPolicyRequest == nil || m.Method != execproto.MethodPolicyRequest {
		return &protocolViolation{fmt.Errorf("the server sent a request, %s", m.Method)}
	}
	select {
	case l.asked <- struct{}{}:
	default:
		return &protocolViolation{fmt.Errorf("the server sent more than %d requests at a time, %s", maxPolicyRequests, m.Method)}
	}
	params, err := execproto.Decode[execproto.PolicyRequestParams](m.Params)
	id := m.ID
	c.wg.Go(func() {
		defer func() { <-l.asked }()
		// If the message cannot be sent, no answer is needed.
		_ = l.send(l.ctx, c.policyAnswer(l.ctx, id, params, err))
	})
	return nil
}

// policyAnswer returns the answer to network/policyRequest.
func (c *Client) policyAnswer(ctx context.Context, id jsonrpc.ID, params execproto.PolicyRequestParams, err error) []byte {
	if err != nil {
		return jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: execproto.CodeInvalidParams, Message: "invalid network policy request params"})
	}
	result := execproto.PolicyResult{Decision: c.opts.OnPolicyRequest(ctx, params)}
	text, err := execproto.Append(jsonrpc.AppendResultHeader(nil, id), &result)
	if err != nil {
		return jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: execproto.CodeInternal, Message: err.Error()})
	}
	return append(text, '}')
}
