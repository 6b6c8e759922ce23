package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"github.com/urfave/cli/v2"
)

// aliases are the other names of this program: see main.
var aliases = []string{"codex-fs", "codex-linux-sandbox"}

// warner returns a function that warns in the words of Codex CLI or, if the log is JSON, by a record of the log.
func warner(c *cli.Context, stderr io.Writer, log *slog.Logger) func(text string) {
	if c.String("log-format") == "json" {
		return func(text string) { log.Warn(text) }
	}
	return func(text string) { cmdutil.Messagef(stderr, "WARNING: %s\n", text) }
}

// makeAliases makes the aliases available on the PATH of processes that the server starts. If that fails it prints
// a warning and returns nil, because a server works without them.
func makeAliases(warn func(text string)) *home.Aliases {
	a, err := aliasDirectory()
	if err != nil {
		warn(fmt.Sprintf("proceeding, even though we could not create PATH aliases: %v", err))
		return nil
	}
	return a
}

func aliasDirectory() (*home.Aliases, error) {
	dir, err := home.Find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	a, err := home.MakeAliases(dir, os.TempDir(), self, aliases)
	if err != nil {
		return nil, err
	}
	const path = "PATH"
	if err := os.Setenv(path, a.Path(os.Getenv(path))); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// cleanUpAliases starts to remove the aliases of servers that were killed.
func cleanUpAliases(a *home.Aliases, warn func(text string)) {
	if a != nil {
		a.CleanUp(func(err error) { warn(err.Error()) })
	}
}

// removeAliases removes the aliases when the server has ended.
func removeAliases(a *home.Aliases, warn func(text string)) {
	if a == nil {
		return
	}
	if err := a.Close(); err != nil {
		warn(fmt.Sprintf("could not remove PATH aliases: %v", err))
	}
}
