package cli

import (
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// TestWrongUsageExitsWith2 gives every command a flag that it does not have.
func TestWrongUsageExitsWith2(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	walkCommands(newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard}).Commands, nil, func(path []string) {
		args := append(append([]string{"codex"}, path...), "--no-such-flag")
		var errs strings.Builder
		if code := Main(args, strings.NewReader(""), io.Discard, &errs); code != cmdutil.ExitUsage || !strings.HasPrefix(errs.String(), "error: ") {
			t.Errorf("%q exits with %d and says %q, want %d and an error", args, code, errs.String(), cmdutil.ExitUsage)
		}
	})
}
