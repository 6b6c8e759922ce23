//go:build !linux

package sandbox

import (
	"codex.internal/pkg/sandbox/permissions"
	"github.com/urfave/cli/v2"
)

// hideState does nothing, because commands are confined on Linux only.
func hideState(*cli.Context, *permissions.Profile) {}
