package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"github.com/urfave/cli/v2"
)

func roleTokensFlag() cli.Flag {
	return &cli.StringFlag{Name: "tokens", Usage: "the `FILE` with the tokens", DefaultText: "exec-server/tokens.json in the home directory"}
}

// openRoleTokens returns the token file that the flags name.
func openRoleTokens(c *cli.Context) (*wsauth.TokenFile, error) {
	path, err := cmdutil.FlagValue(c, "tokens")
	switch {
	case err != nil:
		return nil, err
	case path == "" && cmdutil.IsSet(c, "tokens"):
		return nil, cmdutil.Usagef("--tokens is empty; leave it out or give it a value")
	case path == "":
		dir, err := home.Find()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, "exec-server", "tokens.json")
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return wsauth.OpenTokens(path), nil
}

func roleTokenCreate(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "make a token with a role and print it",
		Description: `Prints the token on stdout, and nothing else. It cannot be printed again.

A token with the role read can read files and follow the output of processes of its
principal. One with run can also start processes and change files. One with admin can
also read the metrics and the process list of the whole server.

A client cannot exceed the ceilings: --cwd confines file requests and working
directories, --max-sandbox is the weakest sandbox of a process, and the --limit options
are the highest limits. With --cwd and the role run, --max-sandbox is workspace-write at
most: without a sandbox a command could leave the directory.

Examples:
   codex exec-server token create --role run --cwd /srv/project --expires 24h
   codex exec-server token create --role run --principal ci \
      --max-sandbox read-only
   codex exec-server token create --role read --principal ci`,
		Flags: append([]cli.Flag{
			roleTokensFlag(),
			&cli.StringFlag{Name: "role", Usage: "the `ROLE` of the token: read, run or admin"},
			&cli.StringFlag{Name: "principal", Usage: "share detached processes with the other tokens of principal `NAME`", DefaultText: "with none"},
			&cli.StringFlag{Name: "name", Usage: "a `NAME` for the list of tokens"},
			cmdutil.Duration(cli.GenericFlag{Name: "expires", Usage: "the token expires after `DURATION`; 0: never", DefaultText: "0"}, 0, 0),
		}, cmdutil.CeilingFlags()...),
		Action: func(c *cli.Context) error { return createRoleToken(c, s) },
	}
}

func createRoleToken(c *cli.Context, s cmdutil.Streams) error {
	switch {
	case c.Args().Present():
		return cmdutil.Usagef("create takes no arguments, got %q", c.Args().First())
	case c.String("role") == "":
		return cmdutil.Usagef("--role is missing: give read, run or admin")
	}
	ceiling, err := cmdutil.Ceiling(c)
	if err != nil {
		return err
	}
	spec := wsauth.TokenSpec{
		Name: c.String("name"), Principal: c.String("principal"), Role: wsauth.Role(c.String("role")), TTL: c.Duration("expires"),
		Ceiling: ceiling,
	}
	if cmdutil.IsSet(c, "cwd") {
		if spec.Ceiling.Dir, err = directory(c.String("cwd")); err != nil {
			return err
		}
	}
	tokens, err := openRoleTokens(c)
	if err != nil {
		return err
	}
	secret, token, err := tokens.Create(c.Context, spec)
	if unfit, ok := errors.AsType[*wsauth.InvalidError](err); ok {
		return cmdutil.Usagef("--%s %s", strings.ReplaceAll(unfit.What, " ", "-"), unfit.Reason)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, `The token %s is in %s; keep what follows, it is not stored.
Server: codex exec-server --ws-auth capability-token --ws-tokens %s
Client: %s=TOKEN codex remote --url wss://HOST:PORT info
`, token.ID, tokens.Path(), quoted(tokens.Path()), execenv.TokenVariable)
	for _, note := range tokenNotes(c.String("cwd"), &token) {
		fmt.Fprintln(s.Err, "Note: "+note)
	}
	_, err = fmt.Fprintln(s.Out, secret)
	return err
}

// tokenNotes returns notes about permissions of a token that a user may not expect. named is the value of --cwd.
func tokenNotes(named string, t *wsauth.Token) (notes []string) {
	if abs, err := filepath.Abs(named); named != "" && err == nil && abs != t.Dir {
		notes = append(notes, fmt.Sprintf("%s is a link or is reached by one; the token is for %s, and clients must use that path", named, t.Dir))
	}
	switch {
	case t.Role == wsauth.RoleRead && t.Dir == "":
		notes = append(notes, "the token reads every file that the user of the server can read, also keys and other tokens; --cwd confines it to a directory")
	case t.Role == wsauth.RoleRun && t.Dir != "" && !t.ConfinesProcesses():
		notes = append(notes, "without a sandbox commands can leave "+t.Dir+"; leave --max-sandbox out to confine their writes")
	case t.Role == wsauth.RoleRun && t.Dir != "":
		notes = append(notes, "file requests see "+t.Dir+" alone; commands can also read other paths that their sandbox permits")
	}
	return notes
}

