package cmdutil

import (
	"codex.internal/pkg/execserver/wsauth"
	"github.com/urfave/cli/v2"
)

// CeilingFlags returns the options for the ceiling of a token: the most that its holder may request from a server.
func CeilingFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "cwd", Usage: "confine file requests and working directories to `DIR`"},
		&cli.StringFlag{Name: "max-sandbox", Usage: "the weakest sandbox of a process: read-only, workspace-write or none (`SANDBOX`)"},
	}, ServerLimitFlags()...)
}

// Ceiling returns the ceiling that the options of CeilingFlags set. The directory is not resolved.
func Ceiling(c *cli.Context) (wsauth.Ceiling, error) {
	limits, err := ServerLimits(c)
	return wsauth.Ceiling{Dir: c.String("cwd"), MaxSandbox: wsauth.Sandbox(c.String("max-sandbox")), Limits: wsauth.Limits(limits)}, err
}
