package cmdutil

import (
	"codex.internal/pkg/execserver/wsauth"
	"github.com/urfave/cli/v2"
)

// CeilingFlags are the options for what the holder of a token may ask a server for.
func CeilingFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "cwd", Usage: "confine file requests and working directories to `DIR`"},
		&cli.StringFlag{Name: "max-sandbox", Usage: "the weakest sandbox of a process: read-only, workspace-write or none (`SANDBOX`)"},
	}, ServerLimitFlags()...)
}

// Ceiling returns what the options of CeilingFlags say. The directory is as it was given.
func Ceiling(c *cli.Context) (wsauth.Ceiling, error) {
	limits, err := ServerLimits(c)
	return wsauth.Ceiling{Dir: c.String("cwd"), MaxSandbox: wsauth.Sandbox(c.String("max-sandbox")), Limits: wsauth.Limits(limits)}, err
}
