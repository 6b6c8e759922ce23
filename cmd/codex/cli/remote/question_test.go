//go:build unix

package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"codex.internal/pkg/approval"
	"codex.internal/pkg/host/terminal/terminaltest"
	"codex.internal/pkg/testutil"
	"github.com/creack/pty"
)

// person is a user at the terminal of a question.
type person struct {
	t       *testing.T
	keys    *os.File
	screen  *terminaltest.Screen
	seen    string
	console *console
	tty     *os.File
}

func newPerson(t *testing.T, rows, cols int) *person {
	t.Helper()
	master, tty, err := pty.Open()
	testutil.Need(t, "terminals", err, fs.ErrNotExist)
	in := newInput(tty)
	p := &person{t: t, keys: master, tty: tty, console: &console{f: tty, in: in, out: tty, written: new(written).get}}
	t.Cleanup(func() {
		in.close()
		_ = tty.Close()
		_ = master.Close()
	})
	p.resize(rows, cols)
	return p
}

func (p *person) resize(rows, cols int) {
	p.t.Helper()
	if err := pty.Setsize(p.keys, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}); err != nil {
		p.t.Fatal(err)
	}
	p.screen = terminaltest.NewScreen(rows, cols)
}

// reads reads until the terminal has shown text since the last call.
func (p *person) reads(text string) {
	p.t.Helper()
	b := make([]byte, 4096)
	for !strings.Contains(p.seen, text) {
		n, err := p.keys.Read(b)
		if err != nil {
			p.t.Fatalf("no %q: %q, %v", text, p.seen, err)
		}
		p.seen += string(b[:n])
		_, _ = p.screen.Write(b[:n])
	}
	_, p.seen, _ = strings.Cut(p.seen, text)
}

