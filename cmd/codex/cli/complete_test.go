package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// TestComplete asks what may follow: values of options and operands, and nothing wrong,
// such as a name of the help command in place of a file.
func TestComplete(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	file := "[[environments]]\nid = \"build\"\nurl = \"ws://127.0.0.1:1\"\n"
	if err := os.WriteFile(filepath.Join(home, "environments.toml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"remote cp README.md":              "",
		"remote cp":                        "",
		"remote cat":                       "",
		"sandbox --profile-file F":         "",
		"sandbox --profile-file":           "",
		"sandbox --backend":                "auto namespaces bwrap landlock",
		"completion":                       "bash zsh fish",
		"completion bash":                  "",
		"environments check":               "local build",
		"environments check build":         "local build",
		"environments":                     "list check add remove help",
		"remote":                           "run exec shell info ls cat cp sync mv rm mkdir ln edit watch forward ps top stats logs attach wait kill forget help",
		"remote --env":                     "local build",
		"remote run --env":                 "local build",
		"remote run --env build --sandbox": "read-only workspace-write",
		"remote exec --sandbox":            "read-only workspace-write danger-full-access",
		"remote exec --ask":                "never on-failure always",
		"remote run --sandbox=read-only":   "",
		"remote run --timeout":             "",
		"remote run --when-full":           "drop-oldest wait",
		"remote kill --signal":             "INT TERM KILL HUP QUIT USR1 USR2",
		"remote run -- ls":                 "",
		"rendezvous token create --role":   "executor harness both",
		"exec-server --log-format":         "text json",
		"remote ls -":                      "--url --ca --client-cert --client-key --env --verbose -v --quiet -q --long -l --all -a --help -h",
		"remote -":                         "--url --ca --client-cert --client-key --env --verbose -v --quiet -q --help -h",
	} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		got := complete(app, strings.Fields(typed))
		if slices.Sort(got); strings.Join(got, " ") != sorted(want) {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	// The program answers the scripts, without a word on stderr.
	var out, errs strings.Builder
	if code := Main([]string{"codex", "remote", "exec", "--ask", completionWord}, strings.NewReader(""), &out, &errs); code != 0 ||
		out.String() != "never\non-failure\nalways\n" || errs.String() != "" {
		t.Errorf("%d %q, %q", code, out.String(), errs.String())
	}
}

func sorted(words string) string {
	all := strings.Fields(words)
	slices.Sort(all)
	return strings.Join(all, " ")
}
