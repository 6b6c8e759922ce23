package terminal

import (
	"fmt"
	"strings"
	"testing"

	"codex.internal/pkg/host/terminal/terminaltest"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"": "plain, in a line", "text\n": "plain", "no end": "plain, in a line", "100 %\r\n": "plain", "tab\there": "plain, in a line", "日本\n": "plain", "\x1b[0m": "other",
		"\a": "other", "\b": "other", "\x7f": "other", "\xff": "other", "\u009b": "other", "\xe6\x97": "other", "\x0e": "other",
	} {
		for size := 1; size <= 4; size++ {
			var p Plain
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				p.See(rest[:min(size, len(rest))])
			}
			got := "other"
			if p.Plain() {
				got = "plain"
				if p.InLine() {
					got += ", in a line"
				}
			}
			if got != want {
				t.Errorf("%q in pieces of %d: got %s, want %s", text, size, got, want)
			}
		}
	}
}

// TestResetInPlace: what was written before stays on the screen, and nothing follows the question.
func TestResetInPlace(t *testing.T) {
	for _, state := range []string{"", "\x1b[8m", "\x1b(0", "\x1b[?1049h", "\x1b[2;3r\x1b[2;1H", "\x1b[5;1Hbelow\x1b[2;1H"} {
		s := terminaltest.NewScreen(8, 36)
		fmt.Fprintf(s, "%sbefore\r\n%sReally? > ", state, ResetInPlace())
		got := s.Text()
		if !strings.HasSuffix(strings.TrimRight(got, "\n"), "Really? > ") && !strings.HasSuffix(strings.TrimRight(got, " \n"), "Really? >") {
			t.Errorf("after %q the screen ends otherwise:\n%s", state, got)
		}
		if state == "" && !strings.HasPrefix(got, "before\nReally?") {
			t.Errorf("the text before the question has moved:\n%s", got)
		}
	}
}
