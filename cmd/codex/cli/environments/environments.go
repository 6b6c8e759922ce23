// Package environments has the commands of codex environments, and loads the
// environments for the commands that connect to one.
package environments

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "environments", Aliases: []string{"env"}, Usage: "list, check and change the environments in which commands can run",
		Description: `An environment is a place where commands can run: this machine, a server at a URL, a
server that a program such as ssh starts, or a server that has registered at codex
rendezvous. The first of these that is set defines the environments:

   CODEX_EXEC_SERVER_NOISE_...    one that an environment registry knows
   $CODEX_HOME/` + execenv.FileName + `   any number of them
   ` + execenv.URLVariable + `          the URL of the only one, or none
   none of these                  this machine, with the id local

The first needs three variables: CODEX_EXEC_SERVER_NOISE_REGISTRY_URL, such as
https://meet.example:8766, CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID, such as box, and
CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN, which codex rendezvous token create makes. Its id
here is remote. For codex remote --env box, ..._ENVIRONMENT_ID is not needed.

Examples:
   codex environments list
   codex environments check devbox
   codex environments add build --ssh me@build
   codex remote --env devbox run -- make test

` + execenv.FileName + `:
   default = "devbox"
   [[environments]]
   id = "devbox"
   url = "ws://127.0.0.1:8765"
   [[environments]]
   id = "container"
   program = "docker"           # speaks the protocol on stdin and stdout
   args = ["exec", "-i", "work", "codex", "exec-server", "--listen", "stdio"]`,
		Subcommands: []*cli.Command{
			environmentsListCommand(s), environmentsCheckCommand(s), environmentsAddCommand(s),
			environmentsUseCommand(s), environmentsInstallCommand(s), environmentsRemoveCommand(s), environmentsConnectCommand(s),
		},
	}
}

// environmentEntry is an environment as --json prints it.
type environmentEntry struct {
	ID      string       `json:"id"`
	Kind    execenv.Kind `json:"kind"`
	Address string       `json:"address"`
	Default bool         `json:"default"`
	Source  string       `json:"source"`
}

func newEnvironmentEntry(config execenv.Config, s execenv.Spec) environmentEntry {
	return environmentEntry{ID: s.ID, Kind: s.Kind, Address: s.Address(), Default: s.ID == config.Default, Source: s.Source}
}

func environmentsListCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the environments",
		Description: `A star marks the default. URLs are shown without user and query, programs without
their arguments.

With --json: default (an id, or empty), source (what defined them: a variable, a
path, or empty) and environments [{id, kind, address, default, source}]. A kind
is local, websocket, stdio, noise or ssh.

Example:
   codex environments list --json`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print everything as one JSON object"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("list takes no arguments, got %q", c.Args().First())
			}
			config, err := Load("")
			if err != nil {
				return err
			}
			Warn(s.Err, config)
			entries := make([]environmentEntry, 0, len(config.Environments))
			for _, e := range config.Environments {
				entries = append(entries, newEnvironmentEntry(config, e))
			}
			if c.Bool("json") {
				return cmdutil.PrintJSON(s.Out, struct {
					Default      string             `json:"default"`
					Source       string             `json:"source"`
					Environments []environmentEntry `json:"environments"`
				}{config.Default, config.Source, entries})
			}
			return listEnvironments(s.Out, config, entries)
		},
	}
}

// listEnvironments prints the environments for people.
func listEnvironments(to io.Writer, config execenv.Config, entries []environmentEntry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(to, "No environments: %s.\n", noEnvironments(config))
		return err
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tid\tkind\taddress\tfrom")
	for _, e := range entries {
		mark := ""
		if e.Default {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", mark, terminal.Text(e.ID), e.Kind, terminal.Text(e.Address), terminal.Text(e.Source))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if config.Default == "" {
		b.WriteString("No environment is the default.\n")
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// noEnvironments returns the reason why there are no environments.
func noEnvironments(config execenv.Config) string {
	if config.Source == execenv.URLVariable {
		return execenv.URLVariable + " is none"
	}
	return config.Source + " has none"
}
