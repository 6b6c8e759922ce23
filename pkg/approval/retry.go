package approval

import (
	"maps"
	"slices"

	"codex.internal/pkg/execproto"
)

// ProcessID returns the process id of an attempt of the command that a caller
// calls id. With a sandbox it ends with unique, a UUID that is new for each
// attempt, so that the retry's cannot collide with it; without one it is id.
func ProcessID(id string, sandboxed bool, unique string) string {
	if sandboxed {
		return id + "-" + unique
	}
	return id
}

// RetryParams returns the request for the retry, which a Decision with Retry
// asks for: the same command in the same place, with the same environment and
// terminal, but without a sandbox and as the process id.
func RetryParams(first execproto.StartParams, id string) execproto.StartParams {
	second := first
	second.ProcessID = ProcessID(id, false, "")
	second.Argv, second.Env = slices.Clone(first.Argv), maps.Clone(first.Env)
	second.Sandbox, second.EnforceManagedNetwork = nil, false
	return second
}
