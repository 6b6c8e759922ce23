package execproto

import (
	"fmt"
	"strings"

	"codex.internal/pkg/wire/jsonrpc"
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

// IsProcessExists reports whether an error response with this code and message
// to process/start means that the session has a process with that id.
func IsProcessExists(code int, message string) bool {
	return code == CodeInvalidRequest && strings.Contains(message, textExists)
}

// IsProcessStarting reports whether an error response with this code and message
// to process/read means that the process has not started yet.
func IsProcessStarting(code int, message string) bool {
	return code == CodeInvalidRequest && strings.HasSuffix(message, textStarting)
}
