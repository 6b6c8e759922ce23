//go:build linux || darwin

package execserver

import (
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/jsonrpc"
)

// invalid is an error of the caller's making, -32600.
func invalid(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInvalidRequest, Message: text}
}

// invalidParams is an error of the params, -32602.
func invalidParams(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInvalidParams, Message: text}
}

// notFound is an error about something that is not there, -32004.
func notFound(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeNotFound, Message: text}
}

// internal is a failure of the server, -32603.
func internal(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInternal, Message: text}
}

// errStopping refuses new sessions while the server is ended.
var errStopping = internal("the server is shutting down")

func unknownSession(id string) error { return invalid("unknown session id " + clip(id)) }

// toRPC is the one place where errors get their codes (section 2). Errors
// that name no code are the server's failure.
func toRPC(err error) *jsonrpc.Error {
	var rpc *jsonrpc.Error
	var request *fetch.InvalidError
	var spawn *process.SpawnError
	switch {
	case errors.As(err, &rpc):
		return rpc
	case errors.As(err, &request):
		return &jsonrpc.Error{Code: execproto.CodeInvalidParams, Message: err.Error()}
	case errors.As(err, &spawn):
		return &jsonrpc.Error{Code: execproto.CodeInternal, Message: err.Error()}
	default:
		return fsops.Error(err)
	}
}
