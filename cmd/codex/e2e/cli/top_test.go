package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// hostileArgument would set the title of a terminal's window and clear its screen.
const hostileArgument = "\x1b]0;owned\a\x1b[2J\u202e\nlast"

// TestTop lists a detached process and a process of a session with all commands. An argument of
// theirs that could control a terminal is escaped.
func TestTop(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	d.must("run", "--detach", "--name", "busy", "--", "sh", "-c", "sleep 600 & while :; do :; done", hostileArgument)
	shell := harness.AtTerminal(t, "remote", "run", "--url", d.url, "-t", "--", "sh", "-c", "echo begun; exec sleep 600", hostileArgument)
	shell.Expect("begun")

	// The numbers include the command and its child.
	type line struct {
		Handle, Session, Client, ProcessID, Status string
		Usage                                      *struct{ UserMS, SystemMS, MemoryBytes, Processes uint64 }
	}
	list := func(command string, args ...string) (lines []line) {
		t.Helper()
		for text := range strings.Lines(d.must(command, args...)) {
			var l line
			harness.Must(t, json.Unmarshal([]byte(text), &l))
			lines = append(lines, l)
		}
		return lines
	}
	testutil.Eventually(t.Context(), t, "the numbers of the detached process", func() (string, bool) {
		text := d.must("top", "--json")
		lines := list("top", "--json")
		return text, len(lines) == 2 && lines[0].Handle == "busy" && lines[0].Usage != nil && lines[0].Usage.UserMS > 0 && lines[0].Usage.Processes == 2 &&
			lines[1].Session != "" && lines[1].Client != "" && lines[1].Usage != nil && lines[1].Usage.MemoryBytes > 0
	})
	if lines := list("ps", "--json"); len(lines) != 1 || lines[0].Usage == nil || lines[0].Usage.Processes != 2 {
		t.Errorf("ps lists %+v", lines)
	}
	if lines := list("ps", "--all", "--json"); len(lines) != 2 {
		t.Errorf("ps --all lists %+v", lines)
	}
	if lines := list("stats", "--json", "busy"); len(lines) != 1 || lines[0].ProcessID != "detached/busy" || lines[0].Usage == nil {
		t.Errorf("stats prints %+v", lines)
	}
	if _, errs, code := d.run("stats", "nothing"); code != 1 || !strings.Contains(errs, "no such process") {
		t.Errorf("stats of no process: %d %s", code, errs)
	}

	// Write to a file and to a terminal.
	for _, command := range [][]string{{"ps"}, {"ps", "--all"}, {"top"}, {"stats"}} {
		out := d.must(command[0], command[1:]...)
		if strings.ContainsAny(out, "\x1b\a\u202e") || !strings.Contains(out, "busy") {
			t.Errorf("%v prints %q", command, out)
		}
	}
	topAtTerminal(t, d.url)

	// --follow ends with the process.
	follow := harness.AtTerminal(t, "remote", "stats", "--url", d.url, "-f", "--interval", "1s", "busy")
	follow.Expect("busy")
	d.must("kill", "busy")
	if rest, code := follow.End(); code != 0 || !strings.Contains(rest, "exited 137") {
		t.Errorf("stats --follow: %d %q", code, rest)
	}
}

// topAtTerminal watches three tables, and leaves. The processes' argument does not control the
// terminal.
func topAtTerminal(t *testing.T, url string) {
	t.Helper()
	top := harness.AtTerminal(t, "remote", "top", "--url", url, "--interval", "1s")
	var screen string
	for range 3 { // read as many tables
		screen += top.UpTo("q ends") + top.UpTo(`\nlast`)
	}
	top.Types("q")
	rest, code := top.End()
	if code != 0 || !strings.HasSuffix(rest, "\x1b[?1049l") || !strings.Contains(screen, `\x1b]0;owned\x07\x1b[2J`) {
		t.Errorf("exit code %d, %q %q", code, screen, rest)
	}
	for _, raw := range []string{"\x1b]", "\x1b[2J", "\a", "\u202e"} {
		if strings.Contains(screen+rest, raw) {
			t.Errorf("the terminal got %q", raw)
		}
	}
}
