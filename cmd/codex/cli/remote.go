package cli

import "github.com/urfave/cli/v2"

func remoteCommand(s streams) *cli.Command {
	return &cli.Command{Name: "remote"}
}
