package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"codex.internal/pkg/host/terminal/terminaltest"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"plain text, größer: 漢字 🙂 שלום": "plain text, größer: 漢字 🙂 שלום",
		"\x1b[31mred\x07":                 `\x1b[31mred\x07`,
		"a\r\n\tb\x00\x7f":                `a\r\n\tb\x00\u007f`,
		"\x9b31m \xff\xc3":                `\x9b31m \xff\xc3`, // bytes that are not UTF-8
		"\u009b31m":                       `\u009b31m`,        // C1 controls, as characters
		"\u202egpj.exe\u2066\u061c":       `\u202egpj.exe\u2066\u061c`,
		"\u200e\u200f\u200b\u2060\ufeff":  `\u200e\u200f\u200b\u2060\ufeff`,
		"\u2028\u2029\u0085":              `\u2028\u2029\u0085`,
		"\u00a0\u3000\u2003":              `\u00a0\u3000\u2003`,
		"\u115f\u3164\uffa0\u2800":        `\u115f\u3164\uffa0\u2800`, // letters and symbols that look empty
		"a\ufe0f":                         `a\ufe0f`,
		"\U000e0041\U000e0100":            `\udb40\udc41\udb40\udd00`, // tags, and the variation selectors next to them
		"\ue000":                          `\ue000`,
		"e\u0301":                         "e\u0301",
		"\u0301e":                         `\u0301e`, // it would be drawn over the text before it
		"e" + strings.Repeat("\u0301", 6): "e" + strings.Repeat("\u0301", 4) + `\u0301\u0301`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := Literal("rm \u05d0\u0627 größer\x1b"); got != `rm \u05d0\u0627 größer\x1b` {
		t.Errorf("Literal: %s", got)
	}
}

// FuzzText checks that every character of the result is visible, and that visible text does not
// change.
func FuzzText(f *testing.F) {
	f.Add("\x1b[31m\u202e\x9b\U000e0041e\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("%q: got %q, want valid UTF-8 that Text does not change", s, got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q: got %q, want no control characters", s, got)
		}
	})
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, piece := range []string{"gr\xc3", "\xb6\xc3\x9fer\r", "\nline\rover\x1b", "[2J\n\xe2\x80", "\xae\tend\n"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("%q: got n %d, error %v; want n %d, no error", piece, n, err, len(piece))
		}
	}
	const want = "größer\nline\\rover\\x1b[2J\n\\u202e\tend\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestWriterKeepsJSON(t *testing.T) {
	const text = "\u202e\u009b\x7f\U000e0041\x1b"
	var line, out bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	_, _ = NewWriter(&out).Write(line.Bytes())
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != text {
		t.Errorf("got %q, error %v, out.Bytes() %q; want no error, %q", got, err, out.Bytes(), text)
	}
}

// hostile are states in which a program can leave a terminal.
var hostile = []string{
	"", "text", "\x1b", "\x1b[", "\x1b[12;", "\x1b(", "\x1b#",
	"\x1b]0;", "\x1b]0;x\x1b", "\x1bP", "\x1bP1$q", "\x1b_", "\x1b^", "\x1bX", "\x1b_Ga=T;AAAA\x1b\\",
	"\x1b[8m", "\x1b[30;40m", "\x1b[38;5;0;48;5;0m", "\x1b[38;2;1;1;1m\x1b[48;2;1;1;1m", "\x1b]10;#000\a\x1b]11;#000\a", "\x1b]4;7;#000\x1b\\",
	"\x1b[?1049h", "\x1b[?47h", "\x1b[?1047h", "\x1b[?1049h\x1b[8m\x1b(0", "\x1b[1;1H\x1b[8m\x1b(0\x1b7\x1b[?6h",
	"\x1b[1;2r", "\x1b[1;3r\x1b[?6h", "\x1b[5;6r\x1b[10;1H", "\x1b[?69h\x1b[1;2s", "\x1b[?7l\x1b[1;99H", "\x1b[4h", "\x1b[?6h",
	"\x1b(0", "\x1b)0\x0e", "\x1b*0\x1bn", "\x1b+0\x1bo", "\x1b[1;1H", "\x1b[H\x1b[J", "\x1b[24;1Hfake > \x1b[1;1H", "\x1b#8\x1b[H",
	"\x1b[?2l", "\x1b[5i", "\x1b[1$}", "\x1b[?2026h", "\x1b[?25l\x1b[?5h\x1b[?1003h\x1b[?2004h",
	"\xe2\x80", "\x1b]8;;http://x\x1b\\", "\x1b[?1049h\x1b[?2l", "\x1b]0;\x1b[?1049h\x1b[8m\x1bP",
}

func TestReset(t *testing.T) {
	const question = "+----------------------------------+\r\nReally? [y/n] > "
	squeeze := strings.NewReplacer("\r\n", "", "\n", "", " ", "").Replace
	for _, state := range hostile {
		s := terminaltest.NewScreen(8, 36)
		fmt.Fprintf(s, "before\r\n%s%s%s", state, Reset(), question)
		if got := s.Text(); !strings.HasSuffix(squeeze(got), squeeze(question)) {
			t.Errorf("%q: the screen shows\n%s", state, got)
		}
		if line, column := s.Cursor(); line != 7 || column != 16 || s.Modes() != "" {
			t.Errorf("%q: the cursor is at %d, %d, modes %q", state, line, column, s.Modes())
		}
	}
	// These states hide the question unless they are reset. They show that the test above can fail.
	for _, state := range []string{
		"\x1b]0;", "\x1bP", "\x1b_", "\x1b[8m", "\x1b[30;40m", "\x1b]10;#000\a", "\x1b(0", "\x1b)0\x0e", "\x1b*0\x1bn", "\x1b[5i", "\x1b[1$}",
		"\x1b[?2026h", "\x1b[?69h\x1b[1;2s", "\x1b_Ga=T;AAAA\x1b\\", "\x1b[8;1Hfake > \x1b[1;1H",
	} {
		s := terminaltest.NewScreen(8, 36)
		fmt.Fprintf(s, "before\r\n%s\r\n%s", state, question)
		if squeeze(s.Text()) != "" && strings.HasSuffix(squeeze(s.Text()), squeeze(question)) {
			t.Errorf("%q: the question can be read without Reset", state)
		}
	}
}
