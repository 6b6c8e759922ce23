package shellsnapshot

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// bash runs a bash and returns what it writes.
func bash(t *testing.T, argv, env []string) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	testutil.Need(t, "bash", err, exec.ErrNotFound)
	cmd := exec.Command(path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%q: %v", argv[1], err)
	}
	return string(out)
}

// snapshotOf makes a snapshot of a bash with these start-up files.
func snapshotOf(t *testing.T, profile, rc string) (*Snapshot, []string) {
	t.Helper()
	home := t.TempDir()
	for name, text := range map[string]string{".bash_profile": profile, ".bashrc": rc} {
		if err := os.WriteFile(home+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	marker := NewMarker()
	out := bash(t, []string{"bash", "-lc", Script(marker)}, env)
	if !Complete([]byte(out), marker) {
		return nil, env
	}
	s, err := Parse([]byte(out), marker)
	if err != nil {
		t.Fatal(err)
	}
	return s, env
}

func TestStateIsRestored(t *testing.T) {
	for name, c := range map[string]struct{ profile, rc, command, want string }{
		"function":            {"f() { echo \"f $1\"; }", "", "f x", "f x\n"},
		"of the rc file":      {"", "g() { echo g; }\nalias h='echo h'", "g; alias h", "g\nalias h='echo h'\n"},
		"exported function":   {"f() { echo f; }; export -f f", "", "bash -c f", "f\n"},
		"extended pattern":    {"shopt -s extglob\nf() { case $1 in @(a|b)) echo yes;; esac; }", "", "f b", "yes\n"},
		"alias in use":        {"shopt -s expand_aliases\nalias h='echo \"it'\\''s\"'", "", "h", "it's\n"},
		"options":             {"set -o noclobber; shopt -s nullglob; set +o braceexpand", "", "echo /none/*; echo {a,b}; set -o | grep -c 'noclobber.*on'", "\n{a,b}\n1\n"},
		"exported variable":   {"export V='a b'\nW=unexported", "", "echo \"[$V][$W]\"", "[a b][]\n"},
		"arguments":           {"", "", "echo $0 $1 $#", "zero one 1\n"},
		"noise":               {"echo noise; echo noise >&2", "echo noise", "echo out", "out\n"},
		"hidden builtins":     {"printf() { :; }; declare() { :; }; eval() { :; }; unset() { :; }; env() { :; }; f() { echo f; }", "", "f", "f\n"},
		"errexit":             {"set -e", "", "false; echo not reached", ""},
		"nounset":             {"set -u", "", "echo ${none-no}", "no\n"},
		"nothing is left":     {"", "", "env | grep -c SNAPSHOT; echo ${__CODEX_SHELL_SNAPSHOT_0-none}", "0\nnone\n"},
		"not a login shell":   {"", "", "shopt -q login_shell || echo none; echo $-", "none\nhBc\n"},
		"large":               {"f() { : " + strings.Repeat("0123456789 ", 30_000) + "; echo f; }", "", "f", "f\n"},
		"quotes in a command": {"", "", "echo \"$0\" 'a\"b' \\$x", "zero a\"b $x\n"},
	} {
		s, env := snapshotOf(t, c.profile, c.rc)
		if s == nil {
			t.Errorf("%s: no snapshot", name)
			continue
		}
		argv := s.Argv([]string{"bash", "-lc", c.command, "zero", "one"})
		got := bash(t, argv, slices.Concat(env, s.Environ, s.Variables()))
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestNoState: without a state, the command runs the start-up files itself.
func TestNoState(t *testing.T) {
	for _, profile := range []string{"exit 3", "exec true", "set -e; false", "kill $$"} {
		if s, _ := snapshotOf(t, profile, ""); s != nil {
			t.Errorf("%q: there is a snapshot", profile)
		}
	}
	marker := NewMarker()
	whole := "noise"
	for _, section := range sections {
		whole += "\n" + marker + "-" + section + "\n"
	}
	if _, err := Parse([]byte(whole), marker); err != nil {
		t.Error(err)
	}
	for i := range whole[:len(whole)-1] {
		if s, err := Parse([]byte(whole[:i]), marker); err == nil {
			t.Errorf("%q: got %v", whole[:i], s)
		}
	}
	large := strings.Replace(whole, "-functions\n", "-functions\n"+strings.Repeat("x", maxPiece*maxPieces), 1)
	if _, err := Parse([]byte(large), marker); err == nil {
		t.Error("a state was accepted that does not fit in an environment")
	}
}

func TestVariablesOfOneShellAreNotKept(t *testing.T) {
	got := environ("A=1\x00PWD=/\x00OLDPWD=/\x00SHLVL=1\x00_=/usr/bin/env\x00BASH_FUNC_f%%=() {\n}\x00B=x\ny\x00broken\x00=c\x00")
	if want := []string{"A=1", "B=x\ny"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
