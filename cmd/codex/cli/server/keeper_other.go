//go:build !linux

package server

import (
	"fmt"
	"os"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// Keeper refuses: there is no server that could ask for it.
func Keeper() int {
	fmt.Fprintln(os.Stderr, "the keepers of codex exec-server run on Linux only")
	return cmdutil.ExitFailed
}
