//go:build !linux

package sandbox

import (
	"errors"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// errNotHere is what the command says where there are no sandboxes.
var errNotHere = errors.New("codex sandbox runs on Linux only")

func (*localLaunch) exec() error {
	return &cmdutil.ExitError{Code: notStarted, Err: cmdutil.WithAdvice(errNotHere, onAServer)}
}
