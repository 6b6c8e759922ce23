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

// TestComplete checks the offered words: values of options and operands, and no wrong words, such
// as names for the help command in place of files.
func TestComplete(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	file := "[[environments]]\nid = \"build\"\nurl = \"ws://127.0.0.1:1\"\n"
	if err := os.WriteFile(filepath.Join(home, "environments.toml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.toml": "[permissions.dev]\n", "work.config.toml": ""} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]string{
		"remote cp README.md":              "",
		"remote cp":                        "",
		"remote cat":                       "",
		"sandbox --profile-file F":         "",
		"sandbox --profile-file":           "",
		"sandbox --backend":                "auto namespaces bwrap landlock broker",
		"completion":                       "bash zsh fish",
		"completion bash":                  "",
		"environments check":               "local build",
		"environments check build":         "local build",
		"environments":                     "list check add use remove install connect help",
		"remote":                           namesOf("remote"),
		"remote --env":                     "local build",
		"remote run --env":                 "local build",
		"remote run --env build --sandbox": "read-only workspace-write danger-full-access",
		"remote exec --sandbox":            "read-only workspace-write danger-full-access",
		"remote exec --ask":                "never on-failure always",
		"remote run --sandbox=read-only":   "",
		"remote run --timeout":             "",
		"remote run --when-full":           "drop-oldest wait",
		"remote kill --signal":             "INT TERM KILL HUP QUIT USR1 USR2",
		"remote run -- ls":                 "",
		"rendezvous token create --role":   "admin both executor harness read run",
		"exec-server --log-format":         "text json",
		"exec-server token create --role":  "read run admin",
		"sandbox --permission-profile":     ":read-only :workspace :danger-full-access dev",
		"sandbox -P":                       ":read-only :workspace :danger-full-access dev",
		"sandbox --profile":                "work",
		"remote ls -":                      "--url --ca --client-cert --client-key --env --verbose -v --quiet -q --long -l --all -a --json --human-readable --help -h",
		"remote -":                         "--url --ca --client-cert --client-key --env --verbose -v --quiet -q --help -h",
	} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		got := complete(app, strings.Fields(typed))
		if slices.Sort(got); strings.Join(got, " ") != sorted(want) {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	// The program answers the scripts, without output on stderr.
	var out, errs strings.Builder
	if code := Main([]string{"codex", "remote", "exec", "--ask", completionWord}, strings.NewReader(""), &out, &errs); code != 0 ||
		out.String() != "never\non-failure\nalways\n" || errs.String() != "" {
		t.Errorf(`got exit code %d, stdout %q, stderr %q; want exit code 0, stdout %q, stderr ""`, code, out.String(), errs.String(), "never\non-failure\nalways\n")
	}
}

// namesOf returns the names of the commands below one.
func namesOf(name string) string {
	var names []string
	for _, c := range commandAt(newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard}).Commands, []string{name}).Subcommands {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// TestCompletions asks in the same way as the scripts, with the word before the cursor. It checks
// that the answer says whether local files may follow.
func TestCompletions(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	// The server is not running. Pressing the key gives no error, and does not offer local files in
	// place of the server's.
	file := "default = \"build\"\n[[environments]]\nid = \"build\"\nurl = \"ws://127.0.0.1:1\"\n[[environments]]\nid = \"by-program\"\nprogram = \"touch\"\nargs = [\"" + home + "/started\"]\n"
	if err := os.WriteFile(filepath.Join(home, "environments.toml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ words, typed, want string }{
		{"", "rem", "words remote"},
		{"remote", "l", "words logs ls ln"},
		{"remote cp", "READ", "files"},
		{"remote cp", ":/e", "words"},
		{"remote cp", "--re", "words --recursive"},
		{"remote cat", "/e", "words"},
		{"remote run", "", "words"},
		{"remote run --env", "b", "words build by-program"},
		{"remote run", "--env=bu", "words --env=build"},
		{"remote run", "--sandbox=w", "words --sandbox=workspace-write"},
		{"remote run --timeout", "", "words"},
		{"remote run", "--ca=", "files"},
		{"remote run --ca", "x", "files"},
		{"remote --env by-program cat", "/", "words"},
		{"sandbox", "", "files"},
		{"sandbox --cwd", "", "files"},
		{"remote run --cwd", "/", "words"},
		{"remote shell", "", "words"},
		{"remote logs", "", "words"},
		{"audit verify", "", "files"},
		{"exec-server", "--config=", "files"},
		{"rendezvous --config", "", "files"},
		{"environments check", "b", "words build by-program"},
	} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		kind, found := completions(app, strings.Fields(tt.words), tt.typed)
		if got := strings.Join(append([]string{kind}, found...), " "); sorted(got) != sorted(tt.want) {
			t.Errorf("%q, %q: %q, want %q", tt.words, tt.typed, got, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "started")); err == nil {
		t.Error("a press of a key has started the program of an environment")
	}
}

func sorted(words string) string {
	all := strings.Fields(words)
	slices.Sort(all)
	return strings.Join(all, " ")
}