func (p *person) types(keys string) {
	p.t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// asked begins to ask a question. The returned function waits for the answer.
func (p *person) asked(q question) func() (approval.Answer, error) {
	type result struct {
		answer approval.Answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		a, err := p.console.ask(context.Background(), q)
		done <- result{a, err}
	}()
	return func() (approval.Answer, error) {
		r := <-done
		return r.answer, r.err
	}
}

func TestTheQuestionIsLastOnTheScreen(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	q := question{facts: []string{"sandbox: it was denied"}, command: "rm -rf x", ask: "Really?"}
	const want = `== codex asks; above this line is other output ===========================
sandbox: it was denied
  command: rm -rf x
Really?
  [y] yes, once   [s] yes, for this session   [n] no   >`
	for _, state := range []string{
		"", "in the middle of a line", "\x1b]0;", "\x1bP", "\x1b_", "\x1b^", "\x1b[8m", "\x1b[30;40m", "\x1b[38;2;1;1;1;48;2;1;1;1m",
		"\x1b[?1049h\x1b[H\x1b[8m", "\x1b[?47h\x1b(0", "\x1b)0\x0e", "\x1b[1;2r\x1b[?6h", "\x1b[?69h\x1b[1;2s", "\x1b[?7l", "\x1b[4h", "\x1b[5i", "\x1b[?2026h",
		"\x1b[24;1HReally?\r\n  [y] yes   > \x1b[H", "\x1b]10;#000\a\x1b]11;#000\a", "\x1b",
	} {
		t.Run(fmt.Sprintf("%q", state), func(t *testing.T) {
			t.Parallel() // the test waits until keys count as an answer
			p := newPerson(t, 24, 74)
			text := "output\nUpdate? [y/N] " + state
			fmt.Fprint(p.tty, text)
			w := new(written)
			w.see([]byte(text))
			p.console.written = w.get
			answer := p.asked(q)
			p.reads("[n] no   > ")
			if got := p.screen.Text(); !strings.HasSuffix(got, want) {
				t.Errorf("the screen shows\n%s", got)
			} else if state == "" && !strings.HasPrefix(got, "output\nUpdate? [y/N]\n"+want) {
				t.Errorf("plain output does not stay above the question:\n%s", got)
			}
			p.types("yes\n")
			if a, err := answer(); a != approval.Once || err != nil {
				t.Errorf("got a %v, error %v; want a %v, no error", a, err, approval.Once)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for keys, want := range map[string]approval.Answer{
		"y\n": approval.Once, "Y\n": approval.Once, "yes\n": approval.Once, " YES \n": approval.Once, "s\n": approval.ForSession, "S\n": approval.ForSession,
		"\n": approval.Deny, "n\n": approval.Deny, "no\n": approval.Deny, "ye\n": approval.Deny, "yy\n": approval.Deny, "\x1b[?1;2cy\n": approval.Deny, "\x04": approval.Deny,
	} {
		t.Run(fmt.Sprintf("%q", keys), func(t *testing.T) {
			t.Parallel() // the test waits until keys count as an answer
			p := newPerson(t, 24, 80)
			answer := p.asked(question{command: "true", ask: "Really?"})
			p.reads("[n] no   > ")
			p.types(keys)
			if a, err := answer(); a != want || err != nil {
				t.Errorf("got a %v, error %v; want a %v, no error", a, err, want)
			}
		})
	}
}

// Keys that are typed before the cue do not count as an answer, and are not shown between the
// question and the cue.
func TestKeysBeforeTheQuestionAreDropped(t *testing.T) {
	p := newPerson(t, 24, 80)
	p.types("y\n") // echoed, as on the terminal of any program
	p.reads("y\r\n")
	answer := p.asked(question{command: "true", ask: "Really?"})
	p.reads("[n] no   ")
	p.types("y\ny")
	p.reads("> ")
	p.types("\n")
	if a, err := answer(); a != approval.Deny || err != nil {
		t.Errorf("got a %v, error %v; want a %v, no error", a, err, approval.Deny)
	}
	p.reads("\r\n")
	if got := p.screen.Text(); !strings.HasSuffix(got, "\nReally?\n  [y] yes, once   [s] yes, for this session   [n] no   >") {
		t.Errorf("the screen shows\n%s", got)
	}
}

// Every part of a long command stays on the screen until the user continues.
func TestLongCommandsAreShownInParts(t *testing.T) {
	long := func(words int) string {
		var b strings.Builder
		for i := range words {
			fmt.Fprintf(&b, "word%03d ", i)
		}
		return strings.TrimSpace(b.String())
	}
	for size, command := range map[[2]int]string{{24, 80}: long(300), {9, 32}: long(12), {10, 200}: long(300)} {
		p := newPerson(t, size[0], size[1])
		answer := p.asked(question{facts: []string{"sandbox: it was denied"}, command: command, ask: "Really?"})
		shown := ""
		for part := 1; ; part++ {
			p.reads("part ")
			p.reads("[n] no")
			p.reads("> ")
			text := p.screen.Text()
			_, text, ok := strings.Cut(text[strings.LastIndex(text, "=="):], "\n")
			if !ok || !strings.HasPrefix(text, fmt.Sprintf("part %d of ", part)) {
				t.Fatalf("%v: the screen shows\n%s", size, p.screen.Text())
			}
			for _, line := range strings.Split(text, "\n") {
				rest, more := strings.CutPrefix(line, bar)
				if first, ok := strings.CutPrefix(line, "  command: "); ok {
					rest, more = first, true
				}
				if more {
					// The last column is always empty, so a trailing space in it is not lost.
					shown += rest + strings.Repeat(" ", max(0, size[1]-1-len(line)))
				}
			}
			if strings.Contains(text, "Really?") {
				break
			}
			p.types("\n")
		}
		if got := strings.TrimRight(shown, " "); got != command {
			t.Errorf("%v: %d of %d characters were shown: %s", size, len(got), len(command), got)
		}
		p.types("y\n")
		if a, err := answer(); a != approval.Once || err != nil {
			t.Errorf("%v: got a %v, error %v; want a %v, no error", size, a, err, approval.Once)
		}
	}
	// A yes to the first part is not a yes to the question.
	p := newPerson(t, 24, 80)
	answer := p.asked(question{command: long(300), ask: "Really?"})
	p.reads("> ")
	p.types("y\ny\n")
	if a, err := answer(); a != approval.Deny || err != nil {
		t.Errorf("got a %v, error %v; want a %v, no error", a, err, approval.Deny)
	}
}

func TestNobodyIsAskedWhereTheQuestionDoesNotFit(t *testing.T) {
	for _, size := range [][2]int{{8, 80}, {24, 31}, {1, 1}} {
		p := newPerson(t, size[0], size[1])
		if a, err := p.console.ask(context.Background(), question{command: "true"}); a != approval.Deny || !errors.Is(err, errSmallTerminal) {
			t.Errorf("%v: got a %v, error %v; want a %v, error %v", size, a, err, approval.Deny, errSmallTerminal)
		}
	}
	p := newPerson(t, 0, 0) // a terminal that does not report its size
	p.screen = terminaltest.NewScreen(24, 80)
	answer := p.asked(question{command: "true", ask: "Really?"})
	p.reads("> ")
	p.types("y\n")
	if a, err := answer(); a != approval.Once || err != nil {
		t.Errorf("got a %v, error %v; want a %v, no error", a, err, approval.Once)
	}
}

// Parts of a command cannot look like lines of the question.
func TestCommandsCannotImitateTheQuestion(t *testing.T) {
	fake := "true" + strings.Repeat(" ", 62) + "Really?" + strings.Repeat(" ", 72) + "  [y] yes"
	all, err := question{command: shellQuote(fake), ask: "Run it?"}.screenfuls(24, 80)
	if err != nil || len(all) != 1 {
		t.Fatalf("got all %v, error %v; want no error, len(all) 1", all, err)
	}
	for _, line := range strings.Split(all[0].text, "\n") {
		for _, part := range []string{"Really?", "[y] yes "} {
			if strings.Contains(line, part) && !strings.HasPrefix(line, bar) && part == "Really?" {
				t.Errorf(`got %q, want part other than "Really?"`, line)
			}
		}
	}
	for word, want := range map[string]string{
		"a\nb\tc":       `$'a\nb\tc'`,
		"\u05d0\u3164":  `$'\u05d0\u3164'`,
		"\U000e0041'\\": `$'\U000e0041\'\\'`,
		"\u009b":        `$'\u009b'`,
		"e\u0301":       "'e\u0301'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
