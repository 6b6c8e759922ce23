package remote

import (
	"fmt"
	"strings"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/sandbox/runner"
)

// TestServersWithoutASandbox: a program that embeds the server may lack the helpers. codex doctor, which is both itself,
// finds nothing wrong then, so the error names the files.
func TestServersWithoutASandbox(t *testing.T) {
	dir := t.TempDir()
	_, missing := runner.NewRuntime(runner.Options{Launcher: dir + "/codex-linux-sandbox", Helper: dir + "/codex-fs"})
	if missing == nil {
		t.Fatal("got a runtime without programs, want an error")
	}
	_, helper := runner.NewRuntime(runner.Options{Launcher: "/proc/self/exe", Helper: dir + "/codex-fs"})
	if helper == nil {
		t.Fatal("got a runtime without a helper, want an error")
	}
	const install = "the server's program needs codex-linux-sandbox and codex-fs in its directory"
	for _, tt := range []struct{ reason, want, not string }{
		{": " + missing.Error(), install, "codex doctor"},
		{": " + helper.Error(), install, "codex doctor"},
		{"", "run codex doctor on the server", install},
		{": no backend works", "run codex doctor on the server", install},
	} {
		answer := &execclient.ServerError{Message: fmt.Sprint(runner.ErrUnenforceable, tt.reason)}
		if got := runError(answer, []string{"true"}, false).Error(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("%s: got %s, want %q and not %q", answer.Message, got, tt.want, tt.not)
		}
	}
}
