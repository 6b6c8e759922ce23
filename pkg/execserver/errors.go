package execserver

import (
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/jsonrpc"
)

// invalid is the error of an invalid request, -32600.
func invalid(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInvalidRequest, Message: text}
}

// invalidParams is an error of the params, -32602.
func invalidParams(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInvalidParams, Message: text}
}

// notFound is the error for an object that does not exist, -32004.
func notFound(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeNotFound, Message: text}
}

// internal is a failure of the server, -32603.
func internal(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInternal, Message: text}
}

// limitError is the error of a request that a limit refuses. Metrics count it by the name of the limit.
type limitError struct {
	limit observe.Limit
	error
}

func (e *limitError) Unwrap() error { return e.error }

// atLimit returns err, which has code and text, as the error of a limit.
func atLimit(limit observe.Limit, err error) error { return &limitError{limit, err} }

// errStopping is the error of new sessions during Shutdown.
var errStopping = internal("the server is shutting down")

func unknownSession(id string) error { return invalid("unknown session id " + shorten(id)) }

// toRPC returns an error with its code (docs/spec/wire.md §2.2). Errors of
// unknown types get the codes of fsops.Error.
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
