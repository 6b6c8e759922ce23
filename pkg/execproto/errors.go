package execproto

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/logtext"
)

// The protocol has one error code for every refused request. Clients recognise the
// refusals below by their texts, which are those of Codex CLI's server where it
// has the same refusal.
const (
	textExists   = "already exists"
	textStarting = "is starting"
)

// ProcessExists is the answer to a process/start with the id of a process that
// the session has already.
func ProcessExists(id string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("process %s %s", id, textExists)}
}

// ProcessStarting is the answer to a process/read that did not wait, or not long
// enough, for the process to start.
func ProcessStarting(id string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("process id %s %s", id, textStarting)}
}

// InvalidRequest is the error of a request that is refused, -32600.
func InvalidRequest(text string) error {
	return &jsonrpc.Error{Code: CodeInvalidRequest, Message: text}
}

// InvalidParams is an error of the params, -32602.
func InvalidParams(text string) error {
	return &jsonrpc.Error{Code: CodeInvalidParams, Message: text}
}

// NotFound is the error for an object that does not exist, -32004.
func NotFound(text string) error {
	return &jsonrpc.Error{Code: CodeNotFound, Message: text}
}

// Internal is a failure of the server, -32603.
func Internal(text string) error {
	return &jsonrpc.Error{Code: CodeInternal, Message: text}
}

// StartFailure says in one word why a process did not start: the member kind of the data of the
// error (docs/spec/wire.md §4.1).
type StartFailure string

// The kinds of failure. The first three are failures of the system call that executes the program.
const (
	SpawnNotFound         StartFailure = "spawnNotFound"         // ENOENT
	SpawnPermissionDenied StartFailure = "spawnPermissionDenied" // EACCES
	SpawnFailed           StartFailure = "spawnFailed"           // any other error
	SandboxPreparation    StartFailure = "sandboxPreparation"    // a path of the sandbox is not of this host
	SandboxUnavailable    StartFailure = "sandboxUnavailable"    // this server has no such sandbox
)

// Answer is the answer to a process/start that failed for this reason.
func (k StartFailure) Answer(code int, text string) error {
	return &jsonrpc.Error{Code: code, Message: text, Data: []byte(`{"kind":"` + string(k) + `"}`)}
}

// UnknownProcess is the error of a request about a process that does not exist.
func UnknownProcess(id string) error {
	const limit = 200 // the id is a text of a client
	return InvalidRequest("unknown process id " + logtext.Clip(id, limit))
}

// IsProcessExists reports whether err is the answer of a server to process/start
// that the session has a process with that id.
func IsProcessExists(err error) bool {
	e := invalidRequest(err)
	return e != nil && strings.Contains(e.Message, textExists)
}

// IsProcessStarting reports whether err is the answer of a server to process/read
// that the process has not started yet.
func IsProcessStarting(err error) bool {
	e := invalidRequest(err)
	return e != nil && strings.HasSuffix(e.Message, textStarting)
}

// invalidRequest returns the error with CodeInvalidRequest that err is or wraps.
func invalidRequest(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if errors.As(err, &e) && e.Code == CodeInvalidRequest {
		return e
	}
	return nil
}
