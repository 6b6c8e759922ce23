package execserver

import (
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/fetch"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/jsonrpc"
)

// errStopping is the error of new sessions during Shutdown.
var errStopping = execproto.Internal("the server is shutting down")

func unknownSession(id string) error {
	return execproto.InvalidRequest("unknown session id " + shorten(id))
}

// toRPC converts an error to one with a code (docs/spec/wire.md §2.2). Errors of unknown types
// get the codes of fsops.Error.
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
