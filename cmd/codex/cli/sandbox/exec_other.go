//go:build !linux

package sandbox

import "codex.internal/cmd/codex/cli/cmdutil"

func (*localLaunch) exec() error {
	return &cmdutil.ExitError{Code: notStarted, Err: cmdutil.LinuxOnly("codex sandbox", onAServer)}
}
