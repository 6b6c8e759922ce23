package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/execserver/observe"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// The actions of a server when its audit trail cannot be written.
const (
	auditRefuse   = "refuse"
	auditContinue = "continue"
)

// toStdout is the value of --audit-log for a trail that is written to standard output.
const toStdout = "-"

// firstFree is the first descriptor number after the standard streams.
const firstFree = 3

// auditKeyFile is the file in the home directory that contains the key of the audit trail.
const auditKeyFile = "audit-key.pem"

func auditFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "audit-log", Usage: "write an audit trail to `FILE`, or to standard output if it is -; see codex audit --help"},
		&cli.StringFlag{Name: "audit-key", Usage: "audit trail: the PEM `FILE` with the signing key; it is made if it does not exist", DefaultText: auditKeyFile + " in the home directory"},
		&cli.BoolFlag{Name: "audit-commands", Usage: "audit trail: include arguments and working directories of commands"},
		&cli.BoolFlag{Name: "audit-paths", Usage: "audit trail: include the paths of changed files and of Unix sockets that tunnels lead to"},
		cmdutil.Count(cli.GenericFlag{Name: "audit-max-bytes", Usage: "audit trail: start another file after `N` bytes"},
			audit.DefaultMaxBytes, audit.LeastMaxBytes, cmdutil.NoMost),
		&cli.StringFlag{Name: "audit-on-error", Value: auditRefuse, Usage: "audit trail: if it cannot be written, or another program changes its file, refuse new work or continue (`WORD`)"},
	}
}

// auditKey returns the path of the key of the audit trail.
func auditKey(c *cli.Context) (string, error) {
	if path := c.String("audit-key"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := home.Find()
	if err != nil {
		return "", fmt.Errorf("the key of the audit trail: %w; name one with --audit-key", err)
	}
	return filepath.Join(dir, auditKeyFile), nil
}

// auditFiles returns the files of the audit trail that the options name. Sandboxed commands must
// not see them.
func auditFiles(c *cli.Context) []string {
	path := c.String("audit-log")
	if path == "" {
		return nil
	}
	key, err := auditKey(c)
	if err != nil {
		return nil // findAudit returns this error
	}
	if path == toStdout {
		return []string{key}
	}
	return []string{path, key}
}

// auditTrail is the audit trail of the options, checked.
type auditTrail struct {
	opts            audit.Options // without the key
	keyFile         string
	commands, paths bool
}

// findAudit checks the options of the audit trail and its files. It returns nil if the options name none.
func findAudit(c *cli.Context) (*auditTrail, error) {
	path := c.String("audit-log")
	if path == "" {
		for _, name := range []string{"audit-log", "audit-key", "audit-commands", "audit-paths", "audit-max-bytes", "audit-on-error"} {
			if cmdutil.IsSet(c, name) {
				return nil, cmdutil.Usagef("--%s needs --audit-log FILE", name)
			}
		}
		return nil, nil
	}
	word := c.String("audit-on-error")
	switch {
	case path == toStdout && c.IsSet("audit-max-bytes"):
		return nil, cmdutil.Usagef("--audit-max-bytes is for --audit-log FILE, not for standard output")
	case path == toStdout && slices.Contains(c.StringSlice("listen"), "stdio"):
		return nil, cmdutil.Usagef("--audit-log - excludes --listen stdio: both need standard output")
	case path != toStdout && !filepath.IsAbs(path):
		return nil, cmdutil.Usagef("--audit-log %s must be an absolute path, or - for standard output", path)
	case word != auditRefuse && word != auditContinue:
		return nil, cmdutil.Usagef("--audit-on-error must be %s or %s, not %q", auditRefuse, auditContinue, word)
	}
	keyFile, err := auditKey(c)
	if err != nil {
		return nil, err
	}
	if path != toStdout {
		if err := audit.CheckFile(path); err != nil {
			return nil, fmt.Errorf("--audit-log: %w", err)
		}
	}
	if err := audit.CheckKey(keyFile); err != nil {
		err = fmt.Errorf("--audit-key: %w", err)
		if errors.Is(err, fs.ErrNotExist) {
			err = cmdutil.WithAdvice(err, "make that directory, or name a file in another one with --audit-key")
		}
		return nil, err
	}
	return &auditTrail{
		opts:    audit.Options{Path: path, MaxBytes: c.Int64("audit-max-bytes"), Continue: word == auditContinue},
		keyFile: keyFile, commands: c.Bool("audit-commands"), paths: c.Bool("audit-paths"),
	}, nil
}

// open opens the trail, and makes its key if there is none. t may be nil; then open returns nil.
func (t *auditTrail) open(s cmdutil.Streams, log *slog.Logger) (*observe.Audit, error) {
	if t == nil {
		return nil, nil
	}
	key, err := audit.ReadKey(t.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--audit-key: %w", err)
	}
	opts := t.opts
	opts.Key, opts.Logger = key, log
	if opts.Path == toStdout {
		opts.Stream, err = ownStdout(s)
	}
	var trail *audit.Log
	if err == nil {
		trail, err = audit.Open(opts)
	}
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	log.Info("writing an audit trail", "path", opts.Path, "key", base64.StdEncoding.EncodeToString(public))
	return &observe.Audit{Log: trail, Commands: t.commands, Paths: t.paths}, nil
}

// ownStdout returns standard output under another descriptor number. Go ends a program that writes to a pipe without a
// reader under number 1, but a failed write to the trail must only return an error.
func ownStdout(s cmdutil.Streams) (*os.File, error) {
	out, ok := s.RawOut.(*os.File)
	if !ok {
		return nil, errors.New("standard output is not a file")
	}
	fd, err := unix.FcntlInt(out.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "standard output"), nil
}

// closeAudit closes the audit trail, which may be nil.
func closeAudit(trail *observe.Audit, log *slog.Logger) {
	if trail == nil {
		return
	}
	if err := trail.Log.Close(); err != nil {
		log.Error("the end of the audit trail could not be written", "error", err)
	}
}
