package server

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

// tokenBytes is the size of a token before it is encoded: 256 bits. Servers require 128.
const tokenBytes = 32

func tokenCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "make a file with a token, or manage tokens with roles", ArgsUsage: "FILE",
		Description: `With a FILE: writes a new random token for --ws-token-file to it, readable by this user
only, and prints how a server and its clients use it. The token itself is not printed. A
file that exists is not replaced. A client with this token can do everything.

With create, list and revoke: manages tokens with roles and ceilings, which a server
accepts with --ws-tokens. Their file contains digests only.

Examples:
   codex exec-server token ~/exec-token
   codex exec-server token create --role run --cwd /srv/project --expires 24h
   codex exec-server token list`,
		Subcommands: []*cli.Command{roleTokenCreate(s), roleTokenList(s), roleTokenRevoke(s)},
		Flags:       []cli.Flag{cmdutil.LocalFiles},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cmdutil.Usagef("token takes the path of one new file, got %d", c.NArg())
			}
			path, err := filepath.Abs(c.Args().First())
			if err != nil {
				return err
			}
			if err := makeToken(path); err != nil {
				if errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("%s exists and is not replaced; name a new file", terminal.Text(path))
				}
				return err
			}
			name := quoted(path)
			_, err = fmt.Fprintf(s.Out, `Made %s. Start the server with

   codex exec-server --listen wss://IP:PORT --tls-cert FILE --tls-key FILE \
      --ws-auth capability-token --ws-token-file %s

Copy the file to the client's machine by a way that nobody reads, such as scp, and there
either add the server to environments.toml, which Codex CLI reads, too:

   codex environments add NAME --url wss://HOST:PORT --token-file FILE

or name it for single commands:

   %s="$(cat FILE)" codex remote --url wss://HOST:PORT info
`, name, name, execenv.TokenVariable)
			return err
		},
	}
}

// makeToken creates the file. It does not follow a link at the end of the path.
func makeToken(path string) error {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // this never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(secret) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// quoted returns a path as a quoted word for a shell. The result is safe to print.
func quoted(path string) string {
	for _, c := range path {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '/' && c != '.' && c != '-' && c != '_' {
			return "'" + strings.ReplaceAll(terminal.Text(path), "'", `'\''`) + "'"
		}
	}
	return path
}
