package cli

import (
	"strings"
	"testing"
)

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
