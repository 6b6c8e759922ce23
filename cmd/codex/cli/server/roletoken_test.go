package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver/wsauth"
	"github.com/urfave/cli/v2"
)

// TestTokenNotes: the command that creates a token prints what else the token permits. It resolves
// links when it creates the token.
func TestTokenNotes(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, link, file := filepath.Join(top, "real", "sub"), filepath.Join(top, "link"), filepath.Join(top, "tokens.json")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		note string // "": no note
		dir  string
	}{
		{[]string{"--role", "read"}, "reads every file that the user of the server can read", ""},
		{[]string{"--role", "read", "--cwd", dir}, "", dir},
		{[]string{"--role", "run"}, "", ""},
		{[]string{"--role", "admin"}, "", ""},
		{[]string{"--role", "run", "--cwd", dir}, "commands can also read other paths that their sandbox permits", dir},
		{[]string{"--role", "run", "--cwd", dir, "--max-sandbox", "read-only"}, "commands can also read", dir},
		{[]string{"--role", "run", "--cwd", dir, "--max-sandbox", "none"}, "without a sandbox commands can leave " + dir, dir},
		{[]string{"--role", "read", "--cwd", link + "/sub"}, "the token is for " + dir, dir},
		{[]string{"--role", "read", "--cwd", dir + "/../sub"}, "", dir},
	} {
		var out, errs strings.Builder
		s := cmdutil.NewStreams(strings.NewReader(""), &out, &errs)
		app := &cli.App{Name: "codex", Writer: &out, ErrWriter: &errs, Commands: []*cli.Command{roleTokenCreate(s)}}
		if err := app.Run(append([]string{"codex", "create", "--tokens", file}, tt.args...)); err != nil {
			t.Fatal(err)
		}
		if _, note, found := strings.Cut(errs.String(), "Note: "); found != (tt.note != "") || !strings.Contains(note, tt.note) {
			t.Errorf("%v: %q, want %q", tt.args, note, tt.note)
		}
		list, err := wsauth.OpenTokens(file).List()
		if err != nil || !strings.HasPrefix(out.String(), "cxe_") || len(list) == 0 {
			t.Fatalf(`got stdout %q, list %v, error %v; want no error, stdout beginning with "cxe_", len(list) other than 0`, &out, list, err)
		}
		for i := range list {
			if list[i].ID == wsauth.TokenID(strings.TrimSpace(out.String())) && list[i].Dir != tt.dir {
				t.Errorf("%v: the token is for %q", tt.args, list[i].Dir)
			}
		}
	}
}
