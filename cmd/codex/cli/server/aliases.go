package server

import (
	"errors"
	"fmt"
	"io"
	"os"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
)

// aliases are the other names of this program: see main.
var aliases = []string{"codex-fs", "codex-linux-sandbox"}

// makeAliases makes the aliases available on the PATH of processes that the server starts. If that fails it prints
// a warning and returns nil, because a server works without them.
func makeAliases(stderr io.Writer) *home.Aliases {
	a, err := aliasDirectory()
	if err != nil {
		cmdutil.Messagef(stderr, "WARNING: proceeding, even though we could not create PATH aliases: %v\n", err)
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
func cleanUpAliases(a *home.Aliases, stderr io.Writer) {
	if a != nil {
		a.CleanUp(func(err error) { cmdutil.Messagef(stderr, "WARNING: %v\n", err) })
	}
}

// removeAliases removes the aliases when the server has ended.
func removeAliases(a *home.Aliases, stderr io.Writer) {
	if a == nil {
		return
	}
	if err := a.Close(); err != nil {
		cmdutil.Messagef(stderr, "WARNING: could not remove PATH aliases: %v\n", err)
	}
}
