package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBashCompletion has bash complete with a codex that writes down what it
// is called with: what is behind -- must not be run for a press of a key.
func TestBashCompletion(t *testing.T) {
	for _, tt := range []struct {
		name, words       string // the words of the line, the last to be completed
		called, completed string
	}{
		{"a command", "codex remote ''", "remote --generate-bash-completion", "run --env --env-var -e"},
		{"the start of a command", "codex remote r", "remote --generate-bash-completion", "run"},
		{"an option", "codex remote run --env-", "remote run - --generate-bash-completion", "--env-var"},
		{"any long option", "codex remote run --", "remote run - --generate-bash-completion", "--env --env-var"},
		{"another program's argument", "codex remote run -- rm -rf ''", "", ""},
		{"another program's option", "codex sandbox -- rm -", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			script := `codex() { printf '%s' "$*" > "$CALLS"; printf '%s\n' run --env --env-var -e; }` + "\n" + bashCompletion + `
COMP_WORDS=(` + tt.words + `) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_codex_complete
echo "${COMPREPLY[*]}"`
			cmd := exec.Command("bash", "-c", script)
			cmd.Env = append(os.Environ(), "CALLS="+calls)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("bash: %v: %s", err, out)
			}
			called, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if string(called) != tt.called {
				t.Errorf("codex was called with %q, not %q", called, tt.called)
			}
			if got := strings.TrimSpace(string(out)); got != tt.completed {
				t.Errorf("completed to %q, not %q", got, tt.completed)
			}
		})
	}
}

// TestCompletedName: beside OpenAI's codex the program has another name, and its
// script must leave the completion of codex alone.
func TestCompletedName(t *testing.T) {
	for arg0, want := range map[string]string{"codex": "codex", "/opt/bin/codex-go": "codex-go", "x;rm": "codex", "": "codex", "-bash": "codex"} {
		if got := completedName(arg0); got != want {
			t.Errorf("%q: %q, not %q", arg0, got, want)
		}
	}
	for shell, script := range map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion} {
		script = strings.ReplaceAll(strings.ReplaceAll(script, "@NAME@", "NAME"), "_codex_complete", "")
		if !strings.Contains(script, "NAME") || strings.Contains(script, "codex") {
			t.Errorf("the script for %s completes another program: %s", shell, script)
		}
	}
}
