package remote

import (
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/sandbox"
	"github.com/urfave/cli/v2"
)

// The root directory is the workspace only if the user names it, and not only because the server or
// the shell runs there.
func TestTheRootIsAWorkspaceOnlyIfTheUserSaysSo(t *testing.T) {
	const profile = `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}`
	for _, tt := range []struct {
		policy, server, FlagValue string
		refused                   bool
	}{
		{"workspace-write", "file:///", "", true},
		{"workspace-write", "file:////", "", true},
		{"workspace-write", "file:///srv/..", "", true},
		{"workspace-write", "file:///%2e", "", true},
		{"workspace-write", "file:///C:/", "", true},
		{profile, "file:///", "", true},
		{"workspace-write", "", "", true},
		{"workspace-write", "file:///", "/", false},
		{"workspace-write", "file:///", "/srv", false},
		{"workspace-write", "file:///srv", "", false},
		{"read-only", "file:///", "", false},
		{"danger-full-access", "file:///", "", false},
	} {
		policy, err := sandbox.ParsePolicy(tt.policy)
		if err != nil {
			t.Fatal(err)
		}
		x := &remoteExec{execOptions: execOptions{policy: policy}}
		app := &cli.App{Flags: []cli.Flag{cwdFlag("")}, Writer: io.Discard, Action: func(c *cli.Context) error { return x.settle(c, places{cwd: tt.server}) }}
		args := []string{"codex"}
		if tt.FlagValue != "" {
			args = append(args, "--cwd", tt.FlagValue)
		}
		if err := app.Run(args); (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "--cwd") {
			t.Errorf("%s in %q, --cwd %q: %v", tt.policy, tt.server, tt.FlagValue, err)
		}
	}
}
