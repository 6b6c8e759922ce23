// Package audit implements the commands of codex audit, which check and show audit trails.
package audit

import (
	"bufio"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

// Command returns codex audit.
func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "check and show the audit trail of a server",
		Description: `codex exec-server --audit-log FILE writes an audit trail: a JSON line for each session,
process, refused policy, decision about the network and change of a file. Each line has
the SHA-256 of the line before it. Every few seconds the server signs the trail with its key.

All commands check the trail. They exit with 1 at the first line that was changed. Name
the files from the oldest to the newest. The lines after the last signature, those of the
last few seconds, are not protected. A user who can write the file can cut it at its end, also
at an older signature: codex audit verify --expect finds that.

Example:
   codex audit verify --key BASE64 audit.log.* audit.log`,
		Subcommands: []*cli.Command{verifyCommand(s), showCommand(s), grepCommand(s)},
	}
}

func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "the server's public key in `BASE64`, as in the server's log; default: the key of the first signature"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print the JSON lines of the trail"}
}

func verifyCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check an audit trail", ArgsUsage: "FILE...",
		Description: `Checks numbers, digests and signatures, and prints a summary. Without --key it prints the
public key of the signatures: compare it with the key in the server's log. A trail without
a signature is an error.

The summary ends with the number and the hash of the last record. Keep them elsewhere, and
give them to --expect later: a trail that lacks this record, or has another one in its
place, was cut or replaced.

Examples:
   codex audit verify /var/log/codex/audit.log
   codex audit verify --expect SEQ:HASH /var/log/codex/audit.log
   journalctl -o cat _SYSTEMD_INVOCATION_ID=ID |
      grep '^{"seq":' | codex audit verify /dev/stdin`,
		Flags: []cli.Flag{cmdutil.LocalFiles, keyFlag(),
			&cli.StringFlag{Name: "expect", Usage: "the record `SEQ:HASH` that the trail must have, as the summary showed it before"}},
		Action: func(c *cli.Context) error {
			var expect audit.Position
			if text := c.String("expect"); text != "" {
				var err error
				if expect, err = audit.ParsePosition(text); err != nil {
					return cmdutil.Usagef("--expect: %v", err)
				}
			}
			v, err := read(c, c.Args().Slice(), expect, nil)
			if err == nil {
				err = v.End()
			}
			if err != nil {
				return err
			}
			return report(s.Out, v, c.String("key") != "")
		},
	}
}

// report prints the summary of a trail without errors.
func report(w io.Writer, v *audit.Verifier, trusted bool) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "ok: records %d to %d, %d signatures\n", v.First, v.Last, v.Signatures)
	if !trusted {
		fmt.Fprintf(b, "signed by %s, which --key did not name\n", v.PublicKey())
	}
	if v.Signed < v.Last {
		fmt.Fprintf(b, "no signature covers the last %d records\n", v.Last-v.Signed)
	}
	if v.First > 1 {
		fmt.Fprintln(b, "earlier files of the trail were not checked")
	}
	if v.Lost > 0 {
		fmt.Fprintf(b, "the server could not write %d events\n", v.Lost)
	}
	fmt.Fprintf(b, "last record: %s\n", v.Position())
	return b.Flush()
}

func showCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show an audit trail", ArgsUsage: "FILE...",
		Description: `Prints a line for each record: its time, its event and what is known about it.

Example:
   codex audit show /var/log/codex/audit.log`,
		Flags: []cli.Flag{cmdutil.LocalFiles, keyFlag(), jsonFlag()},
		Action: func(c *cli.Context) error {
			return show(c, s, c.Args().Slice(), func(string) bool { return true })
		},
	}
}

func grepCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "grep", Usage: "show the records of an audit trail that match a pattern", ArgsUsage: "PATTERN FILE...",
		Description: `Prints the records whose line in codex audit show matches a regular expression (RE2).
Exits with 0 also if no record matches.

Example:
   codex audit grep 'processId=build-7 ' /var/log/codex/audit.log`,
		Flags: []cli.Flag{cmdutil.LocalFiles, keyFlag(), jsonFlag()},
		Action: func(c *cli.Context) error {
			pattern, err := regexp.Compile(c.Args().First())
			if err != nil {
				return cmdutil.Usagef("PATTERN is not a regular expression: %v", err)
			}
			return show(c, s, c.Args().Tail(), pattern.MatchString)
		},
	}
}

// show prints the lines that match.
func show(c *cli.Context, s cmdutil.Streams, files []string, match func(string) bool) error {
	b := bufio.NewWriter(s.Out)
	_, err := read(c, files, audit.Position{}, func(l *audit.Line) error {
		text := describe(l)
		if !match(text) {
			return nil
		}
		if c.Bool("json") {
			text = string(l.Text) // JSON contains no raw control characters
		}
		_, err := fmt.Fprintln(b, text)
		return err
	})
	return errors.Join(b.Flush(), err)
}

// read checks files, and calls each with every line.
func read(c *cli.Context, files []string, expect audit.Position, each func(*audit.Line) error) (*audit.Verifier, error) {
	if len(files) == 0 {
		return nil, cmdutil.Usagef("name the files of the audit trail; see %s --help", c.Command.HelpName)
	}
	v := &audit.Verifier{Expect: expect}
	if text := c.String("key"); text != "" {
		key, err := audit.ParsePublicKey(text)
		if err != nil {
			return nil, cmdutil.Usagef("--key: %v", err)
		}
		v.Key = ed25519.PublicKey(key)
	}
	for _, name := range files {
		if err := readFile(v, name, each); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func readFile(v *audit.Verifier, name string, each func(*audit.Line) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := v.File(f, each); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// describe returns a line of codex audit show. Text that a client chose is escaped, so that it cannot control the
// terminal.
func describe(l *audit.Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", l.Time, l.Kind)
	for _, m := range l.Members() {
		fmt.Fprintf(&b, " %s=%s", m.Name, m.Value)
	}
	return terminal.Text(b.String())
}