// directory returns the absolute path of an existing directory with links resolved, so that later changes of a
// link do not change what the token permits.
func directory(name string) (string, error) {
	if name == "" {
		return "", cmdutil.Usagef("--cwd is empty; name a directory")
	}
	abs, err := filepath.Abs(name)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("--cwd: %w", err)
	}
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return "", fmt.Errorf("--cwd: %w", err)
	case !info.IsDir():
		return "", cmdutil.Usagef("--cwd %s is not a directory", abs)
	}
	return abs, nil
}

// roleTokenEntry is a token as --json prints it.
type roleTokenEntry struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Role       wsauth.Role    `json:"role"`
	Principal  string         `json:"principal"`
	Dir        string         `json:"cwd"`
	MaxSandbox wsauth.Sandbox `json:"maxSandbox"`
	Limits     wsauth.Limits  `json:"limits"`
	Created    time.Time      `json:"created"`
	Expires    *time.Time     `json:"expires"`
}

func roleTokenList(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the tokens with roles, oldest first",
		Description: `With --json: an array of {id, name, role, principal, cwd, maxSandbox, limits, created,
expires}, where expires is null if it never does.

Example:
   codex exec-server token list`,
		Flags: []cli.Flag{roleTokensFlag(), &cli.BoolFlag{Name: "json", Usage: "print everything as one JSON array"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("list takes no arguments, got %q", c.Args().First())
			}
			tokens, err := openRoleTokens(c)
			if err != nil {
				return err
			}
			list, err := tokens.List()
			if err != nil {
				return err
			}
			entries := make([]roleTokenEntry, 0, len(list))
			for i := range list {
				t := &list[i]
				e := roleTokenEntry{ID: t.ID, Name: t.Name, Role: t.Role, Principal: t.Principal, Dir: t.Dir, MaxSandbox: t.MaxSandbox, Limits: t.Limits, Created: t.Created, Expires: cmdutil.Expiry(t.Expires)}
				if e.MaxSandbox == "" {
					e.MaxSandbox = wsauth.SandboxNone
				}
				entries = append(entries, e)
			}
			if c.Bool("json") {
				return cmdutil.PrintJSON(s.Out, entries)
			}
			return listRoleTokens(s.Out, tokens.Path(), entries, time.Now())
		},
	}
}

// listRoleTokens prints the tokens for people.
func listRoleTokens(to io.Writer, path string, entries []roleTokenEntry, now time.Time) error {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		limits := "none"
		if own := execproto.ProcessLimits(e.Limits); own != (execproto.ProcessLimits{}) {
			limits = "yes (--json)"
		}
		rows = append(rows, []string{
			e.ID, string(e.Role), cmp.Or(e.Principal, "-"), cmp.Or(e.Dir, "-"), string(e.MaxSandbox), limits, cmdutil.ExpiryCell(e.Expires, now), e.Name,
		})
	}
	return cmdutil.PrintTokens(to, path, []string{"id", "role", "principal", "cwd", "sandbox", "limits", "expires", "name"}, rows)
}

func roleTokenRevoke(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: "revoke tokens with roles", ArgsUsage: "ID...",
		Description: `A running server then refuses the tokens, and ends their sessions within ten seconds.
Their detached processes go on.

Example:
   codex exec-server token revoke 4f1d0c2b9e7a`,
		Flags: []cli.Flag{cmdutil.OtherWords, roleTokensFlag()},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cmdutil.Usagef("revoke needs the id of a token; see codex exec-server token list")
			}
			tokens, err := openRoleTokens(c)
			if err != nil {
				return err
			}
			for _, id := range c.Args().Slice() {
				if own := wsauth.TokenID(id); own != "" {
					return cmdutil.Usagef("revoke takes the id of a token, not the secret token: codex exec-server token revoke %s", own)
				}
				token, err := tokens.Revoke(c.Context, id)
				if errors.Is(err, wsauth.ErrNoToken) {
					return cmdutil.WithAdvice(err, "codex exec-server token list shows the tokens with their ids")
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
