package rendezvous

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/rendezvous"
	"github.com/urfave/cli/v2"
)

func rendezvousTokenCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "make, list and revoke tokens of the service",
		Description: `A token permits a role in some environments. An executor reads it from the variable
CODEX_RENDEZVOUS_TOKEN (that of Codex CLI: CODEX_API_KEY), and a harness from
CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN. The file contains digests of tokens only. A running
service notices changes of the file; connections of a revoked token end within a minute.

Examples:
   codex rendezvous token create --role executor --environment 'ci-*'
   codex rendezvous token create --role harness --environment ci-1 \
      --expires 24h
   codex rendezvous token list
   codex rendezvous token revoke 5c1f0a9be2d4`,
		Subcommands: []*cli.Command{tokenCreateCommand(s), tokenListCommand(s), tokenRevokeCommand(s)},
	}
}

func tokenCreateCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "make a token and print it",
		Description: `Prints the token on stdout, and nothing else. It cannot be printed again.

An executor registers with the role executor. A client connects with read, run or admin,
which the executor enforces together with the ceilings, as it does for the tokens of its
port (see codex exec-server token create --help). The role harness is the same as admin.
Executors of Codex CLI and those of former versions enforce no roles: they refuse clients
with read and run.

Examples:
   codex rendezvous token create --role executor --environment build-box
   codex rendezvous token create --role run --environment build-box \
      --cwd /srv/project --name ada
   codex rendezvous token create --role read --environment '*' --name ann`,
		Flags: append([]cli.Flag{
			tokensFlag(),
			&cli.StringFlag{Name: "role", Usage: "the `ROLE` that the token permits: executor; read, run or admin; harness, or both executor and harness"},
			&cli.StringSliceFlag{Name: "environment", Usage: "permit the environment `ID`, or those that match a pattern in which * stands for any characters; may be repeated"},
			&cli.StringFlag{Name: "name", Usage: "a `NAME` for the list of tokens"},
			cmdutil.Duration(cli.GenericFlag{Name: "expires", Usage: "the token expires after `DURATION`; 0: never", DefaultText: "0"}, 0, 0),
		}, cmdutil.CeilingFlags()...),
		Action: func(c *cli.Context) error {
			switch {
			case c.Args().Present():
				return cmdutil.Usagef("create takes no arguments, got %q", c.Args().First())
			case c.String("role") == "":
				return cmdutil.Usagef("--role is missing: give executor, read, run, admin, harness or both")
			case len(c.StringSlice("environment")) == 0:
				return cmdutil.Usagef("--environment is missing: give the id of an environment, or '*' for all")
			}
			ceiling, err := cmdutil.Ceiling(c)
			if err != nil {
				return err
			}
			tokens, err := openTokens(c)
			if err != nil {
				return err
			}
			secret, token, err := tokens.Create(c.Context, rendezvous.TokenSpec{
				Name: c.String("name"), Role: rendezvous.Role(c.String("role")), Environments: c.StringSlice("environment"), TTL: c.Duration("expires"), Ceiling: ceiling,
			})
			if err != nil {
				return flagged(err)
			}
			for _, id := range token.Environments {
				if strings.ContainsAny(id, ", ") {
					fmt.Fprintf(s.Err, "WARNING: %q is one environment; for several repeat --environment\n", id)
				}
			}
			fmt.Fprintf(s.Err, "The token %s is in %s; keep what follows, it is not stored.\n", token.ID, tokens.Path())
			_, err = fmt.Fprintln(s.Out, secret)
			return err
		},
	}
}

// tokenEntry is a token as --json prints it.
type tokenEntry struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Role         rendezvous.Role `json:"role"`
	Environments []string        `json:"environments"`
	Dir          string          `json:"cwd"`
	MaxSandbox   wsauth.Sandbox  `json:"maxSandbox"`
	Limits       wsauth.Limits   `json:"limits"`
	Created      time.Time       `json:"created"`
	Expires      *time.Time      `json:"expires"`
}

func tokenListCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the tokens, oldest first",
		Description: `With --json: an array of {id, name, role, environments, cwd, maxSandbox, limits,
created, expires}, where expires is null if it never does.

Example:
   codex rendezvous token list`,
		Flags: []cli.Flag{tokensFlag(), &cli.BoolFlag{Name: "json", Usage: "print everything as one JSON array"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("list takes no arguments, got %q", c.Args().First())
			}
			tokens, err := openTokens(c)
			if err != nil {
				return err
			}
			list, err := tokens.List()
			if err != nil {
				return err
			}
			entries := make([]tokenEntry, 0, len(list))
			for _, t := range list {
				entries = append(entries, tokenEntry{
					ID: t.ID, Name: t.Name, Role: t.Role, Environments: t.Environments, Dir: t.Dir, MaxSandbox: cmp.Or(t.MaxSandbox, wsauth.SandboxNone), Limits: t.Limits, Created: t.Created, Expires: cmdutil.Expiry(t.Expires),
				})
			}
			if c.Bool("json") {
				return cmdutil.PrintJSON(s.Out, entries)
			}
			return listTokens(s.Out, tokens.Path(), entries, time.Now())
		},
	}
}

// listTokens prints the tokens for people.
func listTokens(to io.Writer, path string, entries []tokenEntry, now time.Time) error {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, []string{
			e.ID, string(e.Role), strings.Join(e.Environments, " "), cmp.Or(e.Dir, "-"), string(e.MaxSandbox), e.Created.Format(time.RFC3339), cmdutil.ExpiryCell(e.Expires, now), e.Name,
		})
	}
	return cmdutil.PrintTokens(to, path, []string{"id", "role", "environments", "cwd", "sandbox", "created", "expires", "name"}, rows)
}

func tokenRevokeCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: "revoke tokens", ArgsUsage: "ID...",
		Description: `A running service then refuses the tokens.

Example:
   codex rendezvous token revoke 4f1d0c2b9e7a`,
		Flags: []cli.Flag{cmdutil.OtherWords, tokensFlag()},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("revoke needs the id of a token; see codex rendezvous token list")
			}
			tokens, err := openTokens(c)
			if err != nil {
				return err
			}
			for _, id := range c.Args().Slice() {
				if own := rendezvous.TokenID(id); own != "" {
					return cmdutil.Usagef("revoke takes the id of a token, not the secret token: codex rendezvous token revoke %s", own)
				}
				token, err := tokens.Revoke(c.Context, id)
				if errors.Is(err, rendezvous.ErrNoToken) {
					return cmdutil.WithAdvice(err, "codex rendezvous token list shows the tokens with their ids")
				}
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(s.Out, "Revoked %s.\n", token.ID); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
