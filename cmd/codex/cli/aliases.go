//go:build linux || darwin

package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"codex.internal/pkg/codexhome"
)

// aliases are the names, beside its own, that this program goes by: see main.
func aliases() []string {
	if runtime.GOOS == "linux" {
		return []string{"codex-fs", "codex-linux-sandbox"}
	}
	return nil
}

// makeAliases puts the aliases on the PATH, for what the server starts, until
// remove is called. A server works without them.
func makeAliases(stderr io.Writer) (remove func()) {
	dir, err := aliasDirectory(stderr)
	if err != nil {
		fmt.Fprintf(stderr, "WARNING: proceeding, even though we could not create PATH aliases: %v\n", err)
		return func() {}
	}
	return func() {
		if err := dir.Close(); err != nil {
			fmt.Fprintf(stderr, "WARNING: could not remove PATH aliases: %v\n", err)
		}
	}
}

func aliasDirectory(stderr io.Writer) (*codexhome.Aliases, error) {
	home, err := codexhome.Find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	a, err := codexhome.MakeAliases(home, os.TempDir(), self, aliases(), func(err error) {
		fmt.Fprintf(stderr, "WARNING: %v\n", err)
	})
	if err != nil {
		return nil, err
	}
	const path = "PATH"
	if err := os.Setenv(path, a.Path(os.Getenv(path))); err != nil {
		_ = a.Close()
		return nil, err
	}
	return a, nil
}
