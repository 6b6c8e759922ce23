package cmdutil

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"github.com/creack/pty"
)

const evil = "\x1b[31m\x1b]0;title\a\u202e\u009b31m\x9b"

func TestMessagesAreMadeSafeEverywhere(t *testing.T) {
	var out, errs bytes.Buffer
	s := NewStreams(nil, &out, &errs)
	fmt.Fprint(s.Out, evil)
	fmt.Fprint(s.RawErr, evil)
	if out.String() != evil || errs.String() != evil {
		t.Errorf("what is for programs was changed: %q, %q", out.String(), errs.String())
	}
	errs.Reset()
	Messagef(s.Err, "codex: %v\nnext\n", errors.New(evil+"\ncodex: all is well"))
	if want := `codex: \x1b[31m\x1b]0;title\x07\u202e\u009b31m\x9b\ncodex: all is well` + "\nnext\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}

func TestTerminalsShowNothingThatSteersThem(t *testing.T) {
	master, tty, err := pty.Open()
	testutil.Need(t, "terminals", err, fs.ErrNotExist)
	defer master.Close()
	s := NewStreams(tty, tty, tty)
	fmt.Fprint(s.Out, "out "+evil+" ")
	fmt.Fprint(s.Err, "err "+evil+" ")
	fmt.Fprintln(s.Out, ListedNames(s.Out)("a\nb"))
	fmt.Fprint(s.RawOut, "\x1b[0m") // this output is not escaped
	_ = tty.Close()
	text, _ := io.ReadAll(master)
	if got := string(text); strings.Count(got, "\x1b") != 1 || strings.ContainsAny(got, "\u202e\u009b") || !strings.Contains(got, `a\nb`) {
		t.Errorf("got %q; want strings.Count(got, \"\\x1b\") 1, a text with none of \"\\u202e\\u009b\", a text with %q", got, `a\nb`)
	}
	if got := ListedNames(io.Discard)("a\tb"); got != "\xffa\tb\xff" {
		t.Errorf("a table would change %q", got)
	}
}

func TestMessagesWaitForTheAnswer(t *testing.T) {
	var errs bytes.Buffer
	s := NewStreams(nil, io.Discard, &errs)
	show := HoldMessages(s.Err)
	fmt.Fprint(s.Err, evil)
	fmt.Fprint(DrawOn(s.Err), "\x1b[K")
	fmt.Fprint(s.Err, strings.Repeat("x", 2*maxSaid)+"end")
	if errs.Len() != 0 {
		t.Errorf("while a question is asked there is %q", errs.String())
	}
	show()
	if got := errs.String(); len(got) != maxSaid || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
	fmt.Fprint(s.Err, "again")
	if !strings.HasSuffix(errs.String(), "again") {
		t.Errorf(`got %q, want a text ending in "again"`, errs.String())
	}
}
