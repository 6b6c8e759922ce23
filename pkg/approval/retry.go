package approval

import (
	"maps"
	"slices"

	"codex.internal/pkg/execproto"
)

// ProcessID returns the process id of an attempt of a command, for which the
// caller chose id. With a sandbox the result ends with unique, a new UUID for each
// attempt, so that the retry's id differs; without one it is id.
func ProcessID(id string, sandboxed bool, unique string) string {
	if sandboxed {
		return id + "-" + unique
	}
	return id
}

// RetryParams returns the request for a retry (see Decision.Retry): the same
// command with the same directory, environment and terminal, but without a sandbox
// and with the process id that ProcessID returns for id without one.
func RetryParams(first execproto.StartParams, id string) execproto.StartParams {
	second := first
	second.ProcessID = ProcessID(id, false, "")
	second.Argv, second.Env = slices.Clone(first.Argv), maps.Clone(first.Env)
	second.Sandbox, second.EnforceManagedNetwork, second.NetworkProxy = nil, false, nil
	return second
}
